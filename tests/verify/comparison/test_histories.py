"""Random histories: the mirror and the fold of the comparison are two programs, and agree on every table."""

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from app.domain.mirror_report import MirrorState
from app.landing.local_zone import LocalZone
from mirrorgate_zone.verify.codes import Finding, FindingCode
from mirrorgate_zone.verify.compare_zone import compare_zone
from tests.mirror.model.history import Mirror, TableHistory, file_sizes, open_histories
from tests.verify.runs import findings

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
