"""Send a DataFrame, or anything that Arrow reads, to a table: `mirror`.

The rows are posted as Arrow streams in pieces of a bounded size, one after the other. A piece is durable before the
next one is sent, and accepted as a whole or not at all. A new table is registered with the types of the rows.
"""

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import NAMESPACE_URL, uuid4, uuid5

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from mirrorgate.arrow_rows import (
    CONTENT_TYPE,
    PIECE_ROWS,
    ArrowColumns,
    counted_from,
    no_pyarrow,
    piece_of,
    plain_batch,
    plain_schema,
    stream_of,
    without,
)
from mirrorgate.errors import Code, MirrorgateError, RejectedInput
from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.loads import Load, TableRegistration, no_columns
from mirrorgate.parameters import WAIT_SECONDS, Stage
from mirrorgate.producer import ChangeRequest, Patience, RequestNames, RequestSender, opened_numbers
from mirrorgate.retrying import is_final
from mirrorgate.stages import wait_until
from mirrorgate.writer.core import Receipt

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_BYTES: Final = 4 * 2**20
"""Bytes of the rows of one request, unless one row alone has more."""

_ROWS_AT_ONCE: Final = 10_000
"""Rows of an iterable of mappings that become one record batch."""

_TOO_LARGE: Final = frozenset({Code.BODY_TOO_LARGE, Code.TOO_MANY_MESSAGES})
"""Answers after which half of the rows can be accepted."""


_GIVE_TYPES: Final = "Pass the rows as a DataFrame or a table of PyArrow, whose columns have types."

_SPARK_TYPES: Final = {
    "boolean": "bool", "byte": "int8", "short": "int16", "integer": "int32", "long": "int64", "float": "float32",
    "double": "float64", "string": "string", "binary": "binary", "date": "date32", "void": "null",
}  # fmt: skip
"""Arrow's names of the simple types of Spark."""


def mirror(
    data: Any,
    table: str,
    *,
    key: str | Sequence[str] = (),
    full: bool = False,
    resume: str | None = None,
    wait: Literal["published", "processed", "queryable"] | None = None,
    timeout: float = WAIT_SECONDS,
    url: str | None = None,
    api_key: str | None = None,
    client: GatewayClient | None = None,
    give_up_after: float = 120.0,
    quiet: bool = False,
) -> list[Receipt]:
    """Send rows to a table and return one receipt per request, each after its rows are durable.

    `data` is a DataFrame of pandas, Polars or Spark, a relation of DuckDB, a table or reader of PyArrow, any other
    object with `__arrow_c_stream__`, or an iterable of mappings. Each row replaces the one with the same key. A table
    that does not exist is registered, with `key` as its key columns; columns that it lacks are added.

    With `full`, the data has all rows of the table: a load session deletes the others at the end. With `resume`, a name
    for exactly these rows, an interrupted run can be repeated: what is durable is not sent again. With `wait`,
    it returns when the rows are in the landing zone (`published`), Fabric has read them (`processed`), or queries show
    them (`queryable`); `timeout` is how many seconds that may take.

    `url` and `api_key` default to MIRRORGATE_URL and MIRRORGATE_API_KEY, and without these to the gateway that
    `mirrorgate up` runs in this folder. `give_up_after` is how many seconds a request is repeated while the gateway is
    away. On a terminal, progress is shown unless `quiet`.

    Raises RejectedByGateway for rows or a key that the gateway rejects, TemporarilyUnavailable after `give_up_after`
    seconds, Misconfigured `extra_missing` without PyArrow, and what `stages.wait_until` raises, when all is durable.

    For example:

        mirror([{"id": 1}], "shop.orders", key="id")
    """
    if client is None:
        found_url, found_key = url or os.environ.get("MIRRORGATE_URL"), api_key or os.environ.get("MIRRORGATE_API_KEY")
        with GatewayClient.find(found_url, found_key, Path(".mirrorgate")) as found:
            return mirror(data, table, key=key, full=full, resume=resume, wait=wait, timeout=timeout, client=found,
                          give_up_after=give_up_after, quiet=quiet)  # fmt: skip
    if wait not in (None, *Stage):
        detail = f"`wait` is neither None nor one of {', '.join(Stage)}"
        raise RejectedInput(Code.BAD_REQUEST, detail, remedy="Give the name of a stage.")
    if resume == "":
        raise RejectedInput(
            Code.BAD_REQUEST, "`resume` is empty", remedy="Give a name for exactly these rows, or None."
        )
    rows = _opened(data)
    if full and not rows.schema.names:  # such as a generator that was read before
        raise no_columns()
    run = _Run(client, table, Patience(give_up_after))
    table_key = [key] if isinstance(key, str) else [*key]
    registration = TableRegistration(client, table, table_key, run.patience, keeps_images=full)
    rows = rows.without(registration.prepare(ArrowColumns(rows.schema)))
    parameters = {"table": table, **registration.parameters}
    receipts: list[Receipt] = []
    with _bar(table, rows.total, quiet=quiet) as (bar, task):
        for accepted, durable in run.sent(rows, resume, parameters, full=full):
            receipts += [Receipt(**receipt) for receipt in accepted]
            bar.update(task, advance=durable)
        if wait is not None:
            wait_until(client, table, Stage(wait), timeout=timeout, patience=run.patience,
                       on_progress=lambda done, _: bar.update(task, description=f"{table}: {done}"))  # fmt: skip
    return receipts


