"""`mirrorgate verify --against`: differences are findings beside those of the zone."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.verify.conftest import Run
from tests.verify.zones import Zone, rows

SECRET = "n2"


@pytest.fixture
def zone(zone: Zone) -> Zone:
    zone.clean("sales.schema/orders")
    zone.clean("other")
    return zone


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Delta tables that equal the two tables of the zone."""
    folder = tmp_path / "tables"
    for name in ("sales/orders", "other"):
        write_deltalake(folder / name, rows(1, 2, marker=None))
    return folder


def test_equal_tables_exit_with_0(zone: Zone, target: Path, run: Run) -> None:
    ended = run("verify", zone.root, "--against", target)
    assert (ended.status, ended.output) == (0, "2 tables, 4 files: nothing found\n")


def test_differences_exit_with_1_and_stand_with_the_other_findings_of_their_table(
    zone: Zone, target: Path, run: Run
) -> None:
    (zone.root / "other" / "notes.md").touch()
    write_deltalake(target / "other", rows(1, marker=None), mode="overwrite")
    ended = run("verify", zone.root, "--against", target)
    assert ended.status == 1
    assert ended.output.splitlines()[0] == "other"
    assert ended.output.count("\nother\n") == 0
    assert "against_missing_row" in ended.output
    assert "foreign_file" in ended.output


def test_values_are_shown_only_on_request(zone: Zone, target: Path, run: Run) -> None:
    other = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["n1", "altered"]})
    write_deltalake(target / "other", other, mode="overwrite")
    hidden = run("verify", zone.root, "--table", "other", "--against", target)
    shown = run("verify", zone.root, "--table", "other", "--against", target, "--show-values")
    assert SECRET not in hidden.output
    assert "altered" not in hidden.output
    assert "altered" in shown.output
    assert hidden.status == shown.status == 1


def test_one_table_is_compared_with_one_delta_table(zone: Zone, target: Path, run: Run) -> None:
    arguments = ["verify", zone.root, "--json", "--against", target / "sales" / "orders"]
    assert run(*arguments, "--table", "sales.orders").status == 0
    ended = run(*arguments)
    assert ended.status == 2
    assert "is one Delta table, and the zone has 2 tables" in ended.errors


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--against", "nowhere"], "nowhere is not a folder"),
        (["--against", "nowhere", "--follow"], "leave out --follow"),
        (["--show-values"], "--show-values is for --against"),
    ],
)
def test_what_cannot_be_compared_exits_with_2(zone: Zone, run: Run, arguments: list[str], problem: str) -> None:
    ended = run("verify", zone.root, *arguments)
    assert ended.status == 2
    assert problem in " ".join(ended.errors.split())
