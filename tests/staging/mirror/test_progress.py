"""How far tables are mirrored, by the last report and the landing ledger together."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from app.domain.mirror_report import MirrorState
from app.domain.model.table import Table
from app.staging.mirror import MirrorProgress, mirror_progress, store_reports
from tests.support.gateway_parts import current, dropping, registered, stage_keys
from tests.support.mirror_reports import NOTHING_APPLIED, STOPPED, report_of
from tests.support.postgres import sql
from tests.support.postgres.ledger import Owned, owned_table, plan, publish
from tests.support.postgres.retention import purge
from tests.support.samples.schemas import schema_of


def progress(engine: sa.Engine, table: Table) -> MirrorProgress:
    return sql.call(engine, mirror_progress, [table.table_id])[table.table_id]


def published(engine: sa.Engine, files: int, *, ages: list[int] | None = None) -> Owned:
    """Return a table with this many published files; file `n` was published `ages[n - 1]` seconds ago."""
    owned = owned_table(engine, *([key] for key in range(files)))
    aged = """UPDATE mirrorgate.landing_files SET published_at = clock_timestamp() - make_interval(secs => :age)
        WHERE number = :number"""
    for file, age in zip(plan(engine, owned), ages or [0] * files, strict=True):
        publish(engine, owned, file)
        sql.run(engine, aged, age=age, number=file.identity.number)
    return owned


def test_a_table_in_step_has_no_lag(engine: sa.Engine) -> None:
    table = published(engine, 2, ages=[90, 80]).table
    store_reports(engine, [report_of(engine, table, version=1, file_number=2, last_file=2)])
    found = progress(engine, table)
    assert (found.state, found.version, found.file_number, found.published_file) == (MirrorState.IN_STEP, 1, 2, 2)
    assert (found.pending_files, found.lag_seconds, found.code) == (0, 0, None)


def test_the_lag_is_the_age_of_the_first_file_that_is_not_applied(engine: sa.Engine) -> None:
    table = published(engine, 4, ages=[400, 300, 200, 100]).table
    store_reports(engine, [report_of(engine, table)])
    found = progress(engine, table)
    assert (found.state, found.pending_files) == (MirrorState.BEHIND, 3)
    assert found.lag_seconds == pytest.approx(300, abs=30)


def test_before_the_first_commit_all_files_are_pending(engine: sa.Engine) -> None:
    table = published(engine, 2, ages=[400, 300]).table
    store_reports(engine, [report_of(engine, table, generation=0, **NOTHING_APPLIED)])
    found = progress(engine, table)
    assert (found.state, found.version, found.pending_files) == (MirrorState.BEHIND, None, 2)
    assert found.lag_seconds == pytest.approx(400, abs=30)


def test_a_stopped_mirror_says_why_and_its_lag_grows(engine: sa.Engine) -> None:
    table = published(engine, 2, ages=[50, 40]).table
    report = report_of(engine, table, **STOPPED)
    store_reports(engine, [report])
    found = progress(engine, table)
    told = (MirrorState.STOPPED, report.code, report.detail, report.remedy)
    assert (found.state, found.code, found.detail, found.remedy) == told
    assert found.lag_seconds == pytest.approx(40, abs=30)


def test_a_file_that_is_visible_and_not_yet_recorded_is_pending(engine: sa.Engine) -> None:
    table = published(engine, 1).table
    now = sql.value(engine, "SELECT clock_timestamp()")
    seen = {"state": MirrorState.BEHIND, "last_file": 2, "pending_files": 1}
    store_reports(engine, [report_of(engine, table, **seen, oldest_pending_at=now - timedelta(seconds=70))])
    found = progress(engine, table)
    assert (found.published_file, found.pending_files) == (1, 1)
    assert found.lag_seconds == pytest.approx(70, abs=30)
    store_reports(engine, [report_of(engine, table, **seen, oldest_pending_at=now + timedelta(hours=1))])
    assert progress(engine, table).lag_seconds == 0


def test_the_lag_outlives_the_purge_of_the_ledger(engine: sa.Engine) -> None:
    table = published(engine, 4, ages=[400, 300, 200, 100]).table
    assert purge(engine).purged_files == 3
    store_reports(engine, [report_of(engine, table)])
    found = progress(engine, table)
    assert found.pending_files == 3
    assert found.lag_seconds == pytest.approx(100, abs=30)


def test_only_reports_of_live_tables_are_read(engine: sa.Engine) -> None:
    table, silent = (registered(engine, name, schema_of({"id": "int64"})) for name in "ts")
    store_reports(engine, [report_of(engine, table, last_file=1)])
    dropping(engine, "t")
    assert list(sql.call(engine, mirror_progress, [table.table_id, silent.table_id])) == [table.table_id]
    sql.run(engine, "ALTER TABLE mirrorgate.tables DISABLE TRIGGER generation_ended")
    try:
        sql.run(engine, "UPDATE mirrorgate.tables SET generation = 2 WHERE name = 't'")
        assert sql.call(engine, mirror_progress, [table.table_id]) == {}
    finally:
        sql.run(engine, "ALTER TABLE mirrorgate.tables ENABLE TRIGGER generation_ended")


def test_files_of_other_batches_do_not_count(engine: sa.Engine) -> None:
    """Planned files are not published: they count neither as pending nor as lag."""
    owned = published(engine, 1)
    stage_keys(engine, current(engine, "t"), [7])
    assert len(plan(engine, owned)) == 1
    store_reports(engine, [report_of(engine, owned.table)])
    found = progress(engine, owned.table)
    assert (found.state, found.pending_files, found.lag_seconds) == (MirrorState.IN_STEP, 0, 0)