@dataclass(frozen=True, slots=True)
class _Run:
    """Run that sends rows to one table."""

    client: GatewayClient
    table: str
    patience: Patience

    def sent(
        self, rows: "_Rows", resume: str | None, parameters: Mapping[str, str], *, full: bool
    ) -> Iterator[tuple[Sequence[Mapping[str, Any]], int]]:
        """Send the rows; yield the receipts of each request, and how many rows are durable by it."""
        if full:
            yield from self._loaded(rows, resume, parameters)
            return
        numbers = None if resume is None else opened_numbers(self.client, self._named(resume), self.patience)
        done = int(numbers.position or 0) if numbers is not None else 0
        yield [], done
        sender = RequestSender(self.client, numbers or _KeyedPieces(uuid4().hex), self.patience)
        yield from self._posted(sender, rows, done, parameters)

    def _named(self, resume: str) -> str:
        """Return the id of the run of this name, which runs into other tables can have, too. No table has a `/`."""
        return str(uuid5(NAMESPACE_URL, f"{self.table}/{resume}"))

    def _loaded(
        self, rows: "_Rows", resume: str | None, parameters: Mapping[str, str]
    ) -> Iterator[tuple[Sequence[Mapping[str, Any]], int]]:
        """Send the rows as a load session, and complete it. A load that cannot be continued is aborted.

        That is one whose rows are rejected, and one without a name. A run that has been completed under the same name
        sends nothing.
        """
        load_id = str(uuid4()) if resume is None else self._named(resume)
        try:
            load = Load.begin(self.client, self.table, "full", load_id=load_id, patience=self.patience)
        except RejectedByGateway as error:
            known = Load(self.client, self.table, load_id, self.patience)
            if error.code is Code.LOAD_ENDED and known.status()["state"] == "completed":
                return
            raise
        try:
            sender = RequestSender(self.client, _KeyedPieces(load_id, load.headers), self.patience)
            yield from self._posted(sender, rows, 0, parameters)
        except BaseException as error:
            is_wrong = isinstance(error, RejectedInput) or (isinstance(error, MirrorgateError) and is_final(error))
            if resume is None or is_wrong:
                with suppress(MirrorgateError):
                    replace(load, patience=Patience(0)).abort()
            raise
        load.complete()

    def _posted(
        self, sender: RequestSender, rows: "_Rows", skip: int, parameters: Mapping[str, str]
    ) -> Iterator[tuple[Sequence[Mapping[str, Any]], int]]:
        """Post the rows after the first `skip` in pieces, smaller ones if the gateway takes less."""
        most, at = PIECE_ROWS, 0
        for batch in rows.batches:
            start = min(max(0, skip - at), batch.num_rows)
            while start < batch.num_rows:
                piece = piece_of(batch, start, most, PIECE_BYTES)
                position = str(at + start + piece.num_rows)
                request = ChangeRequest("rows", stream_of(piece), parameters, CONTENT_TYPE, position)
                try:
                    answer = sender.send(request)
                except RejectedByGateway as error:
                    if error.code not in _TOO_LARGE or piece.num_rows == 1:
                        error.errors = counted_from(at + start, error.errors)
                        raise
                    most = piece.num_rows // 2
                else:
                    yield answer["receipts"], piece.num_rows
                    start += piece.num_rows
            at += batch.num_rows


