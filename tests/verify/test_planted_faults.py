"""Planted faults are found at their place, and a publisher's zone has the findings of its layout."""

import inspect
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from app.landing.local_zone import LocalZone
from mirrorgate_zone.verify.codes import SUBJECTS, FindingCode
from mirrorgate_zone.verify.table_verification import ZoneVerification
from tests.support import publishers
from tests.support.publishers import parquet_name
from tests.verify.faults import PLANTED, Planted
from tests.verify.runs import codes, findings, run_once
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


FAULTS = {
    publishers.clean_zone: set(),
    publishers.header_only_file: set(),
    publishers.bare_inserts: set(),
    publishers.keyless_inserts: set(),
    publishers.guid_names: {FindingCode.NAME_NOT_A_NUMBER},
    publishers.partition_folders: {
        FindingCode.PARTITIONS_ENABLED,
        FindingCode.DUPLICATE_INSERT,  # both partitions have the same keys
    },
    publishers.spark_output: {FindingCode.NAME_NOT_A_NUMBER, FindingCode.FOREIGN_FILE},
    publishers.documented_csv: set(),
    publishers.csv_without_schema: set(),
    publishers.semicolon_csv: set(),
    publishers.camel_case_csv: {FindingCode.TEXT_WITHOUT_TYPES},
    publishers.replayed_file: {FindingCode.DUPLICATE_INSERT},
    publishers.delete_file_replaces_upserts: {
        FindingCode.PARTNER_EVENTS_MISSING,
        FindingCode.UPDATE_OF_MISSING_ROW,
        FindingCode.DELETE_OF_MISSING_ROW,
    },
    publishers.ordered_by_time: {
        FindingCode.ORDERED_BY_TIME,
        FindingCode.TIME_TIES,
        FindingCode.DELETE_OF_MISSING_ROW,  # the two files of one time are in the wrong order
        FindingCode.DUPLICATE_INSERT,
    },
}


@pytest.mark.parametrize("publish", FAULTS, ids=lambda publish: publish.__name__)
def test_a_publishers_zone_gets_the_findings_of_its_layout(publish: Callable[[Path], Path], tmp_path: Path) -> None:
    publish(tmp_path / "zone")
    assert codes(tmp_path / "zone") == FAULTS[publish]


def test_every_publisher_is_checked() -> None:
    made = {getattr(publishers, name) for name in publishers.__all__}
    zones = {one for one in made if callable(one) and list(inspect.signature(one).parameters) == ["root"]}
    assert zones == set(FAULTS)
