"""Arcion table addresses: the source table that a message names, and the hashes beside its name."""

from functools import lru_cache
from typing import Final, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName

DEFAULT_SCHEMA: Final = "default_schema"


class Namespace(msgspec.Struct, gc=False):
    """Catalog and schema of a table address, with the hash of both."""

    catalog: str | UnsetType | None = UNSET
    schema: str | UnsetType | None = UNSET
    hash: int | UnsetType | None = UNSET


class TableAddress(msgspec.Struct, gc=False):
    """The `tableName` of a message."""

    name: str
    namespace: Namespace | UnsetType | None = UNSET
    hash: int | UnsetType | None = UNSET


_Key: TypeAlias = tuple[str | None, str | None, str]


class AddressResolver:
    """Resolves the addresses of one request, each once. With an `override`, every message is for that table."""

    def __init__(self, override: TableName | None = None) -> None:
        self._override = override
        self._known: dict[_Key, tuple[SourceName, int, int]] = {}
        self.wrong_hashes = 0

    def look_up(self, given: TableAddress) -> SourceName:
        """Return the source table of an address, and count wrong hashes. Raises RejectedInput `bad_name`."""
        space = given.namespace
        catalog, schema = (space.catalog or None, space.schema or None) if space else (None, None)
        key = (catalog, schema, given.name)
        if key not in self._known:
            self._known[key] = (self._source(*key), *address_hashes(*key))
        source, space_hash, table_hash = self._known[key]
        if (given.hash and given.hash != table_hash) or (space and space.hash and space.hash != space_hash):
            self.wrong_hashes += 1
        return source

    def _source(self, catalog: str | None, schema: str | None, name: str) -> SourceName:
        """Return `schema.name`, `catalog.name` if the schema is null or the default one, or `name` alone."""
        return _source(catalog, schema, name) if self._override is None else SourceName.address(self._override)


@lru_cache
def _source(catalog: str | None, schema: str | None, name: str) -> SourceName:
    if schema is None or schema == DEFAULT_SCHEMA:
        return SourceName.of(None, catalog, name)
    return SourceName.of(catalog, schema, name)


@lru_cache
def address_hashes(catalog: str | None, schema: str | None, name: str) -> tuple[int, int]:
    """Return the hashes of a namespace and of a table in it, as Replicant computes them: Java's `Objects.hash`."""
    space = 31 * (31 + java_hash(catalog)) + java_hash(schema)
    return _wrapped(space), _wrapped(31 * (31 + space) + java_hash(name))


def java_hash(text: str | None) -> int:
    """Return Java's `String.hashCode` over UTF-16 code units; 0 for null."""
    result = 0
    units = (text or "").encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return _wrapped(result)


def _wrapped(number: int) -> int:
    """Return a number as a signed 32-bit one."""
    return (number + 2**31) % 2**32 - 2**31
