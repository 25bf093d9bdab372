"""What a real API process writes to its log."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from app.embedded import PrivatePostgres
from tests.api.calls import ADMIN_KEY, Gateway, insert
from tests.support.databases import create_database, database_in
from tests.support.processes import REPOSITORY, started
from tests.support.waiting import wait_until

CANARY = "canary7391"


@dataclass
class Conversation:
    """Everything that a process answered and wrote."""

    answers: list[httpx.Response]
    no_http: str
    """The answer to bytes that are no request."""

    output: str
    log: list[dict[str, Any]]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def serves(client: Gateway) -> bool:
    try:
        return client.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def raw_answer(port: int, content: bytes) -> str:
    """What the gateway answers to these bytes until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(content)
        return b"".join(iter(lambda: connection.recv(65_536), b"")).decode()


def refusals(client: Gateway) -> Iterator[httpx.Response]:
    """Requests that hold the canary as a value and are refused, each for another reason."""
    good = insert("t", id="1", day="2024-02-29")
    yield client.arcion(insert("t", id=CANARY, day="null"))
    yield client.arcion(insert("t", id="1", day=CANARY))
    yield client.arcion(insert("t", id="1", other=CANARY))
    yield client.arcion(insert("nowhere", id=CANARY))
    yield client.arcion(good | {"opType": CANARY})
    yield client.arcion(good | {"exists": {"id": CANARY}})
    yield client.post("/v1/changes/arcion", content=f'{{"a":"{CANARY}'.encode())
    yield client.post("/v1/changes/arcion", content=CANARY.encode(), headers={"Content-Encoding": "gzip"})
    yield client.replicate({"headers": {"operation": CANARY}, "data": {"id": CANARY}})
    yield client.replicate({"headers": {"operation": "INSERT"}, "data": {"id": CANARY}}, table="t")
    yield client.put("/v1/tables/t", json={"columns": [{"name": "id", "type": CANARY}]})
    yield client.put("/v1/tables/t", json={"columns": CANARY})
    yield client.post("/v1/keys", json={"rights": [CANARY]})
    yield client.get("/v1/tables", headers={"Authorization": f"Bearer mg_00000000ffffffff_{CANARY * 5}"})
    yield client.get("/v1/tables", headers={"Authorization": CANARY})


@pytest.fixture(scope="module")
def conversation(postgres: PrivatePostgres, template_database: str) -> Iterator[Conversation]:
    create_database(postgres.url, "logs", template=template_database)
    port = free_port()
    environment = {
        "MIRRORGATE_DATABASE_URL": database_in(postgres.url, "logs"),
        "MIRRORGATE_ADMIN_KEY": ADMIN_KEY,
        "MIRRORGATE_PORT": str(port),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("MIRRORGATE_")]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        with started("app.main") as process, Gateway.at(f"http://127.0.0.1:{port}", ADMIN_KEY) as client:
            wait_until(lambda: process.poll() is not None or serves(client), within=60, what="the API serves")
            assert process.poll() is None, stopped(process)
            client.register("t", {"id": "int64", "day": "date"}, ["id"])
            answers = [client.arcion(insert("t", id="1", day="2024-02-29"))]
            answers += refusals(client)
            answers.append(client.get("/v1/tables/t", headers={"X-Request-Id": "my-request"}))
            refused = raw_answer(port, f"{CANARY} is no HTTP\r\n\r\n".encode())
            output = stopped(process)
    yield Conversation(answers, refused, output, [json.loads(line) for line in output.splitlines()])


def stopped(process: "subprocess.Popen[str]") -> str:
    """Everything that the process wrote until it ended on SIGTERM."""
    process.terminate()
    stdout, stderr = process.communicate(timeout=30)
    return stdout + stderr


def test_no_refused_value_is_in_an_answer_or_in_the_log(conversation: Conversation) -> None:
    refused = [answer for answer in conversation.answers if answer.is_error]
    assert len(refused) == 15
    assert all(answer.status_code < 500 for answer in refused)
    assert [answer.text for answer in refused if CANARY in answer.text] == []
    assert CANARY not in conversation.output


def test_no_key_is_in_the_log(conversation: Conversation) -> None:
    assert ADMIN_KEY.rpartition("_")[2] not in conversation.output


def test_every_request_but_health_checks_is_one_line_with_its_id(conversation: Conversation) -> None:
    lines = {line["request_id"]: line for line in conversation.log if line["event"] == "request"}
    assert "/healthz" not in {line["route"] for line in lines.values()}
    for answer in conversation.answers:
        line = lines[answer.headers["x-request-id"]]
        assert (line["method"], line["status"]) == (answer.request.method, answer.status_code)
    assert lines["my-request"]["route"] == "/v1/tables/{table}"


def test_what_is_no_http_has_its_line_with_the_id_of_its_answer(conversation: Conversation) -> None:
    (line,) = [line for line in conversation.log if line["event"] == "request" and line["method"] is None]
    assert line["status"] == 400
    assert f"x-request-id: {line['request_id']}\r\n" in conversation.no_http
    assert CANARY not in conversation.no_http


def test_a_warning_of_another_library_is_a_json_line_too() -> None:
    script = (
        "import logging; from app.settings import Settings; from app.telemetry import configure_logging;"
        "configure_logging(Settings.model_construct());"
        "logging.getLogger('another').warning('look at %s', 'this')"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    line = json.loads(ran.stderr)
    assert (line["event"], line["level"]) == ("look at this", "warning")


def test_a_stop_on_request_writes_no_error(conversation: Conversation) -> None:
    assert [line for line in conversation.log if line["level"] in {"error", "critical"}] == []
