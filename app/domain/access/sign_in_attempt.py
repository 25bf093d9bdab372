"""One try to sign in to the console at an identity provider: the secret in the browser's cookie, and what follows.

State, nonce and code verifier are computed from the secret, so that any API process can answer the provider's redirect
without storage, and only for the browser that began. OAuth 2.0 (RFC 6749), PKCE (RFC 7636) and OpenID Connect
name them.
"""

import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from dataclasses import dataclass, field
from typing import Final

from app.domain.access.console_session import safe_next

ATTEMPT_SECONDS: Final = 600
"""How long a person can take to sign in at the provider."""

MAX_NEXT_CHARACTERS: Final = 1000
"""Characters of the page to go to afterwards; a longer one is the start page. Browsers bound cookies to 4 kB."""

_COOKIE: Final = re.compile(r"([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{0,2000})")


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """The secret of one try, and the page to go to afterwards. The secret never appears in `repr`."""

    secret: str = field(repr=False)
    next: str

    @classmethod
    def of(cls, random: bytes, next_page: str) -> "SignInAttempt":
        """Return the attempt of 32 random bytes."""
        return cls(_text(random), safe_next(next_page if len(next_page) <= MAX_NEXT_CHARACTERS else None))

    @classmethod
    def parse(cls, cookie: str | None) -> "SignInAttempt | None":
        """Return the attempt in a cookie, None for anything else."""
        found = _COOKIE.fullmatch(cookie or "")
        if found is None:
            return None
        try:
            next_page = urlsafe_b64decode(found[2] + "=" * (-len(found[2]) % 4)).decode()
        except (Error, UnicodeDecodeError):
            return None
        return cls(found[1], safe_next(next_page))

    @property
    def cookie(self) -> str:
        """Return what the browser keeps until the provider sends it back."""
        return f"{self.secret}.{_text(self.next.encode())}"

    @property
    def state(self) -> str:
        """Return what the provider's redirect must carry: another browser's redirect has another one."""
        return self._derived(b"state")

    @property
    def nonce(self) -> str:
        """Return what the token must carry: the token of another sign-in has another one."""
        return self._derived(b"nonce")

    @property
    def verifier(self) -> str:
        """Return what exchanges the code, together with it."""
        return self._derived(b"verifier")

    @property
    def challenge(self) -> str:
        """Return the hash of the verifier, which the provider gets first."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())

    def is_state(self, given: str) -> bool:
        """Tell, in constant time, whether a redirect answers this attempt."""
        return hmac.compare_digest(self.state.encode(), given.encode())

    def is_nonce(self, claim: object) -> bool:
        """Tell, in constant time, whether a token was made for this attempt."""
        return isinstance(claim, str) and hmac.compare_digest(self.nonce.encode(), claim.encode())

    def _derived(self, purpose: bytes) -> str:
        return _text(hmac.new(self.secret.encode(), purpose, "sha256").digest())


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
