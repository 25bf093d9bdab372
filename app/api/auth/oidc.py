"""Access tokens of an OpenID Connect issuer, as Entra ID: verified, and turned into what they grant."""

import threading
from typing import Any, Final

import jwt

from app.api.auth.issuer_keys import IssuerKeys
from app.domain.access.rights import Credential, Grant
from app.domain.access.token_claims import credential_of
from app.errors import Code, RejectedInput

ALGORITHMS: Final = ("RS256", "ES256")
"""Signatures by a key that only the issuer has; nothing that a public key could make."""

LEEWAY_SECONDS: Final = 30
MOST_TOKEN_CHARACTERS: Final = 16_384
_MOST_KEY_ID_CHARACTERS: Final = 256


class OidcVerifier:
    """Verifies tokens for one audience. Knows the issuer's keys, which it asks for when a token needs them."""

    def __init__(self, keys: IssuerKeys, issuer: str, audience: str, granted_by: dict[str, Grant]) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._granted_by = granted_by

    def prepare(self) -> None:
        """Read the issuer's keys beside what else is done, so that the first tokens need not be tried again."""
        threading.Thread(target=self._keys.read_ahead, name="issuer-keys", daemon=True).start()

    def credential(self, token: str) -> Credential:
        """Raises RejectedInput `unauthenticated`, or TemporarilyUnavailable `issuer_unavailable` while the issuer's
        keys are needed and cannot be had."""
        return credential_of(self._claims(token), self._granted_by)

    def _claims(self, token: str) -> dict[str, Any]:
        if len(token) > MOST_TOKEN_CHARACTERS:
            raise _rejection("is too long")
        key = self._keys.find(_key_id(token))
        if key is None:
            raise _rejection("is signed by a key that the issuer does not publish")
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key=key,
                algorithms=list(ALGORITHMS),
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"], "verify_iat": False},
            )
        except jwt.ExpiredSignatureError:
            raise _rejection("has expired") from None
        except jwt.ImmatureSignatureError:
            raise _rejection("is not valid yet") from None
        except jwt.InvalidAudienceError:
            raise _rejection("is meant for another audience") from None
        except jwt.InvalidIssuerError:
            raise _rejection("is of another issuer") from None
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise _rejection("is not valid") from None
        return claims


def _key_id(token: str) -> str:
    """Which key a token says that it is signed by; nothing of it is proven yet."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise _rejection("cannot be read") from None
    if header.get("alg") not in ALGORITHMS:
        raise _rejection(f"is not signed with {' or '.join(ALGORITHMS)}")
    key_id = header.get("kid")
    if not isinstance(key_id, str) or not 0 < len(key_id) <= _MOST_KEY_ID_CHARACTERS:
        raise _rejection("does not name the key that signed it")
    return key_id


def _rejection(what: str) -> RejectedInput:
    return RejectedInput(Code.UNAUTHENTICATED, f"the token {what}")
