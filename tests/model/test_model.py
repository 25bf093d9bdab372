"""The model on a few tables of a fixed seed, and that it notices what it is for."""

from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.model.__main__ import Run
from tests.model.fold import Batch, Difference, Landed
from tests.model.gateway import small_gateway
from tests.model.tables import Spec, random_spec
from tests.support.forms.values import Column

TABLES, CHANGES = 10, 3_000


def test_tables_of_random_options_land_what_the_model_says(database_url: str, tmp_path: Path) -> None:
    with small_gateway(database_url, tmp_path) as gateway:
        run = Run(gateway, seed=7, changes=CHANGES, tables=TABLES)
        for number in range(TABLES):
            run.table(number, lambda _: None)
    assert "\n".join(run.differences) == ""
    assert (len(run.options), run.total.changes > CHANGES, run.total.rows > CHANGES) == (TABLES, True, True)


def test_a_seed_always_makes_the_same_table() -> None:
    first, second = (random_spec(Random("7/1"), "t").registration for _ in range(2))
    assert first == second


ROWS = [{"id": 1, "note": "a", "__rowMarker__": 0}, {"id": 2, "note": "b", "__rowMarker__": 0}]
WANTED = {(1,): [{"id": 1, "note": "a"}], (2,): [{"id": 2, "note": "b"}]}


def compared(zone: Path, rows: list[dict[str, Any]], *batches: Batch) -> None:
    """Write a landing file with the rows, and compare it with the batches. Raises Difference."""
    zone.joinpath("t").mkdir()
    zone.joinpath("t", "_metadata.json").write_text("{}")
    pq.write_table(pa.Table.from_pylist(rows), zone / "t" / f"{1:020d}.parquet")
    utc = ZoneInfo("UTC")
    columns = [Column("id", "int64", utc, nullable=False), Column("note", "string", utc)]
    Landed(zone, Spec("t", columns, ["id"], {})).compare(batches)


def test_rows_as_they_should_be_are_accepted(tmp_path: Path) -> None:
    gone = [*ROWS, {"id": 1, "note": None, "__rowMarker__": 2}, {"id": 2, "note": "c", "__rowMarker__": 1}]
    wanted = {(1,): [], (2,): [{"id": 2, "note": "c"}]}
    compared(tmp_path, gone, Batch("first", 2, WANTED, dry_run=ROWS), Batch("second", 2, wanted))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([ROWS[0] | {"note": "x"}, ROWS[1]], r"batch 1 \(first\), key \(1,\), column note: expected 'a', landed 'x'"),
        (ROWS[:1], "the receipt says 2 rows, and 1 landed"),
        ([*ROWS, ROWS[0] | {"id": 3}], "1 rows landed that belong to no receipt"),
        ([ROWS[0], ROWS[0]], r"key \(1,\): 1 rows expected, 2 in the mirror|key \(2,\): 1 rows expected, 0"),
        ([ROWS[0], {"id": 2, "note": None, "__rowMarker__": 2}], r"key \(2,\): 1 rows expected, 0 in the mirror"),
        ([row | {"note": 5} for row in ROWS], "column note: its type is int64, expected string"),
    ],
    ids=["other value", "missing row", "row too many", "duplicate", "deleted row", "other type"],
)
def test_what_landed_otherwise_is_named(tmp_path: Path, rows: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(Difference, match=told):
        compared(tmp_path, rows, Batch("first", 2, WANTED))


def test_a_dry_run_that_showed_something_else_is_named(tmp_path: Path) -> None:
    shown = [ROWS[0], ROWS[1] | {"__rowMarker__": 4}]
    with pytest.raises(Difference, match="row 1, column __rowMarker__: the dry run has 4, landed 0"):
        compared(tmp_path, ROWS, Batch("first", 2, WANTED, dry_run=shown))
