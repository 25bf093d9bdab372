"""Sessions of the console: the token in a browser's cookie, and what is derived from it.

A session has one random secret, its token. The database keeps the token's hash; the token for forms and the binding to
the key that signed in are computed from the token, so they need no storage and cannot be computed from the database.
"""

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

TOKEN_BYTES: Final = 32
MAX_SESSION_SECONDS: Final = 12 * 3600
"""How long a session lasts at most, however much it is used."""

MAX_IDLE_SECONDS: Final = 3600
"""How long a session lasts that is not used. An open page refreshes itself, which counts as use."""

MAX_SESSIONS_OF_SUBJECT: Final = 50
"""Sessions of one key or person; the oldest end when there are more."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_START: Final = "/console"


@dataclass(frozen=True, slots=True)
class SessionToken:
    """The secret of one session. It never appears in `repr`."""

    text: str = field(repr=False)

    @classmethod
    def of(cls, random: bytes) -> "SessionToken":
        """Return the token of TOKEN_BYTES random bytes."""
        return cls(urlsafe_b64encode(random).rstrip(b"=").decode())

    @classmethod
    def parse(cls, text: str | None) -> "SessionToken | None":
        """Return the token in a cookie, None for anything else."""
        return cls(text) if text is not None and _TOKEN.fullmatch(text) else None

    @property
    def hash(self) -> bytes:
        """Return what the database stores of the token."""
        return hashlib.sha256(self.text.encode()).digest()

    @property
    def csrf(self) -> str:
        """Return the token that each form of the session carries."""
        return hmac.new(self.text.encode(), b"csrf", "sha256").hexdigest()

    def is_csrf(self, given: str) -> bool:
        """Tell, in constant time, whether a form carries the token of this session."""
        return hmac.compare_digest(self.csrf.encode(), given.encode())

    def proof(self, secret_hash: bytes) -> bytes:
        """Return what binds the session to the secret that signed in."""
        return hmac.new(self.text.encode(), secret_hash, "sha256").digest()

    def is_bound_to(self, proof: bytes, secret_hashes: Iterable[bytes]) -> bool:
        """Tell whether one of a key's present secrets is the one that signed in."""
        return any(hmac.compare_digest(proof, self.proof(secret_hash)) for secret_hash in secret_hashes)


def safe_next(text: str | None) -> str:
    """Return where to go after signing in: a path of the console, or its start page for anything else.

    Another address would let a link to the sign-in page send the browser to another site.
    """
    given = text or ""
    inside = given == _START or given.startswith((f"{_START}/", f"{_START}?"))
    plain = given.isascii() and given.isprintable() and not set(given) & set(' \\"<>')
    return given if inside and plain and "//" not in given.partition("?")[0] and ".." not in given else _START
