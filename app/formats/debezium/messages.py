"""Records of Debezium events -> changes of one table, value by value.

Invariant: a value that the connector could not read is not given in the change, never NULL.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.domain.model.change import Change, Image, Operation
from app.domain.model.table import Table
from app.formats.debezium.connect_schema import ConnectField, row_fields
from app.formats.debezium.events import METADATA
from app.formats.debezium.records import ChangeRecord
from app.formats.debezium.values import (
    DebeziumReading,
    NeedsParameter,
    ReadValue,
    column_reader,
    field_reader,
    hides_unavailable,
    unavailable_values,
)
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

_PLACEHOLDER: str = (
    "the connector wrote a placeholder in place of the value of a new row; let the source log whole rows, in Postgres "
    "with REPLICA IDENTITY FULL"
)

_HIDDEN: str = (
    "is NULL, as binary.handling.mode=base64 also makes of a large value that did not change; set the mode to bytes or "
    "hex at the connector, or REPLICA IDENTITY FULL in Postgres"
)
POSTGRES: str = "postgresql"


@dataclass(slots=True)
class _Read:
    """An image as columns read it, the columns without a readable value, and what is wrong."""

    image: Image = field(default_factory=dict)
    unavailable: list[str] = field(default_factory=list)


@dataclass
class RecordReader:
    """Reader of the changes in the records of one table in one request."""

    table: Table
    reading: DebeziumReading
    _readers: dict[int, tuple[ConnectField | None, Mapping[str, ReadValue | None]]] = field(default_factory=dict)
    """By the identity of a schema, which is kept so that no other schema gets it."""
    _sources: dict[tuple[int, bool], frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._columns = {column.name: column for column in self.table.schema.columns}
        self._excluded = frozenset(self.table.options.exclude)
        self._is_unavailable = unavailable_values(self.reading.unavailable)

    def change(self, record: ChangeRecord) -> Change:
        """Return the change of a record. Raises RejectedInput naming each wrong value."""
        problems: list[Problem] = []
        before = self._before(record, problems)
        after = self._after(record, problems)
        if problems:
            raise RejectedInput.of(tuple(problems))
        return Change(
            index=record.index,
            operation=record.operation,
            before=before,
            after=after,
            before_at=record.before_at,
            after_at=record.after_at,
            source_position=record.position,
            source_time=record.time,
            source_columns=self._source_columns(record),
            position_at=record.position_at,
            log_position=record.log_position,
            extracted_time=record.extracted,
            transaction_id=record.transaction_id,
            transaction_order=record.transaction_order,
        )

    def _after(self, record: ChangeRecord, problems: list[Problem]) -> Image | None:
        if record.after is None:
            return None
        read = self._read(record, record.after, record.after_at, record.row, problems)
        for name in read.unavailable:
            if record.operation in {Operation.INSERT, Operation.SNAPSHOT}:
                at = pointer_to(record.after_at, name)
                problems.append(Problem(Code.INCOMPLETE_INSERT, _PLACEHOLDER, record.index, at, name))
        problems.extend(
            Problem(Code.INCOMPLETE_UPDATE, _HIDDEN, record.index, pointer_to(record.after_at, name), name)
            for name in self._hidden(record)
        )
        if read.unavailable and record.before is not None:
            old = {name: record.before[name] for name in read.unavailable if record.before.get(name) is not None}
            read.image.update(self._read(record, old, record.before_at, record.row, problems).image)
        return read.image

    def _hidden(self, record: ChangeRecord) -> Sequence[str]:
        """Return the columns of an update whose NULL can be a value that did not change."""
        can_be_postgres = record.connector == POSTGRES or (record.connector is None and record.is_flattened)
        if record.after is None or record.operation not in {Operation.UPDATE, Operation.MERGE} or not can_be_postgres:
            return ()
        keys, before = self.table.schema.key_set, record.before or {}
        if any(value is not None for name, value in before.items() if name not in keys):
            return ()  # REPLICA IDENTITY FULL, with which the connector knows values that did not change
        fields = {} if record.row is None else record.row.by_name
        return [
            name
            for name, column in self._columns.items()
            if name in record.after
            and record.after[name] is None
            and name not in self._excluded
            and hides_unavailable(fields.get(name), column, self.table.options)
        ]

    def _before(self, record: ChangeRecord, problems: list[Problem]) -> Image | None:
        """Return the image before the change: of a delete the key; of an update, all of it if the key changes."""
        keys = self.table.schema.key_columns
        before = record.before
        if record.operation is Operation.DELETE:
            told = record.key.values if record.key is not None else {}
            key_schema = record.key.schema if record.key is not None else None
            own = {name: before[name] for name in keys if before is not None and before.get(name) is not None}
            others = {name: told[name] for name in keys if name not in own and name in told}
            row = key_schema if record.is_tombstone else record.row
            image = self._read(record, own, record.before_at, row, problems).image
            return image | self._read(record, others, record.before_at, key_schema, problems).image
        if record.operation is not Operation.UPDATE or before is None or any(name not in before for name in keys):
            return None
        if all(before[name] == (record.after or {}).get(name, before[name]) for name in keys):
            before = {name: before[name] for name in keys}
        return self._read(record, before, record.before_at, record.row, problems).image

    def _read(
        self, record: ChangeRecord, image: Mapping[str, Any], at: str, row: ConnectField | None, problems: list[Problem]
    ) -> _Read:
        read, readers = _Read(), self._readers_of(row)
        for name, value in image.items():
            if record.is_flattened and name not in self._columns and METADATA.fullmatch(name):
                continue
            if self._is_unavailable(value):
                read.unavailable.append(name)
                continue
            reader = readers.get(name)
            if reader is None or value is None or name in self._excluded:
                read.image[name] = value
                continue
            try:
                read.image[name] = reader(value)
            except NeedsParameter as error:
                problems.append(self._problem(Code.BAD_REQUEST, error, record.index, at, name))
            except ValueError as error:
                problems.append(self._problem(Code.BAD_VALUE, error, record.index, at, name))
        return read

    def _problem(self, code: Code, error: ValueError, index: int, at: str, name: str) -> Problem:
        return Problem(code, f"value {error} ({self._type(name)})", index, pointer_to(at, name), name)

    def _type(self, name: str) -> str:
        return str(self._columns[name].type) if name in self._columns else "not in the table"

    def _readers_of(self, row: ConnectField | None) -> Mapping[str, ReadValue | None]:
        known = self._readers.get(id(row))
        if known is None:
            known = self._readers[id(row)] = (row, self._new_readers(row))
        return known[1]

    def _new_readers(self, row: ConnectField | None) -> Mapping[str, ReadValue | None]:
        options, columns = self.table.options, self._columns
        readers: dict[str, ReadValue | None] = {
            name: column_reader(column, options, self.reading) for name, column in columns.items()
        }
        for one in row.fields if row is not None else ():
            readers[one.name] = field_reader(one, columns.get(one.name), options, self.reading)
        return readers

    def _source_columns(self, record: ChangeRecord) -> frozenset[str] | None:
        """Return the columns of the source's table, if the event has a schema."""
        if record.row is None or record.operation is Operation.DELETE:
            return None
        key = (id(record.row), record.is_flattened)
        if key not in self._sources:
            fields = row_fields(record.row, self.table, is_flattened=record.is_flattened)
            self._sources[key] = frozenset(one.name for one in fields)
            self._readers_of(record.row)
        return self._sources[key]


def unread_change(record: ChangeRecord) -> Change:
    """Return the change of a record whose table is unknown, for the problems that name it."""
    before = dict(record.before) if record.before is not None else None
    after = dict(record.after) if record.after is not None else None
    return Change(record.index, record.operation, before, after, record.before_at, record.after_at, record.position)
