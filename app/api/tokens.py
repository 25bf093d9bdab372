"""Whether tokens of an OpenID Connect issuer are accepted beside keys, as the settings say."""

from app.api.auth import TokenVerifier
from app.domain.access import Grant, Right
from app.errors import Code, Misconfigured
from app.settings import Settings


def token_verifier(settings: Settings) -> TokenVerifier | None:
    """The verifier of tokens, None where no issuer is set. It asks the issuer for nothing yet.

    Raises Misconfigured `bad_setting` for settings that do not go together, or without the extra `oidc`.
    """
    issuer, audience = settings.oidc_issuer, settings.oidc_audience
    if issuer is None:
        return None
    if audience is None or not settings.oidc_rights:
        raise Misconfigured(
            Code.BAD_SETTING,
            "MIRRORGATE_OIDC_ISSUER needs MIRRORGATE_OIDC_AUDIENCE and MIRRORGATE_OIDC_RIGHTS",
            remedy="Set all three as docs/security.md says; a token without a role named there may do nothing.",
        )
    try:
        from app.api.oidc import OidcVerifier
        from app.api.oidc_keys import IssuerKeys, is_safe_address
    except ModuleNotFoundError as error:
        raise Misconfigured(
            Code.BAD_SETTING,
            "MIRRORGATE_OIDC_ISSUER is set, and the packages that verify tokens are not installed",
            remedy="Install mirrorgate[oidc].",
        ) from error
    if not is_safe_address(issuer):
        raise Misconfigured(Code.BAD_SETTING, "MIRRORGATE_OIDC_ISSUER must be an https address")
    granted_by = {
        name: Grant(frozenset(map(Right, granted.rights)), tuple(granted.tables))
        for name, granted in settings.oidc_rights.items()
    }
    return OidcVerifier(IssuerKeys(issuer), issuer, audience, granted_by)
