"""API keys: the list, one key with what can be done to it, the form of a new key, and a secret, which is shown once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import quote

from app.console import text
from app.console.views.notice import NoticeView
from app.domain.access.rate_limit import RateLimits
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
    name: str | None
    path: str
    rights: tuple[str, ...]
    tables: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    has_expired: bool
    last_used_at: datetime | None
    former_secret_until: datetime | None
    hmac: bool
    limits: str
    """What the key may send, in words."""
    is_own: bool
    """True for the key that the user has signed in with."""


@dataclass(frozen=True, slots=True)
class KeysView:
    """The list of all keys."""

    rows: tuple[KeyRow, ...]
    settings_key_id: str | None
    """The id of the key of the settings, which is not among the rows; None without one."""


@dataclass(frozen=True, slots=True)
class LimitFields:
    """The rate limits of a key as the fields of a form; an empty one means the limit of the settings."""

    requests_per_second: str = ""
    bytes_per_second: str = ""

    @classmethod
    def of(cls, limits: RateLimits) -> "LimitFields":
        """Return the fields that leave the limits as they are."""
        return cls(_digits(limits.requests_per_second), _digits(limits.bytes_per_second))


@dataclass(frozen=True, slots=True)
class KeyView:
    """One key, and what the user can do to it."""

    row: KeyRow
    name: str
    limits: LimitFields
    problems: tuple[str, ...] = ()
    """What is wrong with the name and the limits that were typed in."""
    notice: NoticeView | None = None
    overlaps: tuple[tuple[int, str], ...] = OVERLAPS


@dataclass(frozen=True, slots=True)
class NewKeyView:
    """The form of a new key, with what was typed in and what was wrong with it."""

    can_sign: bool
    """Whether the gateway can derive signing secrets."""
    name: str = ""
    chosen: frozenset[str] = frozenset()
    tables: str = "*"
    expires: str = ""
    hmac: bool = False
    limits: LimitFields = LimitFields()
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
        name=key.name,
        path=path_of(key.key_id),
        rights=tuple(key.rights),
        tables=key.table_patterns,
        created_at=key.created_at,
        expires_at=key.expires_at,
        has_expired=not key.secret_hashes,
        last_used_at=key.last_used_at,
        former_secret_until=key.former_secret_until,
        hmac=key.signing_salt is not None,
        limits=_in_words(key.limits),
        is_own=key.key_id == user,
    )


def keys_view(keys: Sequence[StoredKey], user: str, settings_key_id: str | None) -> KeysView:
    """Return the list of all keys, the newest first."""
    return KeysView(tuple(key_row(key, user) for key in reversed(keys)), settings_key_id)


def _in_words(limits: RateLimits) -> str:
    requests, size = limits.requests_per_second, limits.bytes_per_second
    words = [] if requests is None else [f"{_digits(requests)} requests a second"]
    words += [] if size is None else [f"{text.size(size)} a second"]
    return ", ".join(words) or "those of the settings"


def _digits(limit: float | None) -> str:
    """Return a limit with all its digits, such as `0.5` or `1000000`."""
    return "" if limit is None else repr(float(limit)).removesuffix(".0")


def path_of(key_id: str) -> str:
    """Return the path of a key's page."""
    return f"{PATH}/{quote(key_id, safe='')}"
