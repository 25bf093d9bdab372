"""HMAC-SHA256 signatures of request bodies, for webhook senders that cannot send a key.

The signing secret of a key is derived from the gateway's signing key, the id of the key and a random salt, so that the
database holds nothing from which a signature could be made (docs/decisions/0058).

Invariant: signatures are compared in constant time, and no text from here holds a secret or a signature.
"""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Final

MAX_SKEW_SECONDS: Final = 300
"""Seconds by which the time in a signature may differ from the gateway's clock."""

SALT_BYTES: Final = 16
_PURPOSE: Final = b"mirrorgate signing secret 1"
_PREFIX: Final = "sha256="
_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")
_TIME: Final = re.compile(r"[0-9]{1,12}")
_MAX_DIGESTS: Final = 4
"""Signatures that one header can have, as during a rotation of the sender."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a signature header has: digests, and the time that is signed with the body, if it has one."""

    digests: tuple[bytes, ...]
    time: str | None = None

    @classmethod
    def parse(cls, header: str) -> "Signature | None":
        """Read `sha256=<hex>` or `t=<seconds>,v1=<hex>`; None for anything else."""
        text = header.strip()
        if text.startswith(_PREFIX):
            digest = text.removeprefix(_PREFIX)
            return cls((bytes.fromhex(digest),)) if _DIGEST.fullmatch(digest) else None
        times, digests = [], []
        for part in text.split(","):
            name, _, value = part.strip().partition("=")
            if name == "t" and _TIME.fullmatch(value):
                times.append(value)
            elif name == "v1" and _DIGEST.fullmatch(value):
                digests.append(bytes.fromhex(value))
            elif name in {"t", "v1"} or not name:
                return None
        if len(times) != 1 or not 1 <= len(digests) <= _MAX_DIGESTS:
            return None
        return cls(tuple(digests), times[0])

    def is_of(self, body: bytes, secret: str, now: float) -> bool:
        """Tell whether one of the digests is that of the body, and the time, if there is one, is close to `now`."""
        signer = hmac.new(secret.encode(), digestmod=hashlib.sha256)
        if self.time is not None:
            if abs(now - int(self.time)) > MAX_SKEW_SECONDS:
                return False
            signer.update(self.time.encode() + b".")
        signer.update(body)
        expected = signer.digest()
        return sum(hmac.compare_digest(expected, digest) for digest in self.digests) > 0


def signing_secret(signing_key: str, key_id: str, salt: bytes) -> str:
    """Return the signing secret of an API key: 43 characters of letters, digits, - and _."""
    material = b"\0".join((_PURPOSE, key_id.encode(), salt))
    digest = hmac.new(signing_key.encode(), material, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
