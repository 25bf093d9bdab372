"""Callers: their keys and rate limits, and what a key or a token allows on which tables.

A key has the text `mg_<id>_<secret>`; its hash is stored. Rate limits are token buckets: a quota per window that
refills steadily. What is not granted is denied. Beyond the right `register`, some rights are needed to change what the
options of a table keep from its mirror.

Webhook senders that cannot send a key sign the body with HMAC-SHA256. The signing secret of a key is derived from the
gateway's signing key, the id of the key and a random salt, so that the database holds nothing from which a signature
could be made (decision 0058). Invariant: signatures are compared in constant time, and no text from here holds a secret
or a signature.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from math import ceil, floor
from typing import Final

from app.domain.model.names import SourceName, TableName
from app.domain.model.table import Table
from app.domain.model.table_options import DEFAULT_OPTIONS, TableOptions
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.text import digits, size


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The rate limits of one key; None for no limit."""

    requests_per_second: float | None = None
    bytes_per_second: float | None = None

    def or_else(self, defaults: "RateLimits") -> "RateLimits":
        """Return these limits, with the defaults for those that are not set."""
        requests, size = self.requests_per_second, self.bytes_per_second
        return RateLimits(
            defaults.requests_per_second if requests is None else requests,
            defaults.bytes_per_second if size is None else size,
        )


NO_LIMITS: Final = RateLimits()


class TokenBucket:
    """Allowance of `rate` units per second on average, and at most `quota` at once. Times are seconds of one clock.

    `quota` is the amount of one `window`: a second's worth, or one unit if that takes longer. A caller that has one
    unit left can spend any number, and then waits until the debt is paid. So a body larger than the quota passes, and
    delays the next ones.
    """

    __slots__ = ("_filled_at", "_left", "quota", "rate", "window")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self.window = max(1, ceil(1 / rate))
        self.quota = max(1, floor(rate * self.window))
        self._left = float(self.quota)
        self._filled_at = now

    def seconds_to_wait(self, now: float) -> float:
        """Return the seconds until one unit can be spent, 0 if it can be now."""
        self._fill(now)
        return max(0.0, (1 - self._left) / self.rate)

    def spend(self, units: float) -> None:
        """Spend units, also more than are left."""
        self._left -= units

    @property
    def left(self) -> int:
        """Units that can be spent at once, as of the last call with a time."""
        return max(0, floor(self._left))

    @property
    def seconds_to_full(self) -> int:
        """Seconds until the whole quota is available again, as of the last call with a time."""
        return ceil((self.quota - self._left) / self.rate)

    def _fill(self, now: float) -> None:
        self._left = min(float(self.quota), self._left + (now - self._filled_at) * self.rate)
        self._filled_at = now


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
    """The content of a signature header: digests, and the time that is signed with the body, if it has one."""

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
        """Return True if one of the digests is that of the body, and the time, if there is one, is close to `now`."""
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
        """Return True if the stored hash is this key's, in constant time."""
        return hmac.compare_digest(self.secret_hash, secret_hash)

    def matches_any(self, secret_hashes: Iterable[bytes]) -> bool:
        """Return True if one of the stored hashes is this key's. All are compared, whichever matches."""
        return sum(self.matches(secret_hash) for secret_hash in secret_hashes) > 0


def looks_like_a_token(text: str) -> bool:
    """Return True if a string has the shape of a signed token (JWS), which no API key has."""
    return _TOKEN.fullmatch(text) is not None


def format_key(key_id: str, secret: str) -> str:
    """Return the key's text, which is shown once."""
    return f"mg_{key_id}_{secret}"


