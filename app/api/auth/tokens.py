"""Builds from the settings what verifies OpenID Connect tokens and what signs people in, if they name an issuer."""

from app.api.auth.authenticator import TokenVerifier
from app.api.auth.code_flow import CodeFlow, Registration
from app.domain.access.rights import Grant, Right
from app.settings import Settings
from app.settings.start_checks import check_tokens


def token_verifier(settings: Settings) -> TokenVerifier | None:
    """Return the verifier of tokens, or None if no issuer is set. Does not contact the issuer.

    Raises Misconfigured for contradictory settings, or if the extra `oidc` is not installed.
    """
    check_tokens(settings)
    issuer, audience = settings.oidc_issuer, settings.oidc_audience
    if issuer is None or audience is None:
        return None
    # Imported here: the extra `oidc` with PyJWT is optional.
    from app.api.auth.issuer_keys import IssuerKeys
    from app.api.auth.oidc import OidcVerifier

    return OidcVerifier(IssuerKeys(issuer), issuer, audience, _granted_by(settings))


def code_flow(settings: Settings, tokens: TokenVerifier | None) -> CodeFlow | None:
    """Return what signs people in to the console, or None if no client id is set. Does not contact the issuer."""
    issuer, client_id, redirect_url = settings.oidc_issuer, settings.oidc_client_id, settings.oidc_redirect_url
    if tokens is None or issuer is None or client_id is None or redirect_url is None:
        return None
    secret = settings.oidc_client_secret
    given = None if secret is None else secret.get_secret_value()
    return CodeFlow(Registration(issuer, client_id, given, redirect_url), tokens, _granted_by(settings).values())


def _granted_by(settings: Settings) -> dict[str, Grant]:
    """Return what each role or scope grants."""
    return {
        name: Grant(frozenset(map(Right, granted.rights)), tuple(granted.tables))
        for name, granted in settings.oidc_rights.items()
    }
