"""Rights of callers: what a key or a token allows, on which tables. What is not granted is denied.

Rights to change what the options of a table keep from its mirror, beyond the right `register`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from app.domain.access.api_key import NO_LIMITS, RateLimits
from app.domain.model.names import SourceName, TableName
from app.domain.model.table import Table
from app.domain.model.table_options import DEFAULT_OPTIONS, TableOptions
from mirrorgate.errors import Code, RejectedInput

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
        return _match(self.table_patterns, table)


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
        return _match(self.table_patterns, table)

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


def _match(patterns: Sequence[str], table: TableName) -> bool:
    return _match_text(patterns, table.folded)


def _match_text(patterns: Sequence[str], folded: str) -> bool:
    return EVERY_TABLE in patterns or any(fnmatchcase(folded, pattern.casefold()) for pattern in patterns)


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
