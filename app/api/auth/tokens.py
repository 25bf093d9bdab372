"""Build from the settings what verifies OpenID Connect tokens and what signs people in, if they name an issuer.

Verifies tokens of an OpenID Connect issuer, such as Entra ID, and returns what they grant.
"""

import threading
from typing import Any, Final

import jwt

from app.api.auth.authenticator import TokenVerifier
from app.api.auth.code_flow import CodeFlow, Registration
from app.api.auth.issuer_keys import IssuerKeys
from app.domain.access.rights import Credential, Grant, Right
from app.domain.access.sign_in import SignInAttempt, credential_of
from app.settings import Settings
from app.settings.start_checks import check_tokens
from mirrorgate.errors import Code, RejectedInput

ALGORITHMS: Final = ("RS256", "ES256")
"""Asymmetric signatures only: with HMAC, everyone who can verify a token could also sign one."""

LEEWAY_SECONDS: Final = 30
MAX_TOKEN_CHARACTERS: Final = 16_384
MAX_CLOSE_SECONDS: Final = 1.0
"""Seconds for which `close` waits for a read of the issuer's keys; the daemon thread then ends with the process."""

_MAX_KEY_ID_CHARACTERS: Final = 256


class OidcVerifier:
    """Verifier of access tokens for one audience and of ID tokens of sign-ins. Reads the issuer's keys when needed."""

    def __init__(self, keys: IssuerKeys, issuer: str, audience: str, granted_by: dict[str, Grant]) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._granted_by = granted_by
        self._thread = threading.Thread(target=keys.prefetch, name="issuer-keys", daemon=True)

    def start(self) -> None:
        """Read the issuer's keys in a thread, so that the first tokens need no second try."""
        self._thread.start()

    def close(self) -> None:
        """Wait for the thread, at most MAX_CLOSE_SECONDS. `start` must have been called."""
        self._thread.join(MAX_CLOSE_SECONDS)

    def credential(self, token: str) -> Credential:
        """Return what the token grants.

        Raises RejectedInput `unauthenticated`, or TemporarilyUnavailable `issuer_unavailable` if the issuer's keys are
        needed and cannot be read.
        """
        return credential_of(self._claims(token, self._audience), self._granted_by)

    def signed_in(self, token: str, client_id: str, attempt: SignInAttempt) -> tuple[Credential, float]:
        """Return what the ID token of a person grants, and when it expires, in seconds since 1970.

        Raises what `credential` raises, also for the token of another sign-in or of another client.
        """
        claims = self._claims(token, client_id)
        if not attempt.is_nonce(claims.get("nonce")):
            raise _rejection("was not made for this sign-in")
        if claims.get("azp", client_id) != client_id:
            raise _rejection("was made for another client")
        if "azp" not in claims and isinstance(claims["aud"], list) and len(claims["aud"]) > 1:
            raise _rejection("is for several audiences, and does not name the client that it was made for")
        return credential_of(claims, self._granted_by), float(claims["exp"])

    def _claims(self, token: str, audience: str) -> dict[str, Any]:
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise _rejection("is too long")
        key = self._keys.find(_key_id(token))
        if key is None:
            raise _rejection("is signed with a key that the issuer does not publish")
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key=key,
                algorithms=list(ALGORITHMS),
                audience=audience,
                issuer=self._issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"], "verify_iat": False},
            )
        except jwt.ExpiredSignatureError:
            raise _rejection("has expired") from None
        except jwt.ImmatureSignatureError:
            raise _rejection("is not valid yet") from None
        except jwt.InvalidAudienceError:
            raise _rejection("is for another audience") from None
        except jwt.InvalidIssuerError:
            raise _rejection("is from another issuer") from None
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise _rejection("is not valid") from None
        return claims


def _key_id(token: str) -> str:
    """Return the id of the key that the token names as its signer. Nothing of the token is verified yet."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise _rejection("cannot be read") from None
    if header.get("alg") not in ALGORITHMS:
        raise _rejection(f"is not signed with {' or '.join(ALGORITHMS)}")
    key_id = header.get("kid")
    if not isinstance(key_id, str) or not 0 < len(key_id) <= _MAX_KEY_ID_CHARACTERS:
        raise _rejection("does not name the key that signed it")
    return key_id


def _rejection(what: str) -> RejectedInput:
    return RejectedInput(Code.UNAUTHENTICATED, f"the token {what}")


def token_verifier(settings: Settings) -> TokenVerifier | None:
    """Return the verifier of tokens, or None if no issuer is set. Does not contact the issuer.

    Raises Misconfigured for contradictory settings.
    """
    check_tokens(settings)
    issuer, audience = settings.oidc_issuer, settings.oidc_audience
    if issuer is None or audience is None:
        return None
    # Imported here: the extra `oidc` with PyJWT is optional.
    from app.api.auth.issuer_keys import IssuerKeys
    from app.api.auth.tokens import OidcVerifier

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
