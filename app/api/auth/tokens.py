"""Whether tokens of an OpenID Connect issuer are accepted beside keys, as the settings say."""

from app.api.auth.authenticator import TokenVerifier
from app.domain.access.rights import Grant, Right
from app.settings import Settings
from app.settings.start_checks import check_tokens


def token_verifier(settings: Settings) -> TokenVerifier | None:
    """The verifier of tokens, None where no issuer is set. It asks the issuer for nothing yet.

    Raises Misconfigured for settings that do not go together, or without the extra `oidc`.
    """
    check_tokens(settings)
    issuer, audience = settings.oidc_issuer, settings.oidc_audience
    if issuer is None or audience is None:
        return None
    from app.api.auth.issuer_keys import IssuerKeys
    from app.api.auth.oidc import OidcVerifier

    granted_by = {
        name: Grant(frozenset(map(Right, granted.rights)), tuple(granted.tables))
        for name, granted in settings.oidc_rights.items()
    }
    return OidcVerifier(IssuerKeys(issuer), issuer, audience, granted_by)
