"""What a round of the mirror looks at, and when a table is looked at again."""

import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.domain.mirror_report import MirrorState, TableReport
from app.domain.publication import Failure
from app.landing.open_zone import ZoneAddress, open_zone
from app.observability.mirror_metrics import MirrorView, serve_mirror_metrics
from app.observability.process_metrics import MetricsAddress
from app.published.table_files import PublishedTable, list_tables
from mirrorgate.cli.main import app
from mirrorgate.errors import Code, Misconfigured
from mirrorgate_zone.emulator import OneLake, Trust
from spark_jobs.mirroring.loop import Stamp, TableStates, stamps_of
from spark_jobs.mirroring.task import NO_VERSION, TableOutcome
from tests.project.facts import REPOSITORY
from tests.spark.mirror.mirrors import Zone
from tests.support.onelake.clients import onelake_address

TABLE = PublishedTable("sales", "orders", "sales.schema/orders")
OTHER = PublishedTable(None, "other", "other")
IN_STEP = TableReport("sales.orders", MirrorState.IN_STEP, 3, 1, 4, 4, 0, None, None, None, None, None)


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    return Zone(tmp_path)


def stamps(zone: Zone) -> Mapping[PublishedTable, Stamp]:
    address = ZoneAddress(str(zone.root))
    opened = open_zone(address)
    return stamps_of(address, opened)(list_tables(opened))


def test_a_file_in_the_same_tick_of_the_clock_changes_the_stamp(zone: Zone) -> None:
    zone.land("orders", 1, [(1, "row", 0)])
    folder = zone.folder("orders")
    moment = folder.stat()
    before = stamps(zone)
    zone.land("orders", 2, [(2, "row", 0)])
    os.utime(folder, ns=(moment.st_atime_ns, moment.st_mtime_ns))
    assert stamps(zone) != before


def test_a_settled_folder_has_one_stamp_until_a_name_changes(zone: Zone) -> None:
    zone.land("orders", 1, [(1, "row", 0)])
    os.utime(zone.folder("orders"), (1_000_000_000, 1_000_000_000))
    before = stamps(zone)
    assert stamps(zone) == before
    zone.land("orders", 2, [(2, "row", 0)])
    assert stamps(zone) != before


def test_a_recreated_folder_of_a_remote_zone_with_the_same_names_has_another_stamp(
    onelake: OneLake, trust: Trust
) -> None:
    address = onelake_address(onelake, trust)
    remote = open_zone(address)
    take_stamps, seen = stamps_of(address, remote), []
    for content in (b"old", b"newer"):
        remote.remove("other")
        remote.create_folder("other")
        remote.create_file("other/1", content)
        seen += [take_stamps([OTHER]), take_stamps([OTHER])]
    assert seen[0] == seen[1] != seen[2] == seen[3]


def outcome(report: TableReport | None = IN_STEP, **fields: object) -> TableOutcome:
    return replace(TableOutcome(TABLE, report), **fields)  # type: ignore[arg-type]  # any field


def looked(states: TableStates, seen: Mapping[PublishedTable, Stamp], found: TableOutcome) -> None:
    """Look at the table once, with this outcome."""
    states.find_due(seen)
    states.start([TABLE], seen)
    states.record(found)
    states.finish([TABLE])


def test_a_table_is_due_until_it_was_looked_at_and_again_when_its_folder_changes() -> None:
    states, seen = TableStates(), {TABLE: "a", OTHER: "b"}
    assert set(states.find_due(seen)) == {TABLE, OTHER}
    assert [due.version for due in states.start([TABLE], seen)] == [None]
    assert states.find_due(seen) == [OTHER]
    states.record(outcome())
    states.finish([TABLE])
    assert states.find_due(seen) == [OTHER]
    assert states.find_due({TABLE: "c", OTHER: "b"}) == [OTHER, TABLE]
    assert [due.version for due in states.start([TABLE], seen)] == [3]


