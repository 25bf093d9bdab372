"""API keys: the list, one key with what can be done to it, the form of a new key, and a secret, which is shown once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import quote

from app.domain.access.rights import Right
from app.staging.access.api_keys import StoredKey

PATH: Final = "/console/keys"
RIGHTS: Final[Mapping[Right, str]] = {
    Right.INGEST: "send changes",
    Right.READ: "see tables, files and dead letters",
    Right.REGISTER: "register tables and change their schema",
    Right.ADMIN: "all of these, and operate tables; with * also keys and the audit",
}
"""The rights with what they allow."""

OVERLAPS: Final = ((0, "none"), (3_600, "1 hour"), (86_400, "1 day"), (7 * 86_400, "7 days"), (30 * 86_400, "30 days"))
"""How long the present secret can stay valid after a rotation, in seconds and in words."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key without its secret."""

    id: str
    path: str
    rights: tuple[str, ...]
    tables: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    has_expired: bool
    last_used_at: datetime | None
    former_secret_until: datetime | None
    hmac: bool
    requests_per_second: float | None
    bytes_per_second: float | None
    is_own: bool
    """True for the key that the user has signed in with."""


@dataclass(frozen=True, slots=True)
class KeysView:
    """The list of all keys."""

    rows: tuple[KeyRow, ...]


@dataclass(frozen=True, slots=True)
class KeyView:
    """One key, and what the user can do to it."""

    row: KeyRow
    overlaps: tuple[tuple[int, str], ...] = OVERLAPS


@dataclass(frozen=True, slots=True)
class NewKeyView:
    """The form of a new key, with what was typed in and what was wrong with it."""

    can_sign: bool
    """Whether the gateway can derive signing secrets."""
    chosen: frozenset[str] = frozenset()
    tables: str = "*"
    expires: str = ""
    hmac: bool = False
    requests_per_second: str = ""
    bytes_per_second: str = ""
    problems: tuple[str, ...] = ()
    rights: Mapping[Right, str] = field(default_factory=lambda: RIGHTS)


@dataclass(frozen=True, slots=True)
class SecretView:
    """A new secret, which only this page shows. It never appears in `repr`."""

    id: str
    path: str
    title: str
    key: str = field(repr=False)
    signing_secret: str | None = field(repr=False)
    former_secret_until: datetime | None


def key_row(key: StoredKey, user: str) -> KeyRow:
    """Return a key as the console shows it to this user."""
    return KeyRow(
        id=key.key_id,
        path=path_of(key.key_id),
        rights=tuple(key.rights),
        tables=key.table_patterns,
        created_at=key.created_at,
        expires_at=key.expires_at,
        has_expired=not key.secret_hashes,
        last_used_at=key.last_used_at,
        former_secret_until=key.former_secret_until,
        hmac=key.signing_salt is not None,
        requests_per_second=key.limits.requests_per_second,
        bytes_per_second=key.limits.bytes_per_second,
        is_own=key.key_id == user,
    )


def keys_view(keys: Sequence[StoredKey], user: str) -> KeysView:
    """Return the list of all keys, the newest first."""
    return KeysView(tuple(key_row(key, user) for key in reversed(keys)))


def path_of(key_id: str) -> str:
    """Return the path of a key's page."""
    return f"{PATH}/{quote(key_id, safe='')}"
