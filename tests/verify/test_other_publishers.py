"""Zones as other publishers write them get true findings: what is wrong with them, and nothing else."""

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from mirrorgate_zone.verify.codes import FindingCode
from tests.support import publishers
from tests.verify.runs import codes

FAULTS = {
    publishers.clean_zone: set(),
    publishers.header_only_file: set(),
    publishers.bare_inserts: set(),
    publishers.keyless_inserts: set(),
    publishers.row_marker_first: {FindingCode.MARKER_NOT_LAST},
    publishers.guid_names: {FindingCode.NAME_NOT_A_NUMBER},
    publishers.gap: {FindingCode.NUMBER_GAP},
    publishers.zero_byte_file: {FindingCode.ZERO_BYTE_FILE},
    publishers.half_written_file: {FindingCode.TRUNCATED_FILE},
    publishers.missing_metadata: {FindingCode.METADATA_MISSING},
    publishers.partition_folders: {
        FindingCode.PARTITIONS_ENABLED,
        FindingCode.DUPLICATE_INSERT,  # both partitions have the same keys
    },
    publishers.spark_output: {FindingCode.NAME_NOT_A_NUMBER, FindingCode.FOREIGN_FILE},
    publishers.backup_folders: {FindingCode.FOREIGN_FOLDER},
    publishers.documented_csv: set(),
    publishers.csv_without_schema: set(),
    publishers.semicolon_csv: set(),
    publishers.camel_case_csv: {FindingCode.TEXT_WITHOUT_TYPES},
    publishers.extra_metadata: {FindingCode.UNKNOWN_METADATA_KEY},
    publishers.metadata_letter_case: {FindingCode.KEY_DIFFERS_IN_CASE},
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
    publishers.type_flip: {FindingCode.TYPE_CHANGED, FindingCode.PARTNER_EVENTS_MISSING},
}


@pytest.mark.parametrize("publish", FAULTS, ids=lambda publish: publish.__name__)
def test_a_publishers_zone_gets_the_findings_of_its_layout(publish: Callable[[Path], Path], tmp_path: Path) -> None:
    publish(tmp_path / "zone")
    assert codes(tmp_path / "zone") == FAULTS[publish]


def test_every_publisher_is_checked() -> None:
    made = {getattr(publishers, name) for name in publishers.__all__}
    zones = {one for one in made if callable(one) and list(inspect.signature(one).parameters) == ["root"]}
    assert zones == set(FAULTS)