def test_a_change_during_a_look_is_looked_at_again() -> None:
    states = TableStates()
    states.find_due({TABLE: "a"})
    states.start([TABLE], {TABLE: "a"})
    assert states.find_due({TABLE: "b"}) == []
    states.record(outcome())
    states.finish([TABLE])
    assert states.find_due({TABLE: "b"}) == [TABLE]


def test_a_table_that_is_behind_or_was_not_reached_stays_due() -> None:
    states, seen = TableStates(), {TABLE: "a"}
    looked(states, seen, outcome(replace(IN_STEP, state=MirrorState.BEHIND), commits=1))
    assert states.find_due(seen) == [TABLE]
    states.start([TABLE], seen)
    states.finish([TABLE])
    assert states.find_due(seen) == [TABLE]


@pytest.mark.parametrize(
    "found",
    [
        outcome(replace(IN_STEP, state=MirrorState.STOPPED, code="any", detail="why", remedy="do")),
        outcome(None, failure=Failure(Code.STORAGE_FAILED, "ENOSPC", "Free space.")),
        outcome(replace(IN_STEP, state=MirrorState.BEHIND)),
    ],
    ids=["stopped", "failed", "without progress"],
)
def test_a_table_that_cannot_advance_is_tried_again_after_a_pause_and_not_by_a_single_run(found: TableOutcome) -> None:
    states, seen = TableStates(), {TABLE: "a"}
    looked(states, seen, found)
    assert states.find_due({TABLE: "b"}) == []
    assert states.find_due(seen, retry=False) == []
    assert states.retries.failed() == {TABLE}
    states.retries.reset([TABLE])
    assert states.find_due(seen) == [TABLE]


def test_a_failure_keeps_what_was_known_and_names_the_reason() -> None:
    states, seen = TableStates(), {TABLE: "a"}
    looked(states, seen, outcome())
    looked(states, {TABLE: "b"}, outcome(None, failure=Failure(Code.STORAGE_FAILED, "ENOSPC", "Free space.")))
    [report] = states.reports()
    assert report == replace(IN_STEP, code=Code.STORAGE_FAILED, detail="ENOSPC", remedy="Free space.")


def test_a_dropped_table_is_looked_at_once_more() -> None:
    states = TableStates()
    looked(states, {TABLE: "a"}, outcome())
    assert states.find_due({}) == [TABLE]
    looked(states, {}, outcome(replace(IN_STEP, state=MirrorState.DROPPED)))
    assert states.find_due({}) == []
    assert states.find_due({TABLE: "new"}) == [TABLE]


def test_a_table_without_a_version_is_known_not_to_have_one() -> None:
    states, seen = TableStates(), {TABLE: "a"}
    looked(states, seen, outcome(replace(IN_STEP, version=None)))
    assert [due.version for due in states.start([TABLE], seen)] == [NO_VERSION]


def test_a_taken_metrics_port_is_a_setting_to_correct() -> None:
    assert serve_mirror_metrics(MetricsAddress("127.0.0.1", None), MirrorView()) is None
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Misconfigured) as rejected:
        serve_mirror_metrics(MetricsAddress(*taken.getsockname()), MirrorView())
    assert "MIRRORGATE_MIRROR_METRICS_PORT" in rejected.value.detail


def test_the_file_for_spark_submit_is_printed() -> None:
    answer = CliRunner().invoke(app, ["mirror", "run", "--print-path"])
    assert answer.output.strip() == str(REPOSITORY / "spark_jobs" / "mirror.py")


def test_a_storage_option_without_a_value_is_rejected_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORGATE_LOG_LEVEL", "info")
    answer = CliRunner().invoke(app, ["mirror", "run", "/zone", "--to", "s3://bucket", "--storage-option", "secret"])
    assert isinstance(answer.exception, Misconfigured)
    assert "secret" not in str(answer.exception)
