"""A gateway's table that is dropped and registered again: its marker has generation 1, and files begin at 1 again."""

import json
import shutil
from pathlib import Path

import pytest

from app.domain.mirror_report import FolderOwner, MirrorState
from app.landing.landed_state import MARKER
from app.mirror.table_mirror import MirrorLimits
from mirrorgate.errors import Code
from tests.mirror.small_zone import SmallZone, noted

INSTALLATION = "0d1f2a3b-0000-0000-0000-000000000001"


@pytest.fixture
def zone(tmp_path: Path) -> SmallZone:
    return SmallZone(tmp_path)


def begin(zone: SmallZone, generation: int) -> None:
    """Create the folder as the gateway does, without files."""
    shutil.rmtree(zone.folder, ignore_errors=True)
    zone.declare()
    marker = {"table": str(zone.table), "generation": generation, "installation_id": INSTALLATION}
    (zone.folder / MARKER).write_text(json.dumps(marker))


def land(zone: SmallZone, *notes: str) -> None:
    for number, note in enumerate(notes, start=1):
        zone.land(number, [(number, note, 0)])


@pytest.mark.parametrize("files", [1, 3, 5])
@pytest.mark.parametrize("first", ["old", "new"], ids=["same first file", "other first file"])
def test_its_files_are_all_applied_to_a_new_delta_table(zone: SmallZone, files: int, first: str) -> None:
    begin(zone, 1)
    land(zone, "old", "old", "old")
    assert zone.advance(MirrorLimits()).file_number == 3
    begin(zone, 1)
    notes = [first, *["new"] * (files - 1)]
    land(zone, *notes)
    report = zone.advance(MirrorLimits())
    assert (report.generation, report.file_number, report.state) == (2, files, MirrorState.IN_STEP)
    assert report.owner == FolderOwner(INSTALLATION, 1)
    assert zone.rows() == noted(*enumerate(notes, start=1))
    assert zone.inspect().generation == 2


def test_a_later_generation_of_the_gateway_is_not_mistaken_for_it(zone: SmallZone) -> None:
    """After a new registration, the mirror counts one more than the gateway until the gateway is ahead again."""
    for generation, expected in ((1, 1), (1, 2), (2, 3), (3, 4), (9, 9), (1, 10)):
        begin(zone, generation)
        land(zone, f"{generation} of {expected}")
        assert zone.advance(MirrorLimits()).generation == expected
        assert zone.rows() == noted((1, f"{generation} of {expected}"))


def test_a_process_that_died_when_it_had_moved_the_old_table_aside_changes_nothing(zone: SmallZone) -> None:
    begin(zone, 1)
    land(zone, "old")
    zone.advance()
    begin(zone, 1)
    land(zone, "new")
    Path(zone.target.uri(zone.table)).rename(zone.target.uri(zone.table, generation=1))
    report = zone.advance()
    assert (report.generation, report.file_number) == (2, 1)
    assert zone.rows() == noted((1, "new"))


def test_a_mirror_that_starts_late_has_the_generation_of_the_gateway(zone: SmallZone) -> None:
    begin(zone, 7)
    land(zone, "a")
    assert zone.advance().generation == 7


def test_a_stop_without_a_look_at_the_files_names_the_owner(zone: SmallZone) -> None:
    begin(zone, 1)
    (zone.folder / "_metadata.json").write_text("{")
    report = zone.advance()
    assert (report.code, report.owner) == (Code.LANDING_METADATA_UNREADABLE, FolderOwner(INSTALLATION, 1))
