"""Table options: how one table treats its source. Defaults come first in each list of choices."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from app.domain.names import TableName
from app.domain.table_schema import Column, ColumnType, TableSchema
from app.errors import Code, RejectedInput


class PartialUpdates(StrEnum):
    """What becomes of an update that lacks new values: refused, or completed from the stored row image."""

    REJECT = "reject"
    COMPLETE = "complete"


class NewColumns(StrEnum):
    """What becomes of a column that only a message knows: refused, or added as text."""

    REJECT = "reject"
    ADD_AS_STRING = "add_as_string"


class SourceOrder(StrEnum):
    """Whether the source's own order mark decides what is a duplicate."""

    ARRIVAL = "arrival"
    ENFORCE = "enforce"


class Reload(StrEnum):
    """What becomes of snapshot rows once other changes have come: refused, or landed as upserts."""

    REFUSE = "refuse"
    UPSERT = "upsert"


class InsertMarker(StrEnum):
    """The row marker of inserted rows: 0, or 4 for a source that repeats itself."""

    INSERT = "insert"
    UPSERT = "upsert"


class InitialLoad(StrEnum):
    """Whether files have the row marker from the first, or only from the first change that is no insert."""

    MARKED = "marked"
    BARE = "bare"


class DroppedColumns(StrEnum):
    """What becomes of a nullable column that leaves the source: it stays and lands NULL."""

    KEEP = "keep"


class BinaryEncoding(StrEnum):
    """How text stands for bytes."""

    HEX = "hex"
    BASE64 = "base64"


@dataclass(frozen=True, slots=True)
class ColumnOverride:
    """What one column is, whatever a registration or a metadata message declares."""

    type: str | None = None
    nullable: bool | None = None
    encoding: BinaryEncoding | None = None

    def apply(self, column: Column) -> Column:
        """The column as it is to be. Raises RejectedInput `bad_type`."""
        return Column(
            column.name,
            column.type if self.type is None else ColumnType.parse(self.type),
            column.nullable if self.nullable is None else self.nullable,
        )


_AS_DECLARED: Final = ColumnOverride()


@dataclass(frozen=True, slots=True)
class SourceName:
    """A source's name for a table; with a catalog it means that catalog's table only."""

    catalog: str | None
    table: TableName

    @classmethod
    def parse(cls, text: str) -> "SourceName":
        """Read `name`, `schema.name` or `catalog.schema.name`. Raises RejectedInput `bad_name`."""
        catalog, _, rest = text.partition(".")
        return cls(catalog, TableName.parse(rest)) if "." in rest else cls(None, TableName.parse(text))

    @property
    def folded(self) -> str:
        """The form in which two source names are the same."""
        return self.table.folded if self.catalog is None else f"{self.catalog.casefold()}.{self.table.folded}"


@dataclass(frozen=True, slots=True)
class TableOptions:
    """All options of a table, as `options` of `PUT /v1/tables/{table}` has them."""

    partial_updates: PartialUpdates = PartialUpdates.REJECT
    new_columns: NewColumns = NewColumns.REJECT
    source_order: SourceOrder = SourceOrder.ARRIVAL
    reload: Reload = Reload.REFUSE
    insert_marker: InsertMarker = InsertMarker.INSERT
    initial_load: InitialLoad = InitialLoad.MARKED
    seed_file: bool = False
    dropped_columns: DroppedColumns = DroppedColumns.KEEP
    exclude: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """Extra source names that route here: `name`, `schema.name` or, for Arcion, `catalog.schema.name`."""
    source_timezone: str = "UTC"
    """IANA name of the zone of timestamps that come without an offset."""
    binary_encoding: BinaryEncoding = BinaryEncoding.HEX
    columns: Mapping[str, ColumnOverride] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "TableOptions":
        """Options by name, the others at their defaults. Raises RejectedInput `bad_option` or `bad_type`."""
        unknown = sorted(given.keys() - _NAMES)
        if unknown:
            raise _bad(f"there is no option {unknown[0]!r}; the options are {', '.join(_NAMES)}")
        try:
            options = msgspec.convert(given, cls)
        except msgspec.ValidationError as error:
            raise _bad(str(error)) from None
        for column, override in options.columns.items():
            unknown = sorted(given["columns"][column].keys() - _OVERRIDES)
            if unknown:
                raise _bad(f"a column has no {unknown[0]!r} to override; there are {', '.join(_OVERRIDES)}")
            if override.type is not None:
                ColumnType.parse(override.type)
        for name in options.sources:
            SourceName.parse(name)
        zone_of(options.source_timezone)
        return options

    def to_json(self) -> dict[str, Any]:
        """Every option with its value, as `parse` takes them; of overrides only what is given."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        overrides = {
            name: {part: value for part, value in override.items() if value is not None}
            for name, override in found["columns"].items()
        }
        return found | {"columns": overrides, "exclude": list(self.exclude), "sources": list(self.sources)}

    def declared(self, schema: TableSchema) -> TableSchema:
        """A declared schema without excluded columns and with the overrides."""
        columns = tuple(
            self.columns.get(column.name, _AS_DECLARED).apply(column)
            for column in schema.columns
            if column.name not in self.exclude
        )
        return replace(schema, columns=columns)

    def check(self, schema: TableSchema) -> None:
        """Raises RejectedInput `bad_option` where the options do not fit the table's schema or each other."""
        keys = set(schema.key_columns)
        excluded_keys = sorted(keys & set(self.exclude))
        if excluded_keys:
            raise _bad(f"the key column {excluded_keys[0]!r} cannot be excluded")
        for column in schema.columns:
            if column.name in self.exclude and not column.nullable:
                raise _bad(f"the required column {column.name!r} cannot be excluded")
        if not keys:
            for name, value in (("partial_updates", "complete"), ("insert_marker", "upsert"), ("reload", "upsert")):
                if getattr(self, name) == value:
                    raise _bad(f"{name}={value} needs key columns")
        if self.initial_load is InitialLoad.BARE and self.insert_marker is InsertMarker.UPSERT:
            raise _bad("initial_load=bare holds inserts only, which insert_marker=upsert does not make")

    def check_change(self, present: "TableOptions") -> None:
        """Raises RejectedInput `bad_option` where what is stored was read with options that these would change."""
        if self.initial_load is InitialLoad.BARE and present.initial_load is InitialLoad.MARKED:
            raise _bad("initial_load=bare is for a table's first registration")
        if present.partial_updates is PartialUpdates.COMPLETE is self.partial_updates:
            for name in ("source_timezone", "binary_encoding"):
                if getattr(self, name) != getattr(present, name):
                    raise _bad(f"{name} cannot change while partial_updates=complete keeps values as they were written")


_NAMES: Final = tuple(TableOptions.__dataclass_fields__)
_OVERRIDES: Final = tuple(ColumnOverride.__dataclass_fields__)
DEFAULT_OPTIONS: Final = TableOptions()


def zone_of(name: str) -> ZoneInfo:
    """The time zone of this IANA name. Raises RejectedInput `bad_option`."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise _bad("source_timezone is no time zone of the IANA database") from None


def _bad(detail: str) -> RejectedInput:
    return RejectedInput(Code.BAD_OPTION, detail)
