"""Table options: how one table treats its source. The default is the first of each list of choices.

The docstrings of options are their descriptions in the contract.

A table keeps the options of its first registration. `of_new_table` has the defaults that depend on the table or that
changed between releases, so that a stored table, an older manifest or a repeated registration never changes by them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from app.domain.model.names import SourceName
from app.domain.model.projection import (
    NO_AUDIT_COLUMNS,
    AuditColumns,
    Constant,
    Deletes,
    History,
    Mask,
    RowFilter,
    bad_option,
    check_audit_columns,
    check_derive,
    check_filter,
    check_filter_members,
    check_members,
    check_transforms,
    fixed_option,
    named,
    rejection,
)
from app.domain.model.table_schema import Column, ColumnType, TableSchema, TypeName
from mirrorgate.errors import Code


class PartialUpdates(StrEnum):
    """Treatment of an update without all new values: it is rejected, or completed from the row image."""

    REJECT = "reject"
    COMPLETE = "complete"


class RowImages(StrEnum):
    """Choice to keep the newest row of each key or not, see decision 0067."""

    OFF = "off"
    ON = "on"


class IncompleteInserts(StrEnum):
    """Treatment of an insert without a nullable column: it lands NULL there, or is rejected."""

    LAND_NULL = "land_null"
    REJECT = "reject"


class NewColumns(StrEnum):
    """Treatment of a column that the table does not have: it is rejected, or added as a string."""

    REJECT = "reject"
    ADD_AS_STRING = "add_as_string"


class SourceOrder(StrEnum):
    """Choice to drop changes whose source position the table already has, or not."""

    ARRIVAL = "arrival"
    ENFORCE = "enforce"


class OperationCounting(StrEnum):
    """Choice to report a jump in Arcion's counts of operations as missing changes, or not."""

    CHECK = "check"
    IGNORE = "ignore"


class Reload(StrEnum):
    """Treatment of snapshot rows after other changes: they are rejected, or land as upserts."""

    REJECT = "reject"
    UPSERT = "upsert"


class InsertMarker(StrEnum):
    """The row marker of inserted rows: 0, or 4 for a source that repeats itself."""

    INSERT = "insert"
    UPSERT = "upsert"


class InitialLoad(StrEnum):
    """First file with the row marker: the first one, or that of the first change that is not an insert."""

    WITH_MARKER = "with_marker"
    WITHOUT_MARKER = "without_marker"


class RowMarkers(StrEnum):
    """Presence of the row marker in the files. Without it, each row is an upsert, by the table's metadata."""

    COLUMN = "column"
    NONE = "none"


class DeadLetters(StrEnum):
    """Treatment of rejected messages: their request is rejected, or they are kept while the rest of it is accepted."""

    REJECT = "reject"
    ACCEPT = "accept"


class BinaryEncoding(StrEnum):
    """The encoding of bytes in strings."""

    HEX = "hex"
    BASE64 = "base64"


class TimestampUnit(StrEnum):
    """Unit of a timestamp column's integers since 1970, in events without a schema."""

    MILLIS = "millis"
    MICROS = "micros"
    NANOS = "nanos"


class OutOfRange(StrEnum):
    """Treatment of a date or timestamp outside the years 1 to 9999: it is rejected, or lands as the nearest."""

    REJECT = "reject"
    SATURATE = "saturate"


@dataclass(frozen=True, slots=True)
class ColumnOverride:
    """Override of what a registration or a metadata message declares for a column."""

    type: str | None = None
    """The type of the column."""
    nullable: bool | None = None
    """True if the column can be NULL."""
    encoding: BinaryEncoding | None = None
    """Encoding of the column's bytes in strings."""
    unit: TimestampUnit | None = None
    """Unit of the timestamp column's integers since 1970, in Debezium's events without a schema."""

    def apply(self, column: Column) -> Column:
        """Return the column with this override. Raises RejectedInput `bad_type`."""
        return Column(
            column.name,
            column.type if self.type is None else ColumnType.parse(self.type),
            column.nullable if self.nullable is None else self.nullable,
        )


_AS_DECLARED: Final = ColumnOverride()


