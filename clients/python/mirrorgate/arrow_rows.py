"""Rows as Arrow streams: plain columns, requests of a bounded size, and the rows of a Parquet file.

`mirrorgate.mirror`, `mirrorgate send` and the bridge of object storage share it. PyArrow is imported on first use, so
that programs without these rows do not need it.
"""

import base64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from tempfile import TemporaryFile, gettempdir
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

from mirrorgate.chunking.chunks import Chunk, Limits
from mirrorgate.errors import Code, Misconfigured, RejectedInput, TemporarilyUnavailable
from mirrorgate.file_content import Mark

if TYPE_CHECKING:
    import pyarrow as pa

CONTENT_TYPE: Final = "application/vnd.apache.arrow.stream"

PIECE_ROWS: Final = 50_000
"""Rows of one request."""

_ROWS_AT_ONCE: Final = 10_000
"""Rows that are read at once from a file."""


class Columns(Protocol):
    """The columns of rows, as a table is registered with them."""

    @property
    def names(self) -> Collection[str]:
        """All columns."""

    @property
    def untyped(self) -> Collection[str]:
        """The columns without a value, which have no type."""

    def definition(self, key: Sequence[str]) -> Mapping[str, Any]:
        """Return the fields of the request that registers a table with the columns that have a type."""

    def addition(self, names: Collection[str], key: Mapping[str, str]) -> Mapping[str, str]:
        """Return the parameters of requests that add some of them to a table, whose key columns have these types."""


@dataclass(frozen=True)
class ArrowColumns:
    """The columns of an Arrow schema."""

    schema: "pa.Schema"

    @property
    def names(self) -> Collection[str]:
        """All columns."""
        names: list[str] = self.schema.names
        return names

    @cached_property
    def untyped(self) -> Collection[str]:
        """The columns without a value, which have no type."""
        import pyarrow as pa

        return {field.name for field in self.schema if pa.types.is_null(field.type)}

    def definition(self, key: Sequence[str]) -> Mapping[str, Any]:
        """Return the fields of the request that registers a table: key columns are required."""
        import pyarrow as pa

        fields = [field for field in self.schema if field.name not in self.untyped and not is_operation(field.name)]
        declared = pa.schema([field.with_nullable(False) if field.name in key else field for field in fields])
        return {"arrow_schema": base64.b64encode(declared.serialize().to_pybytes()).decode()}

    def addition(self, names: Collection[str], key: Mapping[str, str]) -> Mapping[str, str]:
        """Return the parameters of requests that add columns, whose types the stream says."""
        return {"register": "true"}


def is_operation(name: str) -> bool:
    """Return whether a column has the operations of the rows, and is not one of the table."""
    return name == "__op__"


def quoted(name: str) -> str:
    """Return the name of a column as the parameters `columns` and `key_columns` have it."""
    return '"{}"'.format(name.replace('"', '""'))


def plain_schema(schema: "pa.Schema") -> "pa.Schema":
    """Return the schema of rows as they are sent."""
    import pyarrow as pa

    return pa.schema([field.with_type(_plain(field.type)).remove_metadata() for field in schema])


def without(schema: "pa.Schema", names: Collection[str]) -> "pa.Schema":
    """Return the schema without some columns."""
    import pyarrow as pa

    return pa.schema([field for field in schema if field.name not in names])


def _plain(data_type: "pa.DataType") -> "pa.DataType":
    """Return the type as it is sent.

    Each request would repeat a whole dictionary, and all buffers of views, for its part of the rows.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(data_type):
        return _plain(data_type.value_type)
    if pa.types.is_string_view(data_type):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(data_type) else data_type


def plain_batch(batch: "pa.RecordBatch", schema: "pa.Schema") -> "pa.RecordBatch":
    """Return the rows with the columns of a plain schema, which may lack some."""
    import pyarrow as pa

    columns = [_plain_column(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain_column(column: "pa.Array", data_type: "pa.DataType") -> "pa.Array":
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        values = _plain_column(column.dictionary, data_type)
        return pa.DictionaryArray.from_arrays(column.indices, values).dictionary_decode()
    return column if column.type == data_type else column.cast(data_type)


def piece_of(batch: "pa.RecordBatch", start: int, max_rows: int, max_bytes: int) -> "pa.RecordBatch":
    """Return the rows from `start` on that fit into one request; one row at least."""
    return batch.slice(start, max(1, min(max_rows, max_bytes * batch.num_rows // max(1, batch.nbytes))))


def stream_of(piece: "pa.RecordBatch") -> bytes:
    """Return rows as an Arrow stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, piece.schema) as stream:
        stream.write_batch(piece)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def no_pyarrow(subject: str) -> Misconfigured:
    """Return the error for a missing PyArrow."""
    remedy = "Install the extra `mirrorgate[dataframes]`."
    return Misconfigured(Code.EXTRA_MISSING, f"{subject} needs PyArrow", remedy=remedy)


