"""Workloads, staged backlogs, the input of the competitors, and the tenths of a backlog."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.domain.model.table import TableState
from benchmarks.competitors.runner import write_source
from benchmarks.figures.backlog import tenth_rates
from benchmarks.ledger_query import Drained, LedgerFile
from benchmarks.loads.staged_rows import registered, stage_rows
from benchmarks.loads.workloads import TableSpec, find_workload
from tests.support.gateway_parts import current
from tests.support.postgres import sql

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


_NAMES = (
    "bulk new tables-3 columns-4 replicate replicate-avro log-enforce partial load debezium rows rows-csv rows-arrow"
)


@pytest.mark.parametrize("name", _NAMES.split())
def test_a_workload_is_the_same_bytes_in_every_process(name: str) -> None:
    assert find_workload(name).body(2) == find_workload(name).body(2)
    assert find_workload(name).body(2) != find_workload(name).body(3)


def test_tables_are_fed_in_turn() -> None:
    workload = find_workload("tables-3")
    fed = Counter(json.loads(body)[0]["tableName"]["name"] for body in workload.bodies()[:9])
    assert fed == {"table_0000": 3, "table_0001": 3, "table_0002": 3}


def test_a_partial_update_gives_its_key_and_three_other_columns() -> None:
    message = json.loads(find_workload("partial").body(0))[0]
    given = [column for column, flag in message["exists"].items() if flag == "3"]
    assert given == ["column_00", "column_13", "column_14", "column_15"]


def test_a_staged_backlog_has_each_row_once_and_waits_while_it_is_paused(engine: sa.Engine) -> None:
    table = registered(engine, TableSpec("bench.t"), paused=True)
    stage_rows(engine, table, 2_500)
    assert current(engine, "bench.t").state is TableState.PAUSED
    batches, rows = sql.rows(engine, "SELECT last_sequence, accepted_rows FROM mirrorgate.table_counters")[0]
    assert (batches, rows) == (3, 2_500)


def test_the_tenths_of_a_backlog_end_when_their_last_file_is_published() -> None:
    """Ten files of 100 rows: the first after 2 s, the last 4 s after the one before it."""
    seconds = [2, 3, 4, 5, 6, 7, 8, 9, 10, 14]
    files = [LedgerFile(at, at, 100, NOON + timedelta(seconds=second)) for at, second in enumerate(seconds)]
    drained = Drained(NOON, files)
    assert tenth_rates(drained) == (50.0, 25.0)
    assert (drained.rows, drained.seconds) == (1_000, 14.0)


def test_a_competitor_gets_every_change_of_the_workload_as_lines(tmp_path: Path) -> None:
    write_source(find_workload("bulk"), tmp_path / "source")
    files = sorted((tmp_path / "source").iterdir())
    assert sum(len(file.read_bytes().splitlines()) for file in files) == 64_000