@dataclass(frozen=True, slots=True)
class TableOptions:
    """All options of a table. For an option left out, a new table has the default; an existing one keeps its value."""

    partial_updates: PartialUpdates = PartialUpdates.REJECT
    """Treatment of an update that lacks new values: rejected (`incomplete_update`) or completed from the row image.

    `complete` keeps a row image of each row and needs key columns.
    """
    new_columns: NewColumns = NewColumns.REJECT
    """Treatment of a column that only a message has: rejected (`unknown_column`) or added with the type `string`.

    The type is never guessed. Register a column that needs another type before its first value arrives.
    """
    source_order: SourceOrder = SourceOrder.ARRIVAL
    """Changes that land: each in the order of arrival, or each position of the source's log once.

    Set `enforce` for Arcion, Debezium or Replicate tasks that can send again what they have sent. Positions are
    kept for each log of the source and partition, and only while the option is set. A topic with several partitions
    needs `?partition=`; without it, late changes are dropped as duplicates.
    """
    reload: Reload = Reload.REJECT
    """Treatment of snapshot rows after other changes: rejected, or landed with marker 4.

    Set `upsert` if the source reloads a table that already has changes. Rows that the source no longer has remain; a
    load session deletes them. `upsert` needs key columns.
    """
    insert_marker: InsertMarker = InsertMarker.INSERT
    """Marker of inserts and snapshot rows: 0 or 4.

    Set `upsert` if the source can repeat inserts: Fabric does not check rows with marker 0 for duplicates. `upsert`
    needs key columns and `initial_load=with_marker`.
    """
    initial_load: InitialLoad = InitialLoad.WITH_MARKER
    """First file with the row marker: the first one, or that of the first change that is not an insert.

    A new table without key columns has `without_marker`. Set `without_marker` for a large first load: Fabric
    appends files without the marker directly, and looks at every row of a file that has the column. The first
    change that is not an insert adds the marker with a new schema version. `without_marker` can be set only when a
    table is created or recreated; the change back to `with_marker` is final.
    """
    row_marker: RowMarkers = RowMarkers.COLUMN
    """Presence of the column `__rowMarker__` in the files. With `none`, each row is an upsert by the key.

    Set `none` for a large table whose source upserts and never deletes: Fabric can stage its files directly, also
    after the initial load. Inserts, updates, upserts and snapshot rows land as full rows. A delete, an update that
    changes the key and the start of a full load session are `delete_needs_marker`. `none` needs key columns,
    `initial_load=with_marker`, `history=off`, `deletes=apply` and no `filter`. The option is chosen when a table is
    created or recreated; a rebuild keeps it and must keep the key columns.
    """
    seed_file: bool = False
    """`true`: file 1 has the columns and no row, and is published immediately. A new table has `true`.

    Fabric waits about two weeks for the first file of a table that has metadata only, and then pauses the whole
    database. The seed file is meant to prevent that; this was not tested in a Fabric workspace. Data starts with
    file 2, and the seed file is in no count of rows or batches. Register a table with `seed_file=false` shortly
    before its first change. `true` on a table that has files takes effect when the table is recreated.
    """
    dead_letters: DeadLetters = DeadLetters.REJECT
    """`accept`: rejected messages can be kept for repair, while the rest of their request lands.

    `accept` cannot be combined with `source_order=enforce` or with `masks`. A request also has to ask for it with
    `on_reject=dead_letter`.
    """
    exclude: tuple[str, ...] = ()
    """Names of source columns whose values are never read. Not key columns, and required ones only in a new table.

    A column that is excluded later remains in the table and lands NULL. A dead letter is the whole message, with the
    values of excluded columns.
    """
    sources: tuple[str, ...] = ()
    """Further sources whose changes go to this table: `name`, `schema.name` or, for Arcion, `catalog.schema.name`.

    The parts are any text, also text that cannot be a table name: `/BIC/AZSALES00`. Write a part that contains a dot in
    double quotes: `"a.b".orders`. Source names are case-sensitive. A source that is a table or feeds another table is
    rejected, and no table can be registered under its name. Two entries that differ only in letter case can be in one
    table, not in two. Each name must be within the tables of the caller's key.
    """
    source_timezone: str = "UTC"
    """The IANA time zone of timestamps without an offset. It cannot change while the table keeps row images.

    A local time that the zone skips is `bad_value`; one that occurs twice means the earlier moment.
    """
    binary_encoding: BinaryEncoding | None = None
    """Encoding of bytes in strings. `null` means hex, and rejects Debezium's strings that can be either.

    It cannot change while the table keeps row images. `encoding` of a column in `columns` overrides it.
    """
    incomplete_inserts: IncompleteInserts = IncompleteInserts.LAND_NULL
    """Treatment of an insert that lacks a nullable column: NULL lands there, or it is rejected (`incomplete_insert`).

    Set `reject` if columns of the source have a DEFAULT: an insert that does not give such a column does not have
    the value that the source filled in. With `land_null`, the row image records that the value is unknown.
    """
    out_of_range: OutOfRange = OutOfRange.REJECT
    """Treatment of dates and times outside the years 1 to 9999: rejected (`bad_value`) or landed as the nearest one.

    With `saturate`, values such as `infinity`, `10000-01-01`, `0044-03-15 BC`, MySQL's `0000-00-00`, or a time that
    its zone moves out of the calendar land as `0001-01-01 00:00:00` or `9999-12-31 23:59:59.999999`. This holds for
    the numbers of Debezium, Arrow and Avro too. Keys that land at the same end become one row. More than six digits
    of a second are `bad_value` in both cases, unless the others are 0. `saturate` cannot become `reject` while the
    table keeps row images.
    """
    columns: Mapping[str, ColumnOverride] = field(default_factory=dict)
    """Overrides for single columns, by name, of what registrations and metadata messages declare.

    Use it for a NUMERIC that does not fit a decimal, or for a column with another encoding than the rest, such as
    `{"amount": {"type": "float64"}, "seal": {"encoding": "base64"}}`. The type or nullability of an existing column
    cannot change (`incompatible_schema`).
    """
    row_images: RowImages = RowImages.OFF
    """`on`: the gateway keeps the newest row of each key. `partial_updates=complete` keeps it too.

    `on` needs key columns and stores one row in Postgres for each row of the table. It does not change what lands.
    When neither option asks for row images any more, they are deleted: 5,000 at once, the others by the drain
    within minutes. Until then, setting an option again is `old_row_images`.
    """
    audit_columns: AuditColumns = NO_AUDIT_COLUMNS
    """Names of columns in the files that the gateway fills. A name that is left out is not a column of the table.

    The columns can be named at registration or later. A column that is no longer named remains in the files and is
    NULL.
    """
    history: History = History.OFF
    """Content of the files: changes of rows, or a new row for every change.

    `append_only` needs key columns. It is chosen when a table is created or recreated.
    """
    deletes: Deletes = Deletes.APPLY
    """Treatment of a deleted row: it leaves the mirror, or remains and is true in the audit column `deleted`.

    `flag` needs row images and `audit_columns.deleted`, and remains until the table is recreated. It cannot be
    combined with `filter`, `history=append_only` or `initial_load=without_marker`.
    """
    rename: Mapping[str, str] = field(default_factory=dict)
    """Names of columns in the files, by their names in the source.

    Messages, registrations, other options and errors keep the names of the source. After a change, the former
    column remains in the files and is NULL. A required column can be renamed only when the table is created or
    recreated.
    """
    constants: Mapping[str, Constant] = field(default_factory=dict)
    """Columns with the same value in every row, by name.

    A value has at most 4 KiB of UTF-8, all values of a table 64 KiB.
    """
    masks: Mapping[str, Mask] = field(default_factory=dict)
    """Columns whose values are masked, by name in the source.

    `hash` and `truncate` need a `string` column; `null` needs a nullable column outside the key. `truncate` keeps 1
    to 1,000 characters. Masks cannot be combined with `dead_letters=accept`, and cannot change while the table
    keeps row images. To change or remove a mask, the key needs the right `admin`.
    """
    derive: Mapping[str, str] = field(default_factory=dict)
    """Columns that are computed from others, by name: SQL expressions over the columns of the source.

    A name of a source column replaces that column in the files. A table has at most 50 expressions, each of at most
    1,000 characters, 250 parts and 50 levels.

    - Columns: `price`, `"Last Name"`, by their names in the source; letter case counts.
    - Literals: `'it''s'`, `12` (an integer), `0.19` (a decimal), `1e3` (a float64), `true`, `null`,
      `date '2026-07-01'`, `timestamp '2026-07-01 10:00:00'`.
    - `+`, `-`, `*`: integers give int64, decimals a decimal with all digits, up to 38, a float gives float64. `/` gives
      float64. `||` joins strings; cast other values.
    - `=`, `<>`, `<`, `<=`, `>`, `>=`, `between`, `in (...)`, `is null`, `and`, `or`, `not`, `case`, `coalesce` and
      `nullif` as in SQL. Strings are compared by their bytes, and only the needed branches are computed.
    - `cast(x as type)`, `x::type`: to every type except binary and json. Numbers are rounded half away from zero, and
      strings are read as in messages. `try_cast` gives NULL where the cast fails.
    - `upper`, `lower`, `trim` (blanks), `length`, `substr(x, first, length)`: in Unicode code points, from 1.
    - `round(x, digits)`: half away from zero; keeps the type.
    - `extract(part from x)`, in UTC: year, quarter, month, week (ISO), day, isodow (1 is Monday), doy, hour, minute or
      second; all but week, isodow and doy also as `year(x)`. `date_trunc('part', x)`: all but isodow and doy.
    """
    filter: RowFilter | None = None
    """Condition of the rows that are mirrored; without it, all are.

    A filter is a comparison, or has `all` or `any` with filters, two levels deep and with at most 100 comparisons and
    values. Values are strings of the column's type; timestamps without an offset are UTC, and strings are compared by
    their bytes. A comparison with NULL is never true. `json` and `binary` columns can only be compared with NULL, and
    `boolean` columns not by size. Masked and excluded columns, and columns that left the source, cannot be compared: a
    registration that removes such a column is `bad_option`. A filter needs key columns, `history=off`, `deletes=apply`
    and `initial_load=with_marker`. To change or remove it, the key needs the right `admin`.
    """
    operation_counts: OperationCounting = OperationCounting.CHECK
    """`check`: a jump in Arcion's `operationcount` is reported as missing changes."""

    @property
    def keeps_images(self) -> bool:
        """True if the table keeps a row image of each row: completing partial updates needs one too."""
        return self.row_images is RowImages.ON or self.partial_updates is PartialUpdates.COMPLETE

    @property
    def reads_images(self) -> bool:
        """True if row images decide what lands: they complete rows, and tell which keys have one."""
        return self.partial_updates is PartialUpdates.COMPLETE or self.flags_deletes

    @property
    def upserts_only(self) -> bool:
        """True if files have no row marker and each of their rows is an upsert."""
        return self.row_marker is RowMarkers.NONE

    @property
    def upserts_inserts(self) -> bool:
        """True if inserted rows and snapshot rows land as upserts."""
        return self.insert_marker is InsertMarker.UPSERT or self.upserts_only

    @property
    def flags_deletes(self) -> bool:
        """True if a deleted row remains in the mirror and in its row image, and both say that it is deleted."""
        return self.deletes is Deletes.FLAG

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "TableOptions":
        """Read options by name, the others with their defaults. Raises RejectedInput `bad_option`."""
        unknown = sorted(given.keys() - _NAMES)
        if unknown:
            raise bad_option(f"there is no option {unknown[0]!r}; the options are {', '.join(_NAMES)}")
        try:
            options = msgspec.convert(given, cls)
        except msgspec.ValidationError as error:
            raise bad_option(str(error)) from None
        for column, override in options.columns.items():
            check_members(given["columns"][column], ColumnOverride, "columns", column)
            if override.type is not None:
                with named("columns", column, "type"):
                    ColumnType.parse(override.type)
        for index, name in enumerate(options.sources):
            with named("sources", str(index)):
                SourceName.parse(name)
        zone_of(options.source_timezone)
        check_members(given.get("audit_columns") or {}, AuditColumns, "audit_columns")
        check_filter_members(given.get("filter") or {}, "filter")
        for option, of in (("constants", Constant), ("masks", Mask)):
            for name, declared in (given.get(option) or {}).items():
                check_members(declared, of, option, name)
        return options

    def encoding_of(self, column: str) -> BinaryEncoding:
        """Return the encoding of bytes as text in this column."""
        return self.declared_encoding(column) or BinaryEncoding.HEX

    def declared_encoding(self, column: str) -> BinaryEncoding | None:
        """Return the encoding that the options declare for this column, None if they declare none."""
        return self.columns.get(column, _AS_DECLARED).encoding or self.binary_encoding

    def unit_of(self, column: str) -> TimestampUnit | None:
        """Return what the integers of this column count, None if the options do not declare it."""
        return self.columns.get(column, _AS_DECLARED).unit

    def over(self, present: "TableOptions", given: Collection[str]) -> "TableOptions":
        """Return the present options with the given ones replaced by these."""
        return replace(present, **{name: getattr(self, name) for name in given})

    def of_new_table(self, schema: TableSchema, given: Collection[str]) -> "TableOptions":
        """Return the options of a new table: the given ones, and what suits its schema for the others (decision 0056).

        Fabric pauses a whole database for a table that remains without a file, so a new table has a seed file. Files
        without a row marker take Fabric's fast path, and a table without keys never needs the marker.
        """
        load = InitialLoad.WITH_MARKER if schema.key_columns else InitialLoad.WITHOUT_MARKER
        suited = replace(self, initial_load=load, seed_file=True)
        return self.over(suited, CHOSEN_AT_CREATION.intersection(given))

    def to_json(self) -> dict[str, Any]:
        """Return every option with its value, as `parse` takes them; overrides without what is not set."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        given: dict[str, Any] = {
            option: {name: _without_none(members) for name, members in found[option].items()}
            for option in ("columns", "masks")
        }
        lists = {"exclude": list(self.exclude), "sources": list(self.sources)}
        given["filter"] = None if self.filter is None else self.filter.to_json()
        return found | given | lists | {"audit_columns": _without_none(found["audit_columns"])}

    def to_stored(self) -> dict[str, Any]:
        """Return `to_json` without options at their defaults.

        So a program that does not know an option yet can read each table that does not set it.
        """
        unset = [name for name in _NAMES if getattr(self, name) == getattr(DEFAULT_OPTIONS, name)]
        return {name: value for name, value in self.to_json().items() if name not in unset}

    def declared(self, schema: TableSchema) -> TableSchema:
        """Return a declared schema without excluded columns and with the overrides.

        Raises RejectedInput `bad_option` for an excluded key column.
        """
        self._check_keys(schema)
        columns = tuple(
            self.columns.get(column.name, _AS_DECLARED).apply(column)
            for column in schema.columns
            if column.name not in self.exclude
        )
        return replace(schema, columns=columns)

    def check(self, schema: TableSchema) -> None:
        """Check the options against the table's schema and each other.

        Raises RejectedInput `bad_option`, or `incompatible_schema` if they give a column of the table another type.
        """
        self._check_keys(schema)
        for column in schema.columns:
            if column.name in self.exclude:
                if not column.nullable:
                    raise bad_option(f"the required column {column.name!r} cannot be excluded", "exclude")
            elif self.columns.get(column.name, _AS_DECLARED).apply(column).type != column.type:
                detail = f"column {column.name!r} is {column.type} and cannot become {self.columns[column.name].type}"
                raise rejection(Code.INCOMPATIBLE_SCHEMA, detail, "columns", column.name, "type")
            elif self.unit_of(column.name) is not None and column.type.name is not TypeName.TIMESTAMP:
                raise bad_option(f"column {column.name!r} is not a timestamp", "columns", column.name, "unit")
        if not schema.key_columns:
            for name, value in _NEED_KEYS.items():
                if getattr(self, name) == value:
                    raise bad_option(f"{name}={value} needs key columns", name)
        if self.initial_load is InitialLoad.WITHOUT_MARKER and self.insert_marker is InsertMarker.UPSERT:
            detail = (
                "initial_load=without_marker allows inserts only, and insert_marker=upsert makes upserts; "
                "give initial_load=with_marker too"
            )
            raise bad_option(detail, "initial_load")
        if self.upserts_only:
            self._check_upserts_only()
        if self.dead_letters is DeadLetters.ACCEPT and self.source_order is SourceOrder.ENFORCE:
            detail = "dead_letters=accept sets changes aside, and source_order=enforce would count them as accepted"
            raise bad_option(detail, "dead_letters")
        taken = check_transforms(self.rename, self.constants, self.masks, schema)
        check_derive(self.derive, {*self.exclude, *self.masks}, schema, taken)
        check_audit_columns(self.audit_columns, self.history, self.deletes, taken)
        if self.flags_deletes:
            self._check_flagged_deletes()
        if self.filter is not None:
            self._check_filter(self.filter, schema)
        if self.masks and self.dead_letters is DeadLetters.ACCEPT:
            detail = "dead_letters=accept keeps messages as they are written, with the values that masks remove"
            raise bad_option(detail, "dead_letters")

    def check_change(self, present: "TableOptions") -> None:
        """Raise RejectedInput `bad_option` for a change of options that stored values depend on."""
        if self.initial_load is InitialLoad.WITHOUT_MARKER and present.initial_load is InitialLoad.WITH_MARKER:
            raise fixed_option(
                "initial_load=without_marker can only be set at a table's first registration", "initial_load"
            )
        if self.row_marker is not present.row_marker:
            raise fixed_option("row_marker can only be chosen when a table is created or recreated", "row_marker")
        if self.history is not present.history:
            raise fixed_option("history can only be chosen when a table is created or recreated", "history")
        if present.flags_deletes:
            if not self.flags_deletes:
                raise fixed_option("deletes=flag remains until the table is recreated: it has deleted rows", "deletes")
            if self.audit_columns.deleted != present.audit_columns.deleted:
                detail = "the column of deleted rows remains until the table is recreated"
                raise fixed_option(detail, "audit_columns", "deleted")
        if present.keeps_images and self.keeps_images:
            detail = "cannot change while row images keep source values"
            if self.source_timezone != present.source_timezone:
                raise fixed_option(f"source_timezone {detail}", "source_timezone")
            if self.encoding_of("") != present.encoding_of(""):  # that of every column without its own
                raise fixed_option(f"binary_encoding {detail}", "binary_encoding")
            if self.masks != present.masks:
                raise fixed_option(f"masks {detail}; set row_images=off and partial_updates=reject first", "masks")
            if present.out_of_range is OutOfRange.SATURATE is not self.out_of_range:
                raise fixed_option(f"out_of_range=saturate {detail}", "out_of_range")
            for column in {**present.columns, **self.columns}:
                if self.encoding_of(column) != present.encoding_of(column):
                    raise fixed_option(f"the encoding of {column!r} {detail}", "columns", column, "encoding")

    def _check_filter(self, found: RowFilter, schema: TableSchema) -> None:
        check_filter(found, schema, {*self.exclude, *self.masks})
        if not schema.key_columns or self.history is not History.OFF or self.flags_deletes:
            rule = "it needs key columns, history=off and deletes=apply"
            detail = f"a filter deletes rows that no longer match, by key: {rule}"
            raise bad_option(detail, "filter")
        if self.initial_load is InitialLoad.WITHOUT_MARKER:
            raise bad_option("a filter needs row markers; give initial_load=with_marker too", "filter")

    def _check_upserts_only(self) -> None:
        """Reject options whose rows are not all upserts of the table's key."""
        others = {
            "initial_load": (self.initial_load is InitialLoad.WITHOUT_MARKER, "with_marker; it begins with inserts"),
            "history": (self.history is not History.OFF, "off; it appends rows"),
            "deletes": (self.flags_deletes, "apply; a deleted row that never landed would land"),
            "filter": (self.filter is not None, "null; it deletes rows that no longer match"),
        }
        for option, (is_given, need) in others.items():
            if is_given:
                raise bad_option(f"row_marker=none makes each row an upsert, and needs {option}={need}", option)

    def _check_flagged_deletes(self) -> None:
        if not self.keeps_images:
            raise bad_option("deletes=flag needs row_images=on, for the values of deleted rows", "deletes")
        if self.initial_load is InitialLoad.WITHOUT_MARKER:
            raise bad_option("deletes=flag needs row markers; give initial_load=with_marker too", "initial_load")

    def _check_keys(self, schema: TableSchema) -> None:
        for key in schema.key_columns:
            if key in self.exclude:
                raise bad_option(f"the key column {key!r} cannot be excluded", "exclude")


_NAMES: Final = tuple(TableOptions.__dataclass_fields__)
_NEED_KEYS: Final = {
    "partial_updates": "complete",
    "row_images": "on",
    "insert_marker": "upsert",
    "reload": "upsert",
    "history": "append_only",
    "deletes": "flag",
    "row_marker": "none",
}
"""Values of options that need key columns."""

CHOSEN_AT_CREATION: Final = frozenset({"initial_load", "seed_file"})
"""Options whose default is chosen when a table is created, by `of_new_table`; later it keeps what it has."""

# msgspec 0.22 reads a type when it is first needed. Two threads that need it first at once crash the process.
msgspec.json.Decoder(TableOptions)

DEFAULT_OPTIONS: Final = TableOptions()
"""The options of a table that stores none."""


def _without_none(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone with this IANA name. Raises RejectedInput `bad_option`."""
    try:
        if name.startswith(("localtime", "posixrules", "posix/", "right/")):
            raise ValueError  # a copy that each machine chooses, or clocks that count leap seconds
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise bad_option("source_timezone is not a time zone of the IANA database", "source_timezone") from None
