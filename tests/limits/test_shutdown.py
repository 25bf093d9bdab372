"""SIGTERM: requests in flight finish, no new ones are accepted, and the process ends with 0."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from app.settings import PREFIX
from tests.api.calls import ADMIN_KEY, Gateway, insert
from tests.limits.slow_commits import commit_freely, held_commits, wait_for_a_held_commit
from tests.support.http.raw_http import connected, request
from tests.support.http.server import free_port, listens
from tests.support.postgres import sql
from tests.support.processes import started
from tests.support.waiting import wait_until

PATH = "/v1/changes/arcion"
BODY = json.dumps([insert("t", id="1"), insert("t", id="2")]).encode()


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def settings(database_url: str, engine: sa.Engine, port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {"DATABASE_URL": database_url, "PORT": str(port), "ADMIN_KEY": ADMIN_KEY}.items():
        monkeypatch.setenv(f"{PREFIX}{name}", value)
    yield
    commit_freely(engine)


@contextmanager
def running(port: int) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Give the API process and its address, with the table `t`."""
    address = f"http://127.0.0.1:{port}"
    with started("app.main") as process:
        wait_until(lambda: listens(port) or process.poll() is not None, within=60, what="the API listens")
        with Gateway.at(address, ADMIN_KEY) as gateway:
            gateway.register("t", {"id": "int64"}, ["id"]).raise_for_status()
        yield process, address


def staged_rows(engine: sa.Engine) -> int:
    rows = "SELECT coalesce(sum(row_count), 0)::int FROM mirrorgate.staged_blocks"
    return int(sql.value(engine, rows))


def check_a_stop(engine: sa.Engine, process: "subprocess.Popen[str]", port: int, address: str) -> None:
    """Stop the process while a commit is held, with one request in flight, one half sent and one idle connection."""
    with ExitStack() as stack:
        idle = stack.enter_context(connected(address))
        idle.send(request("/healthz", ADMIN_KEY, b""))
        assert idle.answer().status in {200, 405}
        with held_commits(engine):
            sent, half = stack.enter_context(connected(address)), stack.enter_context(connected(address))
            sent.send(request(PATH, ADMIN_KEY, BODY))
            assert half.asks(PATH, ADMIN_KEY, len(BODY)) == 100
            wait_for_a_held_commit(engine)
            os.kill(process.pid, signal.SIGTERM)
            wait_until(lambda: not listens(port), within=30, what="new connections are rejected")
            assert idle.is_closed()
            half.send(BODY)
        for client in (sent, half):
            answer = client.answer()
            assert (answer.status, answer.headers["connection"]) == (202, "close")
            assert client.is_closed()
        assert process.wait(30) == 0
    assert staged_rows(engine) == 4


@pytest.mark.usefixtures("settings")
@pytest.mark.slow
def test_a_stopping_api_answers_what_it_has_and_takes_nothing_new_and_a_folder_that_is_set_for_counts_stays(
    engine: sa.Engine, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    with running(port) as (process, address):
        check_a_stop(engine, process, port, address)
    assert [*tmp_path.glob("*.db")]


@pytest.mark.usefixtures("settings")
@pytest.mark.slow
def test_killed_api_processes_give_the_port_back_and_what_they_count_in_goes_with_the_next_start_that_stops_like_one(
    engine: sa.Engine, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{PREFIX}API_PROCESSES", "2")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with running(port) as (killed, _):
        (left,) = tmp_path.iterdir()
        assert [*left.glob("*.db")]
        killed.kill()
        killed.wait()
        wait_until(lambda: not listens(port), within=30, what="nobody listens any more")
    with running(port) as (process, address):
        (own,) = tmp_path.iterdir()
        assert own != left
        metrics = httpx.get(f"{address}/metrics", headers={"Authorization": f"Bearer {ADMIN_KEY}"}, trust_env=False)
        assert "mirrorgate_requests_total" in metrics.text
        check_a_stop(engine, process, port, address)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.usefixtures("settings")
@pytest.mark.slow
def test_a_request_that_a_stopping_api_cannot_wait_for_is_told_that_it_may_be_durable(
    engine: sa.Engine, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{PREFIX}SHUTDOWN_SECONDS", "1")
    with running(port) as (process, address), connected(address) as client:
        with held_commits(engine):
            client.send(request(PATH, ADMIN_KEY, BODY))
            wait_for_a_held_commit(engine)
            os.kill(process.pid, signal.SIGTERM)
            answer = client.answer()
            assert (answer.status, answer.json()["code"]) == (503, "commit_unknown")
        assert process.wait(30) == 0
    assert staged_rows(engine) == 2
