"""The facts of a change besides its values, by landing row: its operation, its time and its position in the source.

The facts that the audit columns of a table need travel as columns of the typed batch, before the row marker. Kernels
make them from what the readers have by change; a table whose files have the columns of its source has no facts, and
pays nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import MAX_MICROS, MAX_MILLIS, MAX_SECONDS, Change, Operation, SourceTime
from app.domain.model.projection import AuditValue
from app.domain.model.table_schema import ColumnType, TypeName
from app.domain.rows.conversion import BadValues, convert_texts
from app.domain.rows.row_rules import ChangeFacts, RowMarker, RowRules, ShapedChanges

_CARRIED: Final = frozenset(
    {
        AuditValue.OPERATION,
        AuditValue.SOURCE_TIMESTAMP,
        AuditValue.SOURCE_POSITION,
        AuditValue.TRANSACTION_ID,
        AuditValue.TRANSACTION_ORDER,
    }
)
_CARRIED_WITH_FLAGS: Final = _CARRIED | {AuditValue.DELETED}
"""A delete that is flagged lands as an update, so its marker no longer tells that it is one."""
_FACTS: Final = len(ChangeFacts._fields)
_OPERATIONS: Final = [*Operation]
_NAMES: Final = ["upsert" if operation is Operation.MERGE else str(operation) for operation in _OPERATIONS]
_CODES: Final = {operation: code for code, operation in enumerate(_OPERATIONS)}
_TIME: Final = ColumnType(TypeName.TIMESTAMP)
_NUMBER: Final = r"^-?(\d{1,18}|[1-8]\d{18})$"
"""A number that fits in 64 bits; larger ones are not a time between the years 1684 and 2255, even in nanoseconds."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def carried(value: AuditValue) -> str:
    """Return the name under which a fact travels; no column of a table can have it."""
    return f"\0{value}"


def needed_facts(rules: RowRules) -> Collection[AuditValue]:
    """Return the facts that the files of a table need of each row."""
    if rules.schema.lands_as is None:
        return ()
    carries = _CARRIED_WITH_FLAGS if rules.options.flags_deletes else _CARRIED
    return carries.intersection(rules.options.audit_columns.named)


def with_facts_of_changes(
    batch: pa.RecordBatch, operations: Sequence[Operation], changes: Sequence[Change], rules: RowRules
) -> pa.RecordBatch:
    """Return the rows with the facts that their table needs; both sequences are by row."""
    facts = needed_facts(rules)
    if not facts:
        return batch
    written = ChangeFacts(
        [one.source_position for one in changes],
        [one.source_time for one in changes],
        [one.transaction_id for one in changes],
        [one.transaction_order for one in changes],
    )
    return _with_facts(batch, facts, operation_column(operations), written)


def with_facts_of_shaped(
    batch: pa.RecordBatch,
    operations: Sequence[Operation],
    messages: Sequence[int],
    requests: Sequence[ShapedChanges],
    rules: RowRules,
) -> pa.RecordBatch | None:
    """Return the rows with the facts that their table needs; `messages` are the changes of the rows, over all requests.

    None if a reader cannot tell the facts exactly.
    """
    facts = needed_facts(rules)
    if not facts:
        return batch
    written = [_facts_of(request) for request in requests]
    if None in written:
        return None
    told = [[value for one in written if one is not None for value in one[at]] for at in range(_FACTS)]
    by_row = ChangeFacts._make([values[at] for at in messages] for values in told)
    return _with_facts(batch, facts, operation_column(operations), by_row)


def with_operations(batch: pa.RecordBatch, operations: pa.StringArray, rules: RowRules) -> pa.RecordBatch:
    """Return rows of a source that tells neither times nor positions, with the facts that their table needs."""
    nothing = [None] * batch.num_rows
    facts = needed_facts(rules)
    return _with_facts(batch, facts, operations, ChangeFacts(nothing, nothing, nothing, nothing)) if facts else batch


def with_deleted(batch: pa.RecordBatch, deleted: Sequence[bool]) -> pa.RecordBatch:
    """Return the rows of a table that flags deletes, some of them as deleted ones whatever their markers are."""
    at = batch.schema.get_field_index(carried(AuditValue.DELETED))
    return batch.set_column(at, batch.schema.field(at), pa.array(deleted, pa.bool_()))


