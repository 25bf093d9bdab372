"""`tables export-rows` writes exactly the rows that the accepted changes make, typed like the table."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from app.cli.tables.table_rows import ExportedRows, export_rows, find_exportable
from app.domain.model.names import TableName
from app.domain.model.table import Table
from mirrorgate.errors import Code
from tests.drain.test_landing_zone_command import terminal
from tests.support.cli_output import Terminal
from tests.support.gateway_parts import registered, stage, typed
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.samples.changes import delete, insert, update
from tests.support.samples.images import KEEP
from tests.support.samples.schemas import schema_of

__all__ = ["terminal"]

SCHEMA = schema_of({"id": "int64", "name": "string", "total": "decimal(9,2)", "at": "timestamp", "on": "date"}, ["id"])


@pytest.fixture
def landing_zone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the landing zone of the command's settings."""
    return tmp_path_factory.mktemp("zone")


@pytest.fixture
def table(engine: sa.Engine) -> Table:
    table = registered(engine, "sales.t", SCHEMA, KEEP)
    ada = {"id": 1, "name": "Ada", "total": "1.5", "at": "2026-07-01 12:00:00.5", "on": "2026-07-01"}
    stage(
        engine,
        [typed(table, [insert(ada, 0), insert({"id": 2, "name": "Bob"}, 1), insert({"id": 3, "name": "Cy"}, 2)])],
        [typed(table, [delete({"id": 2}), update({"id": 3}, {**ada, "id": 3, "name": None}, 1)])],
    )
    return table


def exported(engine: sa.Engine, name: str, to: Path) -> ExportedRows:
    found, _ = find_exportable(engine, TableName.parse(name))
    return export_rows(engine, found, to, lambda _: None)


def test_the_file_has_the_present_rows_with_their_types_and_says_as_of_when(
    engine: sa.Engine, table: Table, tmp_path: Path
) -> None:
    done = exported(engine, "sales.t", tmp_path)
    assert done.file == tmp_path / "sales.t.parquet"
    assert (done.rows, done.sequence, done.bytes) == (2, 2, done.file.stat().st_size)
    read = pq.read_table(done.file)
    assert read.schema.types == [column.type.arrow for column in SCHEMA.columns]
    moment = datetime(2026, 7, 1, 12, 0, 0, 500_000, UTC)
    assert [tuple(row.values()) for row in read.to_pylist()] == [
        (1, "Ada", Decimal("1.50"), moment, date(2026, 7, 1)),
        (3, None, Decimal("1.50"), moment, date(2026, 7, 1)),
    ]
    metadata = pq.read_metadata(done.file).metadata
    assert {metadata[f"mirrorgate.{name}".encode()] for name in ("table", "generation", "sequence")} == {
        b"sales.t",
        b"1",
        b"2",
    }
    assert [file.name for file in tmp_path.iterdir()] == ["sales.t.parquet"]


def test_a_table_without_rows_becomes_a_file_without_rows(engine: sa.Engine, tmp_path: Path) -> None:
    registered(engine, "t", SCHEMA, KEEP)
    exported(engine, "t", tmp_path / "empty.parquet")
    read = pq.read_table(tmp_path / "empty.parquet")
    assert (read.num_rows, read.schema.names) == (0, list(SCHEMA.names))


def test_rows_of_many_row_groups_are_all_written(
    engine: sa.Engine, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.landing.parquet_file.MAX_ROW_GROUP_BYTES", 1)
    monkeypatch.setattr("app.staging.images._IMAGES_AT_ONCE", 1)
    file = exported(engine, "sales.t", tmp_path).file
    assert pq.read_metadata(file).num_row_groups == 2
    assert pq.read_table(file).column("id").to_pylist() == [1, 3]


def test_an_export_that_fails_leaves_the_former_file(
    engine: sa.Engine, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.parquet"
    exported(engine, "sales.t", file)
    former = file.read_bytes()

    def full(*_: object) -> Iterator[pa.Table]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.cli.tables.table_rows.row_groups", full)
    with pytest.raises(OSError, match="No space"):
        exported(engine, "sales.t", file)
    assert file.read_bytes() == former


def test_a_table_that_was_recreated_meanwhile_leaves_the_former_file(
    engine: sa.Engine, table: Table, tmp_path: Path
) -> None:
    file = tmp_path / "rows.parquet"
    exported(engine, "sales.t", file)
    former = file.read_bytes()
    sql.run(engine, "UPDATE mirrorgate.tables SET generation = generation + 1, revision = revision + 1")
    with rejected(Code.UNKNOWN_TABLE):
        export_rows(engine, table, file, lambda _: None)
    assert file.read_bytes() == former


def test_only_tables_whose_rows_all_have_images_are_exported(engine: sa.Engine) -> None:
    plain = registered(engine, "plain", SCHEMA)
    stage(engine, [typed(plain, [insert({"id": 1, "name": "Ada"})])])
    with rejected(Code.NO_ROW_IMAGES):
        find_exportable(engine, plain.name)
    registered(engine, "plain", None, KEEP)
    with rejected(Code.NO_ROW_IMAGES):
        find_exportable(engine, plain.name)
    with rejected(Code.UNKNOWN_TABLE):
        find_exportable(engine, TableName.parse("nobody"))


def test_the_command_writes_the_file_and_tells_what_it_has(terminal: Terminal, table: Table, tmp_path: Path) -> None:
    status, output, _ = terminal.run("tables", "export-rows", "sales.t", "--to", tmp_path / "a.parquet", "--json")
    assert status == 0
    told = json.loads(output)
    assert (told["file"], told["rows"], told["sequence"]) == (str(tmp_path / "a.parquet"), 2, 2)
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 2
    assert terminal.run("tables", "export-rows", "nobody", "--to", tmp_path)[0] == 1


def test_the_command_rejects_a_file_that_cannot_be_written(terminal: Terminal, table: Table, tmp_path: Path) -> None:
    assert terminal.run("tables", "export-rows", "sales.t", "--to", tmp_path / "none" / "rows.parquet")[0] == 1


def test_a_column_that_is_added_meanwhile_is_exported(engine: sa.Engine, table: Table, tmp_path: Path) -> None:
    columns = {column.name: str(column.type) for column in SCHEMA.columns}
    wider = registered(engine, "sales.t", schema_of({**columns, "city": "string"}, ["id"]), KEEP)
    stage(engine, [typed(wider, [insert({"id": 9, "city": "Rome"})])])
    export_rows(engine, table, tmp_path / "rows.parquet", lambda _: None)
    assert pq.read_table(tmp_path / "rows.parquet")["city"].to_pylist() == [None, None, "Rome"]
