"""API keys: their text `mg_<id>_<secret>`, and the hash that is stored of it."""

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
    """A key as a caller sends it. The secret never appears in `repr`."""

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
        """Tell, in constant time, whether the stored hash is this key's."""
        return hmac.compare_digest(self.secret_hash, secret_hash)

    def matches_any(self, secret_hashes: Iterable[bytes]) -> bool:
        """Tell whether one of the stored hashes is this key's. All are compared, whichever matches."""
        return sum(self.matches(secret_hash) for secret_hash in secret_hashes) > 0


def looks_like_a_token(text: str) -> bool:
    """Tell whether a text has the shape of a signed token (JWS), which no API key has."""
    return _TOKEN.fullmatch(text) is not None


def format_key(key_id: str, secret: str) -> str:
    """Return the key's text, which is shown once."""
    return f"mg_{key_id}_{secret}"


def hash_secret(secret: str) -> bytes:
    """Return the SHA-256 of a secret. Secrets have 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(secret.encode()).digest()
