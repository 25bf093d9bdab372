"""Comparison of faulty zones never ends in an exception, and that of mirrored histories finds lost rows alone."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from app.domain.mirror_report import MirrorState
from app.landing.local_zone import LocalZone
from app.mirror.target import MirrorTarget
from app.published.table_files import list_tables
from mirrorgate_zone.verify.codes import Finding, FindingCode
from mirrorgate_zone.verify.compare_zone import compare_zone
from tests.mirror.model.history import Mirror, TableHistory, file_sizes, open_histories
from tests.support import publishers
from tests.verify.faults import PLANTED, Planted
from tests.verify.runs import findings
from tests.verify.test_damage import DAMAGE, NUMBERS, Damage
from tests.verify.zones import Zone


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_fault_does_not_end_the_comparison(planted: Planted, zone: Zone, tmp_path: Path) -> None:
    zone.clean("another")
    planted.plant(zone)
    target = MirrorTarget(str(tmp_path / "tables"))
    rows = pa.table({"id": [1, 2], "name": ["n1", "n2"]})
    tables = list_tables(LocalZone(zone.root))
    for table in tables[:20]:
        write_deltalake(target.uri(table), rows)
    chosen = [str(table) for table in tables[:20]]
    found = list(compare_zone(LocalZone(zone.root), target.location, tables=chosen, show_values=True))
    assert "another" not in {one.table for one in found}


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A clean zone, and a folder with a Delta table that equals none of its states."""
    place = tmp_path_factory.mktemp("compared")
    rows = publishers.changes((0, 1), (0, 2), (0, 9)).drop_columns("__rowMarker__")
    publishers.clean_zone(place / "zone")
    write_deltalake(place / "tables" / publishers.NAME, rows)
    return place / "zone", place / "tables"


@given(damage=st.lists(st.tuples(st.sampled_from(DAMAGE), NUMBERS, NUMBERS), min_size=1, max_size=4))
def test_random_damage_does_not_end_the_comparison(
    compared: tuple[Path, Path], damage: list[tuple[Damage, int, int]]
) -> None:
    zone, tables = compared
    with TemporaryDirectory() as place:
        root = Path(place) / "zone"
        shutil.copytree(zone, root)
        for one, choice, position in damage:
            one(root / publishers.NAME, choice, position)
        assert list(compare_zone(LocalZone(root), str(tables), show_values=True))


CHANGES = 4_000
MEAN = 120


def publish(place: Path, seed: int) -> tuple[Mirror, list[TableHistory]]:
    """Write a history of several tables and mirror it."""
    source = random.Random(seed)
    mirror = Mirror(place / "zone", place / "mirror")
    histories = open_histories(source, place / "zone")
    for changes in file_sizes(source, CHANGES, MEAN):
        source.choice(histories).step(changes)
    for history in histories:
        if history.current.files:
            assert mirror.catch_up(history.writer).state is MirrorState.IN_STEP
    return mirror, histories


def against(mirror: Mirror) -> list[Finding]:
    return list(compare_zone(LocalZone(mirror.root), str(mirror.location)))


def codes(found: Sequence[Finding]) -> set[FindingCode]:
    return {one.code for one in found}


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_mirrored_histories_do_not_differ(seed: int, tmp_path: Path) -> None:
    mirror, _ = publish(tmp_path, seed)
    assert against(mirror) == []


@pytest.mark.parametrize("seed", [6, 7])
def test_a_lost_row_is_found_in_every_table(seed: int, tmp_path: Path) -> None:
    mirror, histories = publish(tmp_path, seed)
    for history in histories:
        table = DeltaTable(mirror.target.uri(history.writer.table))
        rows = pa.Table.from_batches(pa.RecordBatchReader.from_stream(table.scan()))
        write_deltalake(table, rows.slice(1), mode="overwrite")
    found = against(mirror)
    assert codes(found) <= {FindingCode.AGAINST_MISSING_ROW, FindingCode.AGAINST_DIFFERS}
    assert {one.table for one in found} == {str(history.writer.table) for history in histories}


@pytest.mark.parametrize("seed", [8, 9])
def test_odd_but_legal_files_are_all_read(seed: int, tmp_path: Path) -> None:
    mirror, _ = publish(tmp_path, seed)
    found = codes(findings(mirror.root))
    assert found & {FindingCode.CHECK_FAILED, FindingCode.ROWS_UNREADABLE, FindingCode.CANNOT_READ} == set()
    assert {FindingCode.UPDATE_OF_MISSING_ROW, FindingCode.DUPLICATE_INSERT} <= found
