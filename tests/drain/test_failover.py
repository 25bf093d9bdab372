"""A database that goes back while a drain holds its tables, as an asynchronous standby that is promoted: no number is
published twice, and the table says why it stopped."""

from itertools import count
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from app.domain.model.table import TableState
from app.landing.landed_state import CONSUMED_FOLDERS
from spark_jobs.drain_cycle import DrainCycle
from tests.api.calls import own_gateway, problem
from tests.drain.conftest import NewDrain
from tests.drain.test_restore import consume
from tests.support.gateway_parts import current, file_numbers, registered, state_reason
from tests.support.postgres import sql
from tests.support.postgres.databases import clone_database, put_back
from tests.support.samples.schemas import ID, schema_of
from tests.support.small_drain import publish_each
from tests.support.waiting import wait_until

_NAMES = count(1)
_SAME_RUN = "UPDATE mirrorgate.table_leases SET database_run = mirrorgate.database_run()"
"""What no server does: it lets leases of the lost time count, as if nothing told one run from the other."""


def lose_files(engine: sa.Engine, url: str, cycle: DrainCycle, *, kept: range, lost: range) -> None:
    """Publish files, of which the database forgets the last ones while the drain holds the table."""
    registered(engine, "t", ID)
    publish_each(cycle, "t", *kept)
    backup = clone_database(url, f"standby_{next(_NAMES)}")
    publish_each(cycle, "t", *lost)
    put_back(url, backup)


@pytest.mark.parametrize("consumed", [0, 4, 5], ids=["none", "all_but_the_last", "all"])
@pytest.mark.parametrize("seen", ["in the lease", "in the plan"])
def test_no_number_is_published_twice_after_the_database_went_back_under_the_drain(
    engine: sa.Engine, database_url: str, landing_zone: Path, new_drain: NewDrain, consumed: int, seen: str
) -> None:
    cycle = new_drain()
    lose_files(engine, database_url, cycle, kept=range(1, 3), lost=range(3, 6))
    consume(landing_zone, range(1, consumed + 1), CONSUMED_FOLDERS[0])
    if seen == "in the plan":
        sql.run(engine, _SAME_RUN)
    publish_each(cycle, "t", 101, 102)
    assert file_numbers(landing_zone / "t") == list(range(consumed + 1, 6))
    assert current(engine, "t").state is TableState.QUARANTINED
    assert state_reason(engine, "t").startswith("ledger_behind_zone: the ledger ends at file 2, ")
    assert ": 3, 4, 5; the database is in an earlier state" in state_reason(engine, "t")


def test_a_drain_whose_database_lost_nothing_publishes_on_after_the_failover(
    engine: sa.Engine, database_url: str, landing_zone: Path, new_drain: NewDrain
) -> None:
    cycle = new_drain()
    lose_files(engine, database_url, cycle, kept=range(1, 3), lost=range(0))
    publish_each(cycle, "t", 3)
    assert current(engine, "t").state is TableState.ACTIVE
    assert file_numbers(landing_zone / "t") == [1, 2, 3]


def test_an_idle_owner_of_before_does_not_publish_under_the_epoch_that_the_database_went_back_to(
    engine: sa.Engine, database_url: str, landing_zone: Path, new_drain: NewDrain
) -> None:
    """Its own files are all known, and its epoch is the table's again; the lost files are another drain's."""
    former, owner = new_drain(), new_drain()
    registered(engine, "t", ID)
    publish_each(former, "t", 1)
    backup = clone_database(database_url, f"standby_{next(_NAMES)}")
    sql.run(engine, "DELETE FROM mirrorgate.workers WHERE worker_id = :id", id=former.context.worker_id)
    publish_each(owner, "t", 2, 3)
    consume(landing_zone, range(1, 4), CONSUMED_FOLDERS[0])
    put_back(database_url, backup)
    publish_each(former, "t", 101)
    assert file_numbers(landing_zone / "t") == []
    assert state_reason(engine, "t").startswith("ledger_behind_zone: ")


def test_a_renewal_in_another_run_of_the_database_ends_all_holds_and_is_logged(
    engine: sa.Engine, database_url: str, new_drain: NewDrain
) -> None:
    cycle = new_drain()
    lose_files(engine, database_url, cycle, kept=range(1, 3), lost=range(0))
    assert len(cycle.leased) == 1
    with capture_logs() as logs:
        cycle.renew_lease(60)
        cycle.renew_lease(60)
    [line] = [line for line in logs if line["event"] == "database_run_changed"]
    assert line["tables"] == 1
    assert line["log_level"] == "warning"
    assert len(cycle.leased) == 0


def test_rows_are_not_staged_under_a_schema_that_the_database_has_lost(engine: sa.Engine, database_url: str) -> None:
    """The process has the lost schema in its cache, and the database gives its numbers to another one."""
    with own_gateway(database_url) as gateway:
        registered(engine, "t", ID)
        backup = clone_database(database_url, f"standby_{next(_NAMES)}")
        registered(engine, "t", schema_of({"id": "int64", "lost": "int64"}, ["id"]))
        assert gateway.rows("t", {"id": 1, "lost": 1}).status_code == 202
        put_back(database_url, backup)
        registered(engine, "t", schema_of({"id": "int64", "present": "string"}, ["id"]))

        def answer() -> httpx.Response | None:
            found = gateway.rows("t", {"id": 2, "lost": 2})
            return None if found.status_code == 503 else found

        rejected = wait_until(answer, within=30, what="the gateway has connections again")
        problem(rejected, 422, "unknown_column")
    assert sql.value(engine, "SELECT last_sequence FROM mirrorgate.table_counters") == 0