@dataclass
class _KeyedPieces(RequestNames):
    """Names of requests by their position in the data and their rows, so that a repeat of a request has the same name.

    The rows count, because the same data can be cut in other places when it is read again.
    """

    run: str
    more: Mapping[str, str] | None = None
    """Headers of every request."""

    def headers(self, request: ChangeRequest) -> Mapping[str, str]:
        """Return the headers that name the next request."""
        name = f"{self.run} {request.position} {sha256(request.body).hexdigest()}"
        return {**(self.more or {}), "Idempotency-Key": uuid5(NAMESPACE_URL, name).hex}

    def accepted(self, request: ChangeRequest) -> None:
        """Do nothing: the next request has another place."""

    def meaning_of(self, error: RejectedByGateway) -> MirrorgateError:
        """Return the rejection itself."""
        return error


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows as they are sent; `total` is their number if that is known."""

    schema: "pa.Schema"
    """The columns as they are sent; the batches may have other types for the same values."""
    batches: Iterable["pa.RecordBatch"]
    total: int | None

    def without(self, names: Collection[str]) -> "_Rows":
        """Return the rows without some columns."""
        schema = without(self.schema, names)
        return _Rows(schema, (plain_batch(batch, schema) for batch in self.batches), self.total)


def _opened(data: Any) -> _Rows:
    """Return the rows of the data. Raises Misconfigured `extra_missing`, and RejectedInput for what has no rows."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        raise no_pyarrow("`mirrorgate.mirror`") from error
    total = len(data) if hasattr(data, "__len__") else None
    library = type(data).__module__.partition(".")[0]
    if library == "pandas" and hasattr(data, "columns"):
        data = _of_pandas(data)
    elif hasattr(data, "toArrow"):  # a DataFrame of Spark
        data = data.toArrow()
    elif hasattr(data, "toLocalIterator") and not hasattr(data, "__arrow_c_stream__"):  # a DataFrame of Spark 3
        data = _of_spark(data)
    if hasattr(data, "__arrow_c_stream__"):
        if library == "polars" and "Object" in map(str, getattr(data, "dtypes", ())):  # it gives their addresses
            raise _unreadable("a column of Python objects")
        try:
            reader = pa.RecordBatchReader.from_stream(data)
        except pa.ArrowException as error:
            raise _unreadable(f"{type(data).__name__}: {error}") from error
    elif isinstance(data, Iterable) and not isinstance(data, (str, bytes, Mapping)):
        reader = _of_mappings(iter(data))
    else:
        detail = f"{type(data).__name__} is neither a DataFrame nor an iterable of mappings"
        raise RejectedInput(Code.BAD_REQUEST, detail, remedy="Pass rows as a DataFrame or as dicts.")
    schema = plain_schema(reader.schema)
    for field in schema:
        if getattr(field.type, "extension_name", "").startswith("pandas."):  # periods would be sent as numbers
            raise _unreadable(f"column {field.name} of {field.type.extension_name.replace('.', ' ')}s as they are")
    return _Rows(schema, reader, total)


