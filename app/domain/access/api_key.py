"""API keys as text, `mg_<id>_<secret>`, and as what is stored of them."""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.errors import Code, RejectedInput

_TOKEN: Final = re.compile(r"(?!mg_)[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_KEY: Final = re.compile(r"mg_([0-9a-f]{8,32})_([A-Za-z0-9_-]{20,128})")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as its holder has it. The secret never appears in `repr`."""

    key_id: str
    secret_hash: bytes

    @classmethod
    def parse(cls, text: str) -> "ApiKey":
        """Read `mg_<id>_<secret>`. Raises RejectedInput `unauthenticated` without echoing the text."""
        match = _KEY.fullmatch(text)
        if match is None:
            raise RejectedInput(Code.UNAUTHENTICATED, "the key is not of the form mg_<id>_<secret>")
        return cls(match[1], hash_secret(match[2]))

    def matches(self, secret_hash: bytes) -> bool:
        """Whether the stored hash is this key's, in constant time."""
        return hmac.compare_digest(self.secret_hash, secret_hash)

    def matches_any(self, secret_hashes: Iterable[bytes]) -> bool:
        """Whether one of the stored hashes is this key's; each is looked at, whichever it is."""
        return sum(self.matches(secret_hash) for secret_hash in secret_hashes) > 0


def looks_like_a_token(text: str) -> bool:
    """Whether this has the shape of a signed token (JWS) and so is no API key."""
    return _TOKEN.fullmatch(text) is not None


def format_key(key_id: str, secret: str) -> str:
    """The key's text, shown once."""
    return f"mg_{key_id}_{secret}"


def hash_secret(secret: str) -> bytes:
    """SHA-256 of a secret. Secrets are random with 256 bits, so a slow hash would add nothing."""
    return hashlib.sha256(secret.encode()).digest()
