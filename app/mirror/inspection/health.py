"""The fitness of a mirrored table's files and columns for Direct Lake, with remedies.

`examine_table` measures the newest version: files and their sizes from the log, row groups from the footers of the
Parquet files. Files of older versions count apart: they cost storage, not query time.

`find_problems` compares the figures with the limits of a capacity (`GuardRails`).

`measure_columns` estimates what each column costs a semantic model.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyarrow import fs

from app.mirror.inspection.history import commit_versions, open_table, reading, table_store
from app.mirror.inspection.query import DEFAULT_MEMORY, SqlEngine, open_engine
from app.mirror.target import LOG_FOLDER, MirrorTarget, arrow_dataset, live_files, quoted
from mirrorgate.errors import Code, RejectedInput


@dataclass(frozen=True, slots=True)
class GuardRails:
    """The Direct Lake limits of one Fabric capacity (SKU).

    Beyond one of these limits ("Direct Lake overview", capacity requirements), queries of a semantic model on the SQL
    endpoint fall back to DirectQuery, and a model on OneLake fails. The limits of memory are not guard rails and are
    not listed.
    """

    sku: str
    files: int
    """Parquet files per table."""
    row_groups: int
    """Row groups per table."""
    rows: int
    """Rows per table."""
    model_bytes: int | None
    """Bytes on disk of all tables of a semantic model; None for no limit."""


_MILLION: Final = 1_000_000
_GB: Final = 1 << 30

_IN_ORDER: Final = (
    GuardRails("F2", 1_000, 1_000, 300 * _MILLION, 10 * _GB),
    GuardRails("F4", 1_000, 1_000, 300 * _MILLION, 10 * _GB),
    GuardRails("F8", 1_000, 1_000, 300 * _MILLION, 10 * _GB),
    GuardRails("F16", 1_000, 1_000, 300 * _MILLION, 20 * _GB),
    GuardRails("F32", 1_000, 1_000, 300 * _MILLION, 40 * _GB),
    GuardRails("F64", 5_000, 5_000, 1_500 * _MILLION, None),
    GuardRails("F128", 5_000, 5_000, 3_000 * _MILLION, None),
    GuardRails("F256", 5_000, 5_000, 6_000 * _MILLION, None),
    GuardRails("F512", 10_000, 10_000, 12_000 * _MILLION, None),
    GuardRails("F1024", 10_000, 10_000, 24_000 * _MILLION, None),
    GuardRails("F2048", 10_000, 10_000, 24_000 * _MILLION, None),
)

GUARD_RAILS: Final[Mapping[str, GuardRails]] = {one.sku: one for one in _IN_ORDER}
"""The guard rails by SKU, the smallest first. FT1 and P1 are F64, P2 is F128, and so on."""


def smallest_sku(files: int, row_groups: int, rows: int, size: int) -> str | None:
    """Return the smallest SKU whose guard rails a table keeps, None if there is none."""
    for one in _IN_ORDER:
        fits = files <= one.files and row_groups <= one.row_groups and rows <= one.rows
        if fits and (one.model_bytes is None or size <= one.model_bytes):
            return one.sku
    return None


_LAST_CHECKPOINT: Final = "_last_checkpoint"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last checkpoint: readers start there and read each later commit."""

    version: int
    written_at: datetime | None


def read_checkpoint(target: MirrorTarget, table: DeltaTable) -> Checkpoint | None:
    """Return the last checkpoint, None without one. Raises OSError."""
    log = table_store(target, table, LOG_FOLDER)
    try:
        with log.open_input_file(_LAST_CHECKPOINT) as file:
            version = json.loads(file.read()).get("version")
    except (FileNotFoundError, ValueError):
        return None
    return Checkpoint(int(version), log.get_file_info(_LAST_CHECKPOINT).mtime) if version is not None else None


def data_files(target: MirrorTarget, table: DeltaTable) -> dict[str, int]:
    """Return the size of each Parquet file in the table's folder, of any version. Raises OSError."""
    entries = table_store(target, table).get_file_info(fs.FileSelector("", recursive=True))
    return {
        entry.path: entry.size or 0
        for entry in entries
        if entry.type is fs.FileType.File and entry.path.endswith(".parquet") and not entry.path.startswith(LOG_FOLDER)
    }


MIN_ROW_GROUP_ROWS: Final = 1_000_000
"""Below this, Direct Lake reads columns with too many small requests."""
MIN_FILE_BYTES: Final = 128 << 20
MAX_SMALL_FILES: Final = 15
MAX_DELETED_SHARE: Final = 0.1
MAX_LOG_COMMITS: Final = 200
"""Commits behind the checkpoint, which each reader reads one by one."""

