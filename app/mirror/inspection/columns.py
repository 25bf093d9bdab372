"""The cost of a mirrored table's columns in a Direct Lake model: distinct values, dictionaries and references.

A Direct Lake model keeps of a column a dictionary of its distinct values, and for each row a number that refers to it.
So a column with few values is small whatever its type, and one whose values hardly repeat is large twice. The bytes are
estimates: the widths of the distinct values, and as many bits for each row as the largest number needs. V-Order and
run-length encoding make columns smaller, in Fabric.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from app.mirror.inspection.history import table_store
from app.mirror.inspection.opening import open_table, reading
from app.mirror.inspection.sql_engine import DEFAULT_MEMORY, SqlEngine, identifier, open_engine
from app.mirror.target import MirrorTarget, arrow_dataset
from mirrorgate.errors import Code, RejectedInput

_MIN_ROWS: Final = 10_000
"""Rows below which no column is worth advice."""
_HARDLY_REPEATS: Final = 0.5
"""Share of distinct values among the rows from which a dictionary is as large as the column."""


@dataclass(frozen=True, slots=True)
class ColumnCost:
    """One column of the newest version of a table."""

    column: str
    type: str
    distinct: int
    """Distinct values, NULL not counted."""
    nulls: int
    dictionary_bytes: int
    """Estimated bytes of the distinct values."""
    reference_bytes: int
    """Estimated bytes of a reference for each row."""
    file_bytes: int
    """Compressed bytes in the data files."""
    advice: str | None

    @property
    def model_bytes(self) -> int:
        """Return the estimated bytes in the memory of a model."""
        return self.dictionary_bytes + self.reference_bytes

    def to_json(self) -> dict[str, Any]:
        """Return the column as `mirror health --columns --json` prints it."""
        return {name: getattr(self, name) for name in self.__slots__} | {"model_bytes": self.model_bytes}


def measure_columns(
    target: MirrorTarget,
    name: str,
    done: Callable[[int, int], None] = lambda *_: None,
    *,
    memory: str = DEFAULT_MEMORY,
) -> list[ColumnCost]:
    """Measure the columns of a table, those that cost a model most first. Reads every column once.

    `done` is called with the number of columns measured, and of all. Raises RejectedInput `bad_query` if the memory is
    too small, or TemporarilyUnavailable `mirror_away`.
    """
    table = open_table(target, name)
    with reading(name), open_engine(memory) as engine:
        dataset = arrow_dataset(table)
        paths = pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist()
        sizes = _file_bytes(target, table, paths)
        source, found = engine.register(dataset), []
        try:
            for number, column in enumerate(dataset.schema, 1):
                found.append(_measured(engine, source, column, sizes.get(column.name, 0)))
                done(number, len(dataset.schema))
        except duckdb.OutOfMemoryException as error:
            raise RejectedInput(Code.BAD_QUERY, str(error), remedy="Raise --memory.") from error
    return sorted(found, key=lambda one: one.model_bytes, reverse=True)


def _measured(engine: SqlEngine, source: str, column: pa.Field, file_bytes: int) -> ColumnCost:
    """Measure a column by one pass over it."""
    name, has_lengths = identifier(column.name), _has_lengths(column.type)
    width = "coalesce(sum(octet_length(CAST(v AS BLOB))), 0)" if has_lengths else "0"
    [(distinct, length, rows, values)] = engine.run(
        # S608: the column's name is quoted by `identifier`, and `source` is a name that the engine chose.
        f"SELECT count(v), {width}, coalesce(sum(n), 0), coalesce(sum(n) FILTER (v IS NOT NULL), 0) "  # noqa: S608  # see above
        f"FROM (SELECT {name} AS v, count(*) AS n FROM {source} GROUP BY 1)"
    )
    dictionary = int(length) if has_lengths else distinct * max(1, column.type.bit_width // 8)
    references = rows * distinct.bit_length() // 8
    return ColumnCost(
        column.name,
        str(column.type),
        distinct,
        int(rows - values),
        dictionary,
        int(references),
        file_bytes,
        _advice(column.type, distinct, int(rows)),
    )


def _has_lengths(of_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(of_type)
        or pa.types.is_large_string(of_type)
        or pa.types.is_binary(of_type)
        or pa.types.is_large_binary(of_type)
        or pa.types.is_string_view(of_type)
        or pa.types.is_binary_view(of_type)
    )


def _advice(of_type: pa.DataType, distinct: int, rows: int) -> str | None:
    """Return how to reduce the distinct values of a column; None for one whose values repeat."""
    if rows < _MIN_ROWS or distinct < _HARDLY_REPEATS * rows:
        return None
    if pa.types.is_floating(of_type):
        return "round it, or cast it as float32, with the table option derive"
    if pa.types.is_timestamp(of_type):
        return "truncate it with date_trunc in the table option derive, or land date and time as two columns"
    return "exclude it if no model needs it; a key or a string that hardly repeats is the largest part of a model"


def _file_bytes(target: MirrorTarget, table: Any, paths: Sequence[str]) -> dict[str, int]:
    """Return the compressed bytes of each column in some data files, from their footers."""
    store = table_store(target, table)
    sizes: dict[str, int] = {}
    for path in paths:
        with store.open_input_file(path) as file, pq.ParquetFile(file) as parquet:
            metadata = parquet.metadata
            for group in range(metadata.num_row_groups):
                for at in range(metadata.num_columns):
                    chunk = metadata.row_group(group).column(at)
                    name = chunk.path_in_schema.split(".")[0]
                    sizes[name] = sizes.get(name, 0) + chunk.total_compressed_size
    return sizes
