"""Rights of callers: what a key or a token allows, on which tables. What is not granted is denied."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from app.domain.access.rate_limit import NO_LIMITS, RateLimits
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName

EVERY_TABLE: Final = "*"


class Right(StrEnum):
    """What a caller may do. `admin` includes the others."""

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
        """Tell whether the grant includes this right."""
        return right in self.rights or Right.ADMIN in self.rights

    def covers(self, table: TableName) -> bool:
        """Tell whether a pattern of the grant matches this table."""
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
        """Tell whether the right of the call covers this table."""
        return _match(self.table_patterns, table)

    def may_name(self, source: SourceName) -> bool:
        """Tell whether the patterns match a source's name, which need not be a valid table name."""
        return _match_text(self.table_patterns, source.without_catalog.folded)

    def may(self, right: Right, table: TableName) -> bool:
        """Tell whether one grant gives a right other than that of the call for this table."""
        grants = self.grants or (Grant(self.rights, self.table_patterns),)
        return any(grant.carries(right) and grant.covers(table) for grant in grants)

    def may_everywhere(self, right: Right) -> bool:
        """Tell whether one grant gives a right other than that of the call for every table."""
        grants = self.grants or (Grant(self.rights, self.table_patterns),)
        return any(grant.carries(right) and EVERY_TABLE in grant.table_patterns for grant in grants)

    @property
    def oversees_every_table(self) -> bool:
        """True if the right of the call is for all tables."""
        return EVERY_TABLE in self.table_patterns


@dataclass(frozen=True, slots=True)
class Credential:
    """What a valid key or token proves: its holder, the grants, and its rate limits."""

    subject: str
    grants: Sequence[Grant]
    limits: RateLimits = NO_LIMITS
    _principals: dict[Right, Principal | None] = field(default_factory=dict, compare=False, repr=False)
    """What `acting_by` has returned: a cached credential serves many requests."""

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
