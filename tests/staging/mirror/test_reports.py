"""Reports of the Delta mirror in Postgres, and the progress that is read from them."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.mirror_report import FolderOwner, MirrorState, TableReport
from app.domain.model.table import DropAction, DropPlan, Table
from app.staging.connection.database import open_engine
from app.staging.mirror import CONFIRM_SECONDS, MirrorProgress, mirror_progress, store_reports
from mirrorgate.errors import TemporarilyUnavailable
from tests.support.gateway_parts import current, dropping, finished_drop, next_generation, registered, stage_keys
from tests.support.mirror_reports import IN_STEP, NOTHING_APPLIED, STOPPED, report_of
from tests.support.postgres import sql
from tests.support.postgres.ledger import Owned, owned_table, plan, publish
from tests.support.postgres.retention import WEEK, purge
from tests.support.samples.schemas import ID, schema_of

_NUMBERS = itertools.count(1)


NOT_STORED = {"table", "generation", "owner", "is_partitioned"}
"""What finds the table of a report, and what only the rounds of the mirror need."""


def stored(engine: sa.Engine, *columns: str) -> list[Any]:
    """Return these columns of all stored reports, by table."""
    return sql.rows(engine, f"SELECT {', '.join(columns)} FROM mirrorgate.mirror_reports ORDER BY table_id")


def let_pass(engine: sa.Engine, seconds: float) -> None:
    """Let what is stored be older by this much."""
    aged = "UPDATE mirrorgate.mirror_reports SET updated_at = updated_at - make_interval(secs => :s)"
    sql.run(engine, aged, s=seconds)


def test_every_field_of_a_report_is_stored(engine: sa.Engine) -> None:
    report = report_of(engine, registered(engine, "sales.t", ID), version=16, generation=3, file_number=17, **STOPPED)
    assert store_reports(engine, [report]) == 1
    columns = [name for name in TableReport.__dataclass_fields__ if name not in NOT_STORED]
    assert stored(engine, *columns) == [tuple(getattr(report, name) for name in columns)]
    assert stored(engine, "generation", "delta_generation") == [(1, 3)]


def test_a_table_is_found_in_any_letter_case_of_its_folder(engine: sa.Engine) -> None:
    table = registered(engine, "Sales.Orders", ID)
    assert store_reports(engine, [report_of(engine, table, table="sales.ORDERS")]) == 1


def test_reports_of_others_are_ignored(engine: sa.Engine) -> None:
    known = report_of(engine, registered(engine, "t", ID))
    others = [
        replace(known, owner=None),
        replace(known, owner=FolderOwner(str(uuid4()), 1)),
        replace(known, owner=FolderOwner("no id at all\0", 1)),
        replace(known, owner=FolderOwner(known.owner.installation_id, 2)),
        replace(known, owner=FolderOwner(known.owner.installation_id, 2**70)),
        replace(known, table="never_registered"),
        replace(known, table="a\udc80folder"),
    ]
    assert store_reports(engine, others) == 0
    assert store_reports(engine, []) == 0
    assert stored(engine, "state") == []
    assert store_reports(engine, [*others, known]) == 1


def test_a_text_that_postgres_cannot_store_is_made_storable(engine: sa.Engine) -> None:
    report = report_of(engine, registered(engine, "t", ID), **STOPPED | {"detail": "a\0b\udc80" + "ü" * 5_000})
    assert store_reports(engine, [report]) == 1
    [(detail,)] = stored(engine, "detail")
    assert detail.startswith("ab?ü")
    assert len(detail) == 1_000


def test_a_repeated_report_is_written_only_as_a_sign_of_life(engine: sa.Engine) -> None:
    report = report_of(engine, registered(engine, "t", ID))
    assert [store_reports(engine, [report]) for _ in range(3)] == [1, 0, 0]
    [(first,)] = stored(engine, "updated_at")
    let_pass(engine, 2)
    assert store_reports(engine, [report]) == 0
    let_pass(engine, CONFIRM_SECONDS - 2)
    assert [store_reports(engine, [report]) for _ in range(2)] == [1, 0]
    assert stored(engine, "updated_at")[0][0] >= first
    let_pass(engine, -3_600)  # the clock was set back by an hour
    assert [store_reports(engine, [report]) for _ in range(2)] == [1, 0]


def test_an_older_report_wins_once_the_newer_is_no_longer_confirmed(engine: sa.Engine) -> None:
    """The target was emptied: the mirror starts again at version 0."""
    table = registered(engine, "t", ID)
    store_reports(engine, [report_of(engine, table, version=40, generation=2)])
    again = report_of(engine, table, version=0, generation=1)
    assert store_reports(engine, [again]) == 0
    let_pass(engine, 61)
    assert store_reports(engine, [again]) == 1
    assert stored(engine, "delta_generation", "version") == [(1, 0)]


def test_a_report_goes_with_its_table(engine: sa.Engine) -> None:
    kept, gone = registered(engine, "kept", ID), registered(engine, "gone", ID)
    store_reports(engine, [report_of(engine, kept), report_of(engine, gone)])
    table = dropping(engine, "gone")
    assert len(stored(engine, "table_id")) == 2
    finished_drop(engine, table)
    assert stored(engine, "table_id") == [(kept.table_id,)]
    assert store_reports(engine, [report_of(engine, gone)]) == 0
    renewed = registered(engine, "gone", ID)
    assert renewed.table_id != gone.table_id
    assert store_reports(engine, [report_of(engine, renewed, generation=2, version=0)]) == 1


def test_a_report_goes_when_the_next_generation_starts(engine: sa.Engine) -> None:
    table = registered(engine, "t", ID)
    before = report_of(engine, table, version=40)
    store_reports(engine, [before])
    next_generation(engine, "t", DropPlan(DropAction.RECREATE))
    assert stored(engine, "table_id") == []
    assert store_reports(engine, [before]) == 0
    assert store_reports(engine, [report_of(engine, current(engine, "t"), generation=2)]) == 1


def test_retention_forgets_a_mirror_that_has_not_run_for_as_long_as_the_ledger_is_kept(engine: sa.Engine) -> None:
    tables = [registered(engine, name, ID) for name in ("left", "mirrored")]
    store_reports(engine, [report_of(engine, table) for table in tables])
    let_pass(engine, WEEK.keep_seconds - 60)
    store_reports(engine, [report_of(engine, tables[1])])
    purge(engine, WEEK)
    assert len(stored(engine, "table_id")) == 2
    let_pass(engine, 61)
    purge(engine, WEEK)
    assert stored(engine, "table_id") == [(tables[1].table_id,)]


def test_reports_of_many_tables_are_one_statement(engine: sa.Engine) -> None:
    tables = [registered(engine, f"t{number}", ID) for number in range(50)]
    reports = [replace(report_of(engine, tables[0]), table=str(table.name)) for table in tables]
    with sql.counted(engine, "") as statements:
        assert store_reports(engine, reports) == 50
    assert len(statements) == 1
    assert store_reports(engine, reports) == 0


def test_without_postgres_storing_is_temporarily_unavailable() -> None:
    engine = open_engine("postgresql://unused:x@127.0.0.1:1/none")
    owned = replace(IN_STEP, owner=FolderOwner(str(uuid4()), 1))
    with pytest.raises(TemporarilyUnavailable):
        store_reports(engine, [owned])
    assert store_reports(engine, []) == 0


AGES = st.tuples(st.integers(1, 3), st.none() | st.integers(0, 4))


def aged(engine: sa.Engine, table: Table, age: tuple[int, int | None]) -> TableReport:
    generation, version = age
    fields = NOTHING_APPLIED if version is None else {"version": version}
    return report_of(engine, table, generation=generation, **fields)


@given(rounds=st.lists(st.lists(AGES, min_size=1, max_size=3), min_size=1, max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_older_report_never_replaces_a_newer_one(
    engine: sa.Engine, rounds: list[list[tuple[int, int | None]]]
) -> None:
    table = registered(engine, f"aged{next(_NUMBERS)}", ID)
    sql.run(engine, "DELETE FROM mirrorgate.mirror_reports")
    newest = (0, 0)
    for ages in rounds:
        store_reports(engine, [aged(engine, table, age) for age in ages])
        newest = max(newest, *((generation, -1 if version is None else version) for generation, version in ages))
        assert stored(engine, "delta_generation", "coalesce(version, -1)") == [newest]


@given(ages=st.lists(AGES, min_size=2, max_size=6, unique=True))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
def test_reports_that_are_stored_at_once_leave_the_newest(
    engine: sa.Engine, ages: list[tuple[int, int | None]]
) -> None:
    table = registered(engine, f"aged{next(_NUMBERS)}", ID)
    sql.run(engine, "DELETE FROM mirrorgate.mirror_reports")
    with ThreadPoolExecutor(len(ages)) as threads:
        list(threads.map(lambda age: store_reports(engine, [aged(engine, table, age)]), ages))
    newest = max((generation, -1 if version is None else version) for generation, version in ages)
    assert stored(engine, "delta_generation", "coalesce(version, -1)") == [newest]


@pytest.mark.parametrize(
    "wrong",
    [
        {"generation": -1},
        {"pending_files": 1},
        {"file_number": -1, "version": 1},
        {"version": None},
        {"state": MirrorState.STOPPED},
        {"detail": "without a code"},
    ],
)
def test_the_database_rejects_a_report_that_contradicts_itself(engine: sa.Engine, wrong: dict[str, Any]) -> None:
    report = report_of(engine, registered(engine, "t", ID), **wrong)
    with pytest.raises(sa.exc.IntegrityError):
        store_reports(engine, [report])


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
