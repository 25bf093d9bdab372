"""Every fault of a zone's structure is found, at its place, and nothing else is."""

from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from app.landing.local_zone import LocalZone
from mirrorgate_zone.verify.codes import SUBJECTS, FindingCode
from mirrorgate_zone.verify.table_verification import ZoneVerification
from tests.verify.faults import PLANTED, Planted
from tests.verify.runs import findings
from tests.verify.zones import NOW, Zone, file_name, rows

STRUCTURE: Final = ("The zone", "Table folders and file names", "Metadata", "Data files", "Columns")
ELSEWHERE: Final = frozenset(
    {FindingCode.CANNOT_READ, FindingCode.CHECK_FAILED, FindingCode.NOT_CHECKED, FindingCode.LARGE_ROW_GROUP}
)
"""Codes that no content of a zone causes, or only one too large for a test: test_faults_of_the_run.py."""


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_fault_is_found_at_its_place_and_nothing_else_is(planted: Planted, tmp_path: Path) -> None:
    zone = Zone.create(tmp_path / "zone")
    place = planted.plant(zone)
    found = findings(zone.root, now=NOW + timedelta(seconds=1), row_checks=())
    assert {finding.code for finding in found} == {planted.code, *planted.others}
    expected = None if place is None else str(place.relative_to(zone.root))
    assert expected in [finding.file for finding in found if finding.code is planted.code]


def test_files_are_numbered_within_a_partition(tmp_path: Path) -> None:
    """Rows of each partition are followed by its own numbers, and again after files have come or moved."""
    zone = Zone.create(tmp_path / "zone")
    table = zone.table(isPartitionEnabled="true")
    for place, region in enumerate(("east", "west")):
        table.named(f"region={region}/{file_name(1)}", rows(place))
        table.named(f"region={region}/{file_name(2)}", rows(place, marker=1))
    verification = ZoneVerification(LocalZone(zone.root), keep=True)

    def codes_now() -> list[FindingCode]:
        return [finding.code for finding in verification.run(NOW + timedelta(seconds=1), lambda *_: None)]

    assert codes_now() == [FindingCode.PARTITIONS_ENABLED]
    assert verification.files == 4
    table.named(f"region=east/{file_name(3)}", rows(1, marker=2))
    assert codes_now() == [FindingCode.PARTITIONS_ENABLED, FindingCode.DELETE_OF_MISSING_ROW]


def test_every_code_of_the_structure_is_planted() -> None:
    planted = {one.code for one in PLANTED} | {other for one in PLANTED for other in one.others}
    assert {code for subject in STRUCTURE for code in SUBJECTS[subject]} - ELSEWHERE - planted == set()


def test_a_clean_zone_has_no_finding(tmp_path: Path) -> None:
    zone = Zone.create(tmp_path / "zone")
    zone.clean("orders")
    zone.clean("sales.schema/orders")
    assert findings(zone.root) == []