_READERS: Final = 8
_OPTIMIZE: Final = "Run `mirrorgate mirror optimize {}`."
_VACUUM: Final = "Run `mirrorgate mirror vacuum {}`: files older than the retention are deleted."


@dataclass(frozen=True, slots=True)
class TableHealth:
    """The layout of one table's newest version."""

    table: str
    version: int
    rows: int
    bytes: int
    files: int
    small_files: int
    """Files below 128 MiB."""
    row_groups: int
    deleted_rows: int
    """Rows that deletion vectors hide. Mirrorgate writes none; other writers do."""
    old_files: int
    """Files in the folder that the newest version does not need."""
    old_bytes: int
    log_commits: int
    """Commits after the last checkpoint."""
    checkpoint_age_seconds: float | None
    smallest_sku: str | None
    """The smallest Fabric capacity whose guard rails the table keeps."""

    @property
    def rows_per_row_group(self) -> int:
        """Return the average, 0 without row groups."""
        return self.rows // self.row_groups if self.row_groups else 0

    @property
    def deleted_share(self) -> float:
        """Return the share of the rows in the files that deletion vectors hide."""
        stored = self.rows + self.deleted_rows
        return self.deleted_rows / stored if stored else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the figures as `mirror health --json` prints them."""
        figures = {name: getattr(self, name) for name in self.__slots__}
        return figures | {
            "rows_per_row_group": self.rows_per_row_group,
            "deleted_share": round(self.deleted_share, 4),
        }


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """A guard rail that is exceeded (error), or a layout that costs time or storage (advice)."""

    code: str
    severity: str
    table: str | None
    """None for all tables together."""
    detail: str
    remedy: str


def examine_table(target: MirrorTarget, name: str, done: Callable[[int, int], None] = lambda *_: None) -> TableHealth:
    """Measure a table. `done` is called with the number of footers read, and of all. Raises `mirror_away`."""
    table = open_table(target, name)
    with reading(name):
        live = live_files(table)
        row_groups, rows = _footers(target, table, [*live], done)
        deleted = _deleted_rows(table)
        stored = data_files(target, table)
        old = [size for path, size in stored.items() if path not in live]
        checkpoint = read_checkpoint(target, table)
        versions = commit_versions(table_store(target, table, LOG_FOLDER))
    written = None if checkpoint is None else checkpoint.written_at
    return TableHealth(
        table=name,
        version=table.version(),
        rows=rows - deleted,
        bytes=sum(live.values()),
        files=len(live),
        small_files=sum(size < MIN_FILE_BYTES for size in live.values()),
        row_groups=row_groups,
        deleted_rows=deleted,
        old_files=len(old),
        old_bytes=sum(old),
        log_commits=sum(version > (-1 if checkpoint is None else checkpoint.version) for version in versions),
        checkpoint_age_seconds=None if written is None else (datetime.now(UTC) - written).total_seconds(),
        smallest_sku=smallest_sku(len(live), row_groups, rows - deleted, sum(live.values())),
    )


def find_problems(tables: Sequence[TableHealth], rails: GuardRails) -> list[HealthFinding]:
    """Compare the tables with the guard rails of a capacity, errors first, and advise on their layout."""
    found = [problem for table in tables for problem in (*_exceeded(table, rails), *_advice(table))]
    size = sum(table.bytes for table in tables)
    if rails.model_bytes is not None and size > rails.model_bytes:
        detail = f"{_gigabytes(size)} of all tables; a model on {rails.sku} can have {_gigabytes(rails.model_bytes)}"
        remedy = "Use fewer tables or columns in the semantic model, or a larger capacity."
        found.append(HealthFinding("model_size", "error", None, detail, remedy))
    return sorted(found, key=lambda problem: problem.severity != "error")


def _exceeded(table: TableHealth, rails: GuardRails) -> Iterator[HealthFinding]:
    fewer_rows = "Keep less history or fewer rows in the source table, or use a larger capacity."
    for code, noun, number, limit, remedy in (
        ("files", "Parquet files", table.files, rails.files, _OPTIMIZE.format(table.table)),
        ("row_groups", "row groups", table.row_groups, rails.row_groups, _OPTIMIZE.format(table.table)),
        ("rows", "rows", table.rows, rails.rows, fewer_rows),
    ):
        if number > limit:
            detail = f"{number:,} {noun}; {rails.sku} reads at most {limit:,} per table"
            yield HealthFinding(code, "error", table.table, detail, remedy)


def _advice(table: TableHealth) -> Iterator[HealthFinding]:
    optimize, vacuum = _OPTIMIZE.format(table.table), _VACUUM.format(table.table)
    advice = (
        (
            "small_row_groups",
            table.row_groups > 1 and table.rows_per_row_group < min(MIN_ROW_GROUP_ROWS, table.rows // 2),
            f"{table.rows_per_row_group:,} rows per row group on average; a million or more are read fastest",
            optimize,
        ),
        (
            "small_files",
            table.small_files > MAX_SMALL_FILES,
            f"{table.small_files:,} files below {MIN_FILE_BYTES >> 20} MiB",
            optimize,
        ),
        (
            "deleted_rows",
            table.deleted_share > MAX_DELETED_SHARE,
            f"{table.deleted_share:.0%} of the stored rows are deleted",
            optimize,
        ),
        (
            "old_files",
            table.old_bytes > table.bytes,
            f"{table.old_files:,} files of older versions take {_gigabytes(table.old_bytes)}, more than the table",
            vacuum,
        ),
        (
            "long_log",
            table.log_commits > MAX_LOG_COMMITS,
            f"{table.log_commits:,} commits since the last checkpoint",
            f"{optimize} It writes a checkpoint.",
        ),
    )
    for code, is_found, detail, remedy in advice:
        if is_found:
            yield HealthFinding(code, "advice", table.table, detail, remedy)


def _footers(
    target: MirrorTarget, table: DeltaTable, paths: list[str], done: Callable[[int, int], None]
) -> tuple[int, int]:
    """Return the row groups and the rows of some data files, from their footers."""
    store = table_store(target, table)

    def read(path: str) -> tuple[int, int]:
        with store.open_input_file(path) as file, pq.ParquetFile(file) as parquet:
            return parquet.metadata.num_row_groups, parquet.metadata.num_rows

    row_groups = rows = 0
    with ThreadPoolExecutor(_READERS) as pool:
        for number, (groups, count) in enumerate(pool.map(read, paths), 1):
            row_groups, rows = row_groups + groups, rows + count
            done(number, len(paths))
    return row_groups, rows


def _deleted_rows(table: DeltaTable) -> int:
    """Count the rows that deletion vectors hide."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return 0
    vectors = pa.table(table.deletion_vectors()).column("selection_vector").to_pylist()
    return sum(not kept for vector in vectors for kept in vector)