def _unreadable(what: str) -> RejectedInput:
    remedy = "Convert columns of other types first, or pass a table of PyArrow."
    return RejectedInput(Code.BAD_TYPE, f"PyArrow cannot read {what}", remedy=remedy)


def _of_pandas(data: Any) -> "pa.Table":
    """Return a frame of pandas as a table. Raises RejectedInput `bad_type` and `bad_value`, without a value."""
    import pyarrow as pa

    names = [str(name) for name in data.columns]
    if len({*names}) < len(names):
        raise _unreadable("a frame with two columns of one name")
    try:
        table = pa.Table.from_pandas(data, preserve_index=any(data.index.names))
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise _unreadable(f"the frame: {error.args[-1]}" if len(error.args) > 1 else "a column of this type") from error
    for place, name in enumerate(names):
        if data.dtypes.iloc[place].kind == "O" and _is_cut(data.iloc[:, place], table.schema.field(place).type):
            raise _unreadable(f"column {name}, whose values have several types")
    return table


def _is_cut(values: Iterable[Any], found: "pa.DataType") -> bool:
    """Return whether PyArrow took values for dates or times that are more or other: `datetime` cut to days, numbers."""
    from pyarrow import types

    some = (value for value in values if value is not None)
    if types.is_date(found) or types.is_timestamp(found):
        others = (datetime, int) if types.is_date(found) else int
        return any(isinstance(value, others) and value == value for value in some)  # not NaT of pandas
    if types.is_list(found):
        return _is_cut(chain.from_iterable(some), found.value_type)
    if types.is_struct(found):
        rows = [*some]
        return any(_is_cut((row.get(field.name) for row in rows), field.type) for field in found)
    return False


def _of_spark(data: Any) -> "pa.RecordBatchReader":
    """Return a reader of a Spark 3 frame. It converts the rows in pieces, by the frame's schema."""
    import pyarrow as pa

    schema = pa.schema([pa.field(field.name, _of_spark_type(field.dataType)) for field in data.schema.fields])
    rows = data.toLocalIterator()

    def pieces() -> Iterator["pa.RecordBatch"]:
        while some := [*islice(rows, _ROWS_AT_ONCE)]:
            columns = [
                pa.array([_of_spark_value(row[place], field.type) for row in some], field.type)
                for place, field in enumerate(schema)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, pieces())


def _of_spark_type(of_type: Any) -> "pa.DataType":
    """Return the Arrow type of a type of Spark. Raises RejectedInput `bad_type`."""
    import pyarrow as pa

    match name := of_type.typeName():
        case "decimal":
            return pa.decimal128(of_type.precision, of_type.scale)
        case "array":
            return pa.list_(_of_spark_type(of_type.elementType))
        case "map":
            return pa.map_(_of_spark_type(of_type.keyType), _of_spark_type(of_type.valueType))
        case "struct":
            return pa.struct([pa.field(field.name, _of_spark_type(field.dataType)) for field in of_type.fields])
        case "timestamp":
            return pa.timestamp("us", "UTC")
        case "timestamp_ntz":
            return pa.timestamp("us")
    if name not in _SPARK_TYPES:
        raise RejectedInput(Code.BAD_TYPE, f"a column of Spark has the type {name}")
    return pa.type_for_alias(_SPARK_TYPES[name])


def _of_spark_value(value: Any, data_type: "pa.DataType") -> Any:
    """Return a value of a row of Spark, whose timestamps with a zone are in that of this process, without saying so."""
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_timestamp(data_type):
        return value if data_type.tz is None or value.tzinfo is not None else value.astimezone()
    if pa.types.is_struct(data_type):
        return {field.name: _of_spark_value(value[field.name], field.type) for field in data_type}
    if pa.types.is_list(data_type):
        return [_of_spark_value(one, data_type.value_type) for one in value]
    if pa.types.is_map(data_type):
        return [(key, _of_spark_value(one, data_type.item_type)) for key, one in value.items()]
    return value


