"""The secret of masked columns, and the fingerprint by which processes with different secrets notice it.

A fingerprint is a salt and the scrypt hash of the secret under it, as passwords are stored: it shows whether a process
has the secret, and a guess costs as much as a guess of a password. Decision 0071 says where it is kept.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import scrypt, sha256
from typing import Final, Self

from app.domain.model.projection import MaskMethod
from app.domain.model.table import Table
from app.domain.model.table_options import TableOptions
from mirrorgate.errors import Code, TemporarilyUnavailable

SALT_BYTES: Final = 16
FINGERPRINT_BYTES: Final = SALT_BYTES + 32


class MaskSecret:
    """The secret of one process. It never appears in `repr`.

    Computing a fingerprint takes 50 ms and 16 MiB, so what was compared once is kept: a database has few of them.
    """

    __slots__ = ("_known", "value")

    def __init__(self, value: bytes) -> None:
        self.value: Final = value
        self._known: dict[bytes, bool] = {}

    @classmethod
    def given(cls, value: bytes | None) -> Self | None:
        """Return the secret of a setting; None if it is not set."""
        return None if value is None else cls(value)

    def fingerprint(self, salt: bytes) -> bytes:
        """Return the fingerprint of the secret under a salt."""
        return salt + scrypt(self.value, salt=salt, n=2**14, r=8, p=1, dklen=FINGERPRINT_BYTES - SALT_BYTES)

    def key_of(self, scope: str) -> bytes:
        """Return the key for the hashes of one scope. Nothing about the secret or another scope follows from it."""
        return hmac.digest(self.value, scope.encode(), sha256)

    def made(self, fingerprint: bytes | None) -> bool:
        """Return True if a fingerprint is of this secret; False for none."""
        if fingerprint is None:
            return False
        known = self._known.get(fingerprint)
        if known is None:
            known = hmac.compare_digest(self.fingerprint(fingerprint[:SALT_BYTES]), fingerprint)
            self._known[fingerprint] = known
        return known


@dataclass(frozen=True, slots=True)
class HashedTables:
    """The database's facts about the secrets of hashed columns."""

    by_name: Mapping[str, bytes]
    """For each live table with a hashed column, the fingerprint of the secret that its generation is hashed under."""

    def trouble(self, secret: MaskSecret | None) -> str | None:
        """Return why a process with this secret cannot serve tables with hashed columns; None if it can."""
        if not self.by_name:
            return None
        tables = "1 table has" if len(self.by_name) == 1 else f"{len(self.by_name)} tables have"
        if secret is None:
            return f"{tables} hashed columns, and MIRRORGATE_MASK_SECRET is not set"
        if not any(map(secret.made, set(self.by_name.values()))):
            return f"{tables} columns that are hashed under another MIRRORGATE_MASK_SECRET than that of this process"
        return None


def hashes(options: TableOptions | None) -> bool:
    """Return True if a column is masked by a hash, which needs the gateway's secret."""
    return options is not None and any(mask.method is MaskMethod.HASH for mask in options.masks.values())


def can_mask(table: Table, secret: MaskSecret | None) -> bool:
    """Return True if a process with this secret can mask the values of a table."""
    return not hashes(table.options) or (secret is not None and secret.made(table.mask_fingerprint))


def check_registered(before: Table | None, table: Table, secret: MaskSecret | None) -> None:
    """Reject a registration that declares hashes under another secret than that of this process.

    Other changes of a table that this process cannot mask pass. Raises TemporarilyUnavailable `mask_secret_differs`.
    """
    if not can_mask(table, secret) and (before is None or can_mask(before, secret)):
        detail = f"table {table.name} would be hashed under another secret than that of this process"
        raise TemporarilyUnavailable(Code.MASK_SECRET_DIFFERS, detail)