def hash_secret(secret: str) -> bytes:
    """Return the SHA-256 of a secret. Secrets have 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(secret.encode()).digest()


def rates(limits: RateLimits) -> str:
    """Return how much a key may send, such as `0.5 requests a second`."""
    requests, length = limits.requests_per_second, limits.bytes_per_second
    said = [] if requests is None else [f"{digits(requests)} requests a second"]
    said += [] if length is None else [f"{size(length)} a second"]
    return ", ".join(said) or "those of the settings"


EVERY_TABLE: Final = "*"


class Right(StrEnum):
    """A right of a caller. `admin` includes the others."""

    INGEST = "ingest"
    READ = "read"
    REGISTER = "register"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights, and the patterns (`*`, `sales.*`, `orders`) of the tables that they are for."""

    rights: frozenset[Right]
    table_patterns: tuple[str, ...]

    def carries(self, right: Right) -> bool:
        """Return True if the grant includes this right."""
        return right in self.rights or Right.ADMIN in self.rights

    def covers(self, table: TableName) -> bool:
        """Return True if a pattern of the grant matches this table."""
        return _match_text(self.table_patterns, table.folded)


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request, with the tables that the right of the call allows it to touch.

    `key_id` is the id of a key, or `oidc:<subject>`. `grants` are those of a token with several roles.
    """

    key_id: str
    rights: frozenset[Right]
    table_patterns: tuple[str, ...]
    grants: tuple[Grant, ...] = ()

    def may_touch(self, table: TableName) -> bool:
        """Return True if the right of the call covers this table."""
        return _match_text(self.table_patterns, table.folded)

    def may_name(self, source: SourceName) -> bool:
        """Return True if the patterns match a source's name, which need not be a valid table name."""
        return _match_text(self.table_patterns, source.without_catalog.folded)

    def may(self, right: Right, table: TableName) -> bool:
        """Return True if one grant gives a right other than that of the call for this table."""
        grants = self.grants or (Grant(self.rights, self.table_patterns),)
        return any(grant.carries(right) and grant.covers(table) for grant in grants)

    def may_everywhere(self, right: Right) -> bool:
        """Return True if one grant gives a right other than that of the call for every table."""
        grants = self.grants or (Grant(self.rights, self.table_patterns),)
        return any(grant.carries(right) and EVERY_TABLE in grant.table_patterns for grant in grants)

    @property
    def oversees_every_table(self) -> bool:
        """True if the right of the call is for all tables."""
        return EVERY_TABLE in self.table_patterns


@dataclass(frozen=True, slots=True)
class Credential:
    """The proof of a valid key or token: its holder, the grants, and its rate limits."""

    subject: str
    grants: Sequence[Grant]
    limits: RateLimits = NO_LIMITS
    _principals: dict[Right, Principal | None] = field(default_factory=dict, compare=False, repr=False)
    """Results of `acting_by`: a cached credential serves many requests."""

    def acting_by(self, right: Right) -> Principal | None:
        """Return the caller of a call that needs this right, with its tables; None if the right is not granted."""
        if right not in self._principals:
            self._principals[right] = self._principal(right)
        return self._principals[right]

    def _principal(self, right: Right) -> Principal | None:
        carrying = [grant for grant in self.grants if grant.carries(right)]
        if not carrying:
            return None
        if len(self.grants) == 1:
            return Principal(self.subject, carrying[0].rights, carrying[0].table_patterns)
        patterns = dict.fromkeys(pattern for grant in carrying for pattern in grant.table_patterns)
        return Principal(self.subject, frozenset({right}), tuple(patterns), tuple(self.grants))


def _match_text(patterns: Sequence[str], folded: str) -> bool:
    """Return True if a pattern matches. A bracket is one in the name of a table, and no set of characters."""
    literal = (pattern.casefold().replace("[", "[[]") for pattern in patterns)
    return EVERY_TABLE in patterns or any(fnmatchcase(folded, pattern) for pattern in literal)


def check_row_rules(before: TableOptions | None, options: TableOptions, table: Table, principal: Principal) -> None:
    """Reject options of a table that the caller may not declare; `before` are those that it had, None for a new one.

    What hides values or rows can be added with the right `register`, and changed or removed with `admin`. A group joins
    the hashes of several tables, so a table can get another one only by a caller whose right is for all tables. Raises
    RejectedInput `forbidden`.
    """
    present = before or DEFAULT_OPTIONS
    joined = sorted(_groups(options).difference(_groups(present)))
    if joined and not principal.oversees_every_table:
        detail = f"the group {joined[0]!r} of hashes can span tables, and the key has the right for some tables only"
        raise RejectedInput(Code.FORBIDDEN, detail, remedy="Use a key with the right `register` for all tables (`*`).")
    revealed = next(_revealed(present, options), None)
    if revealed is not None and not principal.may(Right.ADMIN, table.name):
        detail = f"{revealed} of table {table.name} hides values or rows; changing that needs the right `admin`"
        raise RejectedInput(Code.FORBIDDEN, detail)


def _groups(options: TableOptions) -> set[str]:
    return {mask.group for mask in options.masks.values() if mask.group is not None}


def _revealed(present: TableOptions, options: TableOptions) -> Iterator[str]:
    """Yield what hides values or rows now and would not, or would do it in another way."""
    for column, mask in present.masks.items():
        if options.masks.get(column) != mask:
            yield f"the mask of column {column!r}"
    for column in present.exclude:
        if column not in options.exclude:
            yield f"the exclusion of column {column!r}"
    if present.filter is not None and options.filter != present.filter:
        yield "the filter"
