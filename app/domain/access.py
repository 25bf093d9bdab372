"""Rights of API keys: what a caller may do, with which tables."""

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from app.domain.names import TableName


class Right(StrEnum):
    """`admin` includes the others."""

    INGEST = "ingest"
    READ = "read"
    REGISTER = "register"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls: a key id, its rights, and the patterns (`*`, `sales.*`, `orders`) of tables it may touch."""

    key_id: str
    rights: frozenset[Right]
    table_patterns: tuple[str, ...]

    def has(self, right: Right) -> bool:
        return right in self.rights or Right.ADMIN in self.rights

    def may_touch(self, table: TableName) -> bool:
        return any(fnmatchcase(table.folded, pattern.casefold()) for pattern in self.table_patterns)