def operation_column(operations: Sequence[Operation]) -> pa.StringArray:
    """Return the names of operations, by row; a merge is an upsert."""
    if operations and operations.count(operations[0]) == len(operations):
        return pa.repeat(pa.scalar(_NAMES[_CODES[operations[0]]], pa.string()), len(operations))
    codes = pa.array([*map(_CODES.__getitem__, operations)], pa.int32())
    return pa.array(_NAMES, pa.string()).take(codes)


def source_times(written: Sequence[SourceTime]) -> pa.TimestampArray:
    """Return times as the source wrote them; NULL where one is not given, is 0 or is not a time.

    A string without an offset is in UTC. The size of a number shows whether it counts seconds, milli-, micro- or
    nanoseconds since 1970.
    """
    try:
        return _from_numbers(pa.array(written, pa.int64()))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        texts = pa.array([None if time is None else str(time) for time in written], pa.string())
    are_numbers = pc.match_substring_regex(texts, _NUMBER)
    numbers = pc.cast(pc.if_else(are_numbers, texts, None), pa.int64())
    return pc.coalesce(_from_numbers(numbers), _from_texts(pc.if_else(are_numbers, None, texts)))


def _facts_of(request: ShapedChanges) -> ChangeFacts | None:
    nothing = [None] * len(request.shapes)
    if request.origins is None:
        return ChangeFacts(nothing, nothing, nothing, nothing)
    told = request.origins()
    return told and ChangeFacts._make(values or nothing for values in told)


def _with_facts(
    batch: pa.RecordBatch, facts: Collection[AuditValue], operations: pa.StringArray, written: ChangeFacts
) -> pa.RecordBatch:
    """Return the batch with these facts between its columns and the row marker."""
    arrays: Mapping[AuditValue, pa.Array] = {
        AuditValue.OPERATION: operations,
        AuditValue.SOURCE_TIMESTAMP: source_times(written.times) if AuditValue.SOURCE_TIMESTAMP in facts else None,
        AuditValue.SOURCE_POSITION: pa.array(written.positions, pa.string()),
        AuditValue.TRANSACTION_ID: pa.array(written.transactions, pa.string()),
        AuditValue.TRANSACTION_ORDER: pa.array(written.transaction_orders, pa.int64()),
        AuditValue.DELETED: pc.equal(batch.column(batch.num_columns - 1), int(RowMarker.DELETE)),
    }
    chosen = [value for value in arrays if value in facts]
    *fields, marker = batch.schema
    *columns, markers = batch.columns
    schema = pa.schema([*fields, *(pa.field(carried(value), arrays[value].type) for value in chosen), marker])
    return pa.RecordBatch.from_arrays([*columns, *(arrays[value] for value in chosen), markers], schema=schema)


def time_of_number(number: int) -> datetime | None:
    """Return the time that `source_times` reads from a number of at most 18 digits; that takes 230 µs for one."""
    size = abs(number)
    if size < MAX_MILLIS:
        micros = size * (1_000_000 if size < MAX_SECONDS else 1_000)
    else:
        micros = size if size < MAX_MICROS else size // 1_000
    return _EPOCH + timedelta(microseconds=micros if number > 0 else -micros) if number else None


def _from_numbers(numbers: pa.Int64Array) -> pa.TimestampArray:
    size = pc.abs(numbers)
    micros = pc.if_else(
        pc.less(size, MAX_MILLIS),
        pc.if_else(pc.less(size, MAX_SECONDS), pc.multiply(numbers, 1_000_000), pc.multiply(numbers, 1_000)),
        pc.if_else(pc.less(size, MAX_MICROS), numbers, pc.divide(numbers, 1_000)),
    )
    return pc.cast(pc.if_else(pc.equal(numbers, 0), None, micros), _TIME.arrow)


def _from_texts(texts: pa.StringArray) -> pa.TimestampArray:
    """Return the times of strings, cut off below microseconds."""
    known = pc.replace_substring_regex(pc.if_else(pc.equal(texts, ""), None, texts), r"(\.\d{6})\d+", r"\1")
    try:
        return convert_texts(known, _TIME)
    except BadValues as bad:
        kept = [None if at in bad.reasons else text for at, text in enumerate(known.to_pylist())]
        return convert_texts(pa.array(kept, pa.string()), _TIME)
