"""Comparison of zones with every planted fault, and with random damage: findings, and never an exception."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from app.landing.local_zone import LocalZone
from app.mirror.target import MirrorTarget
from app.published.table_files import list_tables
from mirrorgate_zone.verify.compare_zone import compare_zone
from tests.support import publishers
from tests.verify.faults import PLANTED, Planted
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