def _gigabytes(size: int) -> str:
    return f"{size / (1 << 30):,.1f} GB"


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

    A Direct Lake model keeps of a column a dictionary of its distinct values, and for each row a number that refers to
    it. So a column with few values is small whatever its type, and one whose values hardly repeat is large twice. The
    bytes are estimates: the widths of the distinct values, and as many bits for each row as the largest number needs.
    V-Order and run-length encoding make columns smaller, in Fabric.
    """
    table = open_table(target, name)
    with reading(name), open_engine(memory) as engine:
        dataset = arrow_dataset(table)
        sizes = _file_bytes(target, table)
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
    name, has_lengths = quoted(column.name), _has_lengths(column.type)
    width = "coalesce(sum(octet_length(CAST(v AS BLOB))), 0)" if has_lengths else "0"
    [(distinct, length, rows, values)] = engine.run(
        # S608: the column's name is quoted by `quoted`, and `source` is a name that the engine chose.
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
        _column_advice(column.type, distinct, int(rows)),
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


def _column_advice(of_type: pa.DataType, distinct: int, rows: int) -> str | None:
    """Return how to reduce the distinct values of a column; None for one whose values repeat."""
    if rows < _MIN_ROWS or distinct < _HARDLY_REPEATS * rows:
        return None
    if pa.types.is_floating(of_type):
        return "round it, or cast it as float32, with the table option derive"
    if pa.types.is_timestamp(of_type):
        return "truncate it with date_trunc in the table option derive, or land date and time as two columns"
    return "exclude it if no model needs it; a key or a string that hardly repeats is the largest part of a model"


def _file_bytes(target: MirrorTarget, table: DeltaTable) -> dict[str, int]:
    """Return the compressed bytes of each column in the data files, from their footers."""
    store = table_store(target, table)
    sizes: dict[str, int] = {}
    for path in live_files(table):
        with store.open_input_file(path) as file, pq.ParquetFile(file) as parquet:
            metadata = parquet.metadata
            for group in range(metadata.num_row_groups):
                for at in range(metadata.num_columns):
                    chunk = metadata.row_group(group).column(at)
                    name = chunk.path_in_schema.split(".")[0]
                    sizes[name] = sizes.get(name, 0) + chunk.total_compressed_size
    return sizes