def _of_mappings(rows: Iterator[Any]) -> "pa.RecordBatchReader":
    """Return a reader of rows that are mappings; the first ones decide the columns and their types."""
    import pyarrow as pa

    first = _batch_of([*islice(rows, _ROWS_AT_ONCE)], 0, None)

    def following() -> Iterator["pa.RecordBatch"]:
        start = first.num_rows
        while some := [*islice(rows, _ROWS_AT_ONCE)]:
            yield _batch_of(some, start, first.schema)
            start += len(some)

    return pa.RecordBatchReader.from_batches(first.schema, chain([first], following()))


def _batch_of(rows: Sequence[Any], start: int, schema: "pa.Schema | None") -> "pa.RecordBatch":
    """Return mappings as rows with the columns of a schema, or with all their own; `start` rows are before them.

    PyArrow alone would leave out the keys that its first row lacks, and cut numbers to a type that is too narrow.
    Raises RejectedInput for a key or value that the columns cannot hold.
    """
    import pyarrow as pa

    names: dict[str, None] = dict.fromkeys(() if schema is None else schema.names)
    for number, row in enumerate(rows, start):
        if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
            detail = f"row {number} is not a mapping of values by column name"
            raise RejectedInput(Code.BAD_REQUEST, detail, remedy="Pass rows as a DataFrame or as dicts.")
        for name in row:
            if name not in names and schema is not None:
                detail = f"row {number} has the key {name}, which none of the first {_ROWS_AT_ONCE:,} rows has"
                raise RejectedInput(Code.UNKNOWN_COLUMN, detail, remedy=_GIVE_TYPES)
            names[name] = None
    columns = []
    for name in names:
        try:
            values = [row.get(name) for row in rows]
            column = pa.array(values)
            wanted = column.type if schema is None else schema.field(name).type
            if _is_cut(values, column.type) or not _fits(column.type, wanted):
                raise pa.ArrowTypeError  # which is answered below, as what PyArrow finds is
            column = column.cast(wanted)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            fits = "fit no single type of Arrow"
            if schema is not None:
                fits = f"do not fit {schema.field(name).type}, their type in the first {_ROWS_AT_ONCE:,} rows"
            detail = f"the values of column {name} in rows {start} to {start + len(rows) - 1} {fits}"
            raise RejectedInput(Code.BAD_VALUE, detail, remedy=_GIVE_TYPES) from error
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, [*names] if schema is None else None, schema)


def _fits(found: "pa.DataType", wanted: "pa.DataType") -> bool:
    """Return whether a cast from one type to another keeps each value or fails."""
    from pyarrow import types

    if types.is_list(found) and types.is_list(wanted):
        return _fits(found.value_type, wanted.value_type)
    if types.is_struct(found) and types.is_struct(wanted):
        known = {field.name: field.type for field in wanted}
        return all(field.name in known and _fits(field.type, known[field.name]) for field in found)
    return (
        types.is_null(found)
        or found == wanted
        or (types.is_integer(found) and (types.is_integer(wanted) or types.is_floating(wanted)))
        or (types.is_integer(found) and types.is_decimal(wanted))
        or (types.is_floating(found) and (types.is_integer(wanted) or types.is_floating(wanted)))
        or (types.is_decimal(found) and types.is_decimal(wanted))
        or (types.is_timestamp(found) and types.is_timestamp(wanted) and (found.tz is None) == (wanted.tz is None))
    )


@contextmanager
def _bar(table: str, total: int | None, *, quiet: bool) -> Iterator[tuple[Progress, TaskID]]:
    """Show how many rows are durable, on a terminal."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f} rows"),
        TimeElapsedColumn(),
    )
    shown = not quiet and sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown) as bar:
        yield bar, bar.add_task(table, total=total)
