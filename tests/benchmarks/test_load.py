"""The load generator, its workloads and backlogs: what is sent, what is accepted, and what is counted."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.table import TableState
from app.settings import Settings
from benchmarks.competitors.runner import write_source
from benchmarks.figures.backlog import tenth_rates
from benchmarks.gateway import Api
from benchmarks.ledger_query import Drained, LedgerFile
from benchmarks.loads.client import LoadCommand, Requests, take_answer
from benchmarks.loads.driver import limit_server, load_on
from benchmarks.loads.staged_rows import registered, stage_rows
from benchmarks.loads.workloads import MASK_SECRET, WORKLOADS, TableSpec, find_workload
from benchmarks.reports.figure import BenchmarkFailed
from mirrorgate.http import GatewayClient
from tests.client.send.fake_gateway import fake_gateway, rejects
from tests.support.gateway_parts import current
from tests.support.http.server import served
from tests.support.postgres import sql

KEY = "mg_0123abcd_" + "x" * 43


@given(st.lists(st.tuples(st.sampled_from([202, 503]), st.binary(max_size=40)), max_size=4), st.data())
def test_answers_are_found_in_chunks_of_any_size(answers: list[tuple[int, bytes]], data: st.DataObject) -> None:
    stream = b"".join(
        b"HTTP/1.1 %d Some Words\r\nServer: x\r\nContent-Length: %d\r\n\r\n%b" % (status, len(content), content)
        for status, content in answers
    )
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6).map(sorted))
    received, found = bytearray(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += stream[start:end]
        while (answer := take_answer(received)) is not None:
            found.append(answer)
    assert (found, received) == (answers, b"")


def test_an_answer_without_a_length_is_rejected() -> None:
    with pytest.raises(ValueError, match="Content-Length"):
        take_answer(bytearray(b"HTTP/1.1 200 OK\r\n\r\n"))


def test_each_different_request_is_sent_once() -> None:
    with fake_gateway() as gateway, load_on(gateway.url, KEY, "bulk", connections=3) as load:
        sent = load.send_each_once()
    assert sent.requests == len(sent.latencies) == len(gateway.bodies) == 64
    assert sorted(gateway.bodies) == sorted(find_workload("bulk").bodies())


def test_a_rejection_ends_the_run_with_the_servers_answer() -> None:
    with (
        fake_gateway(rejects(503, "overloaded")) as gateway,
        load_on(gateway.url, KEY, "small-10", connections=2) as load,
        pytest.raises(BenchmarkFailed, match=r"503 .*as the test says"),
    ):
        load.send(seconds=5)


@pytest.mark.parametrize(("server", "pipelined"), [("empty_server", 2), ("raw_asgi", 1), ("bare_fastapi", 1)])
def test_a_limit_server_answers_each_request_of_a_workload(server: str, pipelined: int) -> None:
    with limit_server(server) as url, load_on(url, KEY, "large", connections=2, pipelined=pipelined) as load:
        assert load.send_each_once().requests == 8


def test_the_empty_server_answers_empty_requests_in_the_pipelines_of_many_connections() -> None:
    with limit_server("empty_server") as url, load_on(url, KEY, "large", connections=2, pipelined=2) as load:
        assert load.send_empty(seconds=0.05).requests > 4


def test_inserts_of_new_rows_have_new_keys_in_every_round_and_command() -> None:
    requests, workload = Requests(find_workload("new"), KEY), find_workload("new")
    sent = [next(requests.of(LoadCommand(seconds=1))) for _ in range(workload.requests + 2)]
    first, second, again, last = (
        [change["after"] for change in json.loads(request.partition(b"\r\n\r\n")[2])]
        for request in sent[:2] + sent[-2:]
    )
    assert [row["column_00"] for row in (first[0], second[0], again[0], last[999])] == [
        "1000000000",
        "1000001000",
        "1000064000",
        "1000065999",
    ]
    shifted = json.loads(json.dumps(first).replace("1000000", "1000064"))
    assert again == shifted
    assert list(requests.of(LoadCommand())) == sent[: workload.requests]


IN_EVERY_RUN = {"bulk", "replicate", "small-1"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in IN_EVERY_RUN else pytest.mark.thorough) for name in sorted(WORKLOADS)],
)
def test_the_gateway_accepts_every_workload(name: str, database_url: str) -> None:
    own = {"database_url": database_url, "admin_key": KEY, "mask_secret": MASK_SECRET}
    settings = Settings.model_validate(own)
    workload = find_workload(name)
    with served(settings, configures_logging=True) as url, GatewayClient(url, KEY) as client:
        Api(url, 0, client).prepare(workload)
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": workload.media_type}
        answer = httpx.post(f"{url}{workload.path}", content=workload.body(1), headers=headers, timeout=60)
    receipts = answer.raise_for_status().json()["receipts"]
    assert sum(receipt["changes"] for receipt in receipts) == workload.per_request


def test_a_bulk_change_has_the_size_that_the_figures_are_about() -> None:
    workload = find_workload("bulk")
    assert 1_460 <= len(workload.body(7)) / workload.per_request <= 1_480
    assert len(json.loads(workload.body(7))[0]["after"]) == 16


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
