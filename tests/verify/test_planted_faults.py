"""Every fault of a zone's structure is found, at its place, and nothing else is."""

from datetime import timedelta
from typing import Final

import pytest

from app.landing.local_zone import LocalZone
from mirrorgate_zone.verify.codes import SUBJECTS, FindingCode
from mirrorgate_zone.verify.table_verification import ZoneVerification
from tests.support.publishers import parquet_name
from tests.verify.faults import PLANTED, Planted
from tests.verify.runs import findings, run_once
from tests.verify.zones import NOW, Zone, rows

STRUCTURE: Final = ("The zone", "Table folders and file names", "Metadata", "Data files", "Columns")
ELSEWHERE: Final = frozenset(
    {FindingCode.CANNOT_READ, FindingCode.CHECK_FAILED, FindingCode.NOT_CHECKED, FindingCode.LARGE_ROW_GROUP}
)
"""Codes that no content of a zone causes, or only one too large for a test: test_faults_of_the_run.py."""


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_fault_is_found_at_its_place_and_nothing_else_is(planted: Planted, zone: Zone) -> None:
    place = planted.plant(zone)
    found = findings(zone.root, now=NOW + timedelta(seconds=1), row_checks=())
    assert {finding.code for finding in found} == {planted.code, *planted.others}
    expected = None if place is None else str(place.relative_to(zone.root))
    assert expected in [finding.file for finding in found if finding.code is planted.code]


def test_files_are_numbered_within_a_partition(zone: Zone) -> None:
    """Rows of each partition are followed by its own numbers, and again after files have come or moved."""
    table = zone.table(isPartitionEnabled="true")
    for place, region in enumerate(("east", "west")):
        table.named(f"region={region}/{parquet_name(1)}", rows(place))
        table.named(f"region={region}/{parquet_name(2)}", rows(place, marker=1))
    verification = ZoneVerification(LocalZone(zone.root), keep=True)

    def codes_now() -> list[FindingCode]:
        return [finding.code for finding in run_once(verification, NOW + timedelta(seconds=1))]

    assert codes_now() == [FindingCode.PARTITIONS_ENABLED]
    assert verification.files == 4
    table.named(f"region=east/{parquet_name(3)}", rows(1, marker=2))
    assert codes_now() == [FindingCode.PARTITIONS_ENABLED, FindingCode.DELETE_OF_MISSING_ROW]


def test_every_code_of_the_structure_is_planted() -> None:
    planted = {one.code for one in PLANTED} | {other for one in PLANTED for other in one.others}
    assert {code for subject in STRUCTURE for code in SUBJECTS[subject]} - ELSEWHERE - planted == set()


def test_a_clean_zone_has_no_finding(zone: Zone) -> None:
    zone.clean("orders")
    zone.clean("sales.schema/orders")
    assert findings(zone.root) == []