def counted_from(first: int, problems: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return problems of a request whose first row is number `first` of all rows, with the numbers of their rows."""
    return [{**problem, **({"index": first + problem["index"]} if "index" in problem else {})} for problem in problems]


@contextmanager
def seekable(blocks: Iterable[bytes]) -> Iterator[tuple[BinaryIO, str]]:
    """Yield a file with the content of the blocks, and its hash; a temporary file if they are not from one.

    The file is gone when the process ends, however it ends. Raises TemporarilyUnavailable if its disk has no room.
    """
    content, file = sha256(), getattr(blocks, "file", None)
    if file is not None:
        for block in blocks:
            content.update(block)
        yield file, content.hexdigest()[:16]
        return
    with _room():
        spool = TemporaryFile(prefix="mirrorgate-")  # noqa: SIM115  # closed below, where an error is left out
    try:
        for block in blocks:
            content.update(block)
            with _room():
                spool.write(block)
        with _room():
            spool.seek(0)
        yield spool, content.hexdigest()[:16]
    finally:
        with suppress(OSError):  # of what a full disk has not taken
            spool.close()


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        detail = f"it needs room in the temporary folder {gettempdir()}: {error.strerror}"
        remedy = "Make room there, or name a folder with room for the whole object in TMPDIR."
        raise TemporarilyUnavailable(Code.SOURCE_UNAVAILABLE, detail, remedy=remedy) from error


@dataclass(frozen=True)
class ParquetCutter:
    """Cuts Parquet files into requests. At most one row group is read at a time.

    `on_columns` gets the columns of each file before its first request, and returns those to leave out.
    """

    on_columns: Callable[[Columns], Collection[str]] = lambda _: ()

    def chunks(
        self, blocks: Iterable[bytes], limits: Limits, skip: int, mark: Mark | None = None
    ) -> Iterator[tuple[Chunk, str]]:
        """Yield the chunks after the first `skip` rows or after `mark`, each with the hash of the whole file.

        Raises RejectedInput for a file that is not Parquet, and `source_position_lost` for one that has changed.
        """
        with seekable(blocks) as (file, content):
            if mark is not None:
                skip = mark.next_message or 0
                if content != mark.content:
                    detail = f"it has changed since its first {skip} rows were sent, and is Parquet, which must not"
                    remedy = f"Restore it. To correct it, move it away and give a file without its first {skip} rows."
                    raise RejectedInput(Code.SOURCE_POSITION_LOST, detail, remedy=remedy)
            for chunk in self._cut(file, limits, skip):
                yield chunk, content

    def located(self, chunk: Chunk, problems: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return problems of a request with the rows of the file that they are about, counted from 0."""
        return counted_from(chunk.first, problems)

    def _cut(self, file: BinaryIO, limits: Limits, skip: int) -> Iterator[Chunk]:
        try:
            import pyarrow.parquet as pq
        except ModuleNotFoundError as error:
            raise no_pyarrow("Reading Parquet") from error
        max_rows = min(PIECE_ROWS, limits.max_messages or PIECE_ROWS)
        with _damage():
            parquet = pq.ParquetFile(file)
            schema, groups, at = plain_schema(parquet.schema_arrow), [*range(parquet.num_row_groups)], 0
        if twice := {name for name in schema.names if schema.names.count(name) > 1}:
            detail = f"the file has several columns with the name {min(twice)}"
            raise RejectedInput(Code.BAD_REQUEST, detail, remedy="Give each column its own name.")
        schema = without(schema, self.on_columns(ArrowColumns(schema)))
        while groups and at + parquet.metadata.row_group(groups[0]).num_rows <= skip:
            at += parquet.metadata.row_group(groups.pop(0)).num_rows
        batches = parquet.iter_batches(batch_size=_ROWS_AT_ONCE, row_groups=groups)
        while True:
            with _damage():
                batch = next(batches, None)
                if batch is None:
                    return
                plain, start = plain_batch(batch, schema), max(0, skip - at)
            while start < plain.num_rows:
                piece = piece_of(plain, start, max_rows, limits.max_bytes)
                yield Chunk(stream_of(piece), at + start, piece.num_rows, 0, 0, 1, 0)
                start += piece.num_rows
            at += plain.num_rows


@contextmanager
def _damage() -> Iterator[None]:
    """Turn PyArrow's errors about a file into RejectedInput."""
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as error:  # the last one for a type that PyArrow does not read
        remedy = "Give a complete Parquet file."
        raise RejectedInput(Code.BAD_REQUEST, "the file cannot be read as Parquet", remedy=remedy) from error
