"""Hashes of masked columns as docs/reference/options.md defines them."""

import hmac
from hashlib import sha256


def hashed(secret: bytes, scope: str, text: str) -> str:
    """Return the hash of a text in a scope: `table:` and the number of a table, or `group:` and a name."""
    return hmac.digest(hmac.digest(secret, scope.encode(), sha256), text.encode(), sha256).hex()
