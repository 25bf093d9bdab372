"""What a real API process writes to its log."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from structlog.testing import capture_logs

from app import main
from app.domain.access.mask_secret import MaskSecret
from app.domain.model.table_options import TableOptions
from app.local.embedded import PrivatePostgres
from app.settings import Settings
from app.staging.access.mask_secrets import pin_mask_secret
from tests.api.calls import ADMIN_KEY, Gateway, insert
from tests.support.gateway_parts import registered
from tests.support.http.raw_http import RawAnswer, connected
from tests.support.http.server import api_process, stopped
from tests.support.postgres import sql
from tests.support.postgres.databases import create_database
from tests.support.processes import REPOSITORY
from tests.support.samples.schemas import schema_of


@dataclass
class Conversation:
    """Everything that a process answered and wrote."""

    answers: list[httpx.Response]
    no_http: RawAnswer
    """The answer to bytes that are no request."""

    log: list[dict[str, Any]]


def rejections(client: Gateway) -> Iterator[httpx.Response]:
    """Yield requests that different parts of the gateway reject."""
    yield client.arcion(insert("t", id="one", day="null"))
    yield client.put("/v1/tables/t", json={"columns": 7})
    yield client.get("/v1/tables", headers={"Authorization": "Bearer mg_x"})
    yield client.get("/v1/nothing")


@pytest.fixture(scope="module")
def conversation(postgres: PrivatePostgres, template_database: str) -> Iterator[Conversation]:
    url = create_database(postgres.url, "logs", template=template_database)
    with api_process(url, ADMIN_KEY) as (process, address):
        with Gateway.at(address, ADMIN_KEY) as client:
            client.register("t", {"id": "int64", "day": "date"}, ["id"])
            answers = [client.arcion(insert("t", id="1", day="2024-02-29"))]
            answers += rejections(client)
            answers.append(client.get("/v1/tables/t", headers={"X-Request-Id": "my-request"}))
            with connected(address) as connection:
                connection.send(b"this is no HTTP\r\n\r\n")
                rejected = connection.answer()
        output = stopped(process)
    yield Conversation(answers, rejected, [json.loads(line) for line in output.splitlines()])


def test_every_request_but_health_checks_is_one_line_with_its_id(conversation: Conversation) -> None:
    lines = {line["request_id"]: line for line in conversation.log if line["event"] == "request"}
    assert "/healthz" not in {line["route"] for line in lines.values()}
    for answer in conversation.answers:
        line = lines[answer.headers["x-request-id"]]
        assert (line["method"], line["status"]) == (answer.request.method, answer.status_code)
    assert lines["my-request"]["route"] == "/v1/tables/{table}"


def test_a_line_says_what_was_rejected_about_which_table_for_whom(conversation: Conversation) -> None:
    lines = {line["request_id"]: line for line in conversation.log if line["event"] == "request"}
    accepted, bad_value, bad_body, bad_key, nothing = (
        lines[answer.headers["x-request-id"]] for answer in conversation.answers[:5]
    )
    key = ADMIN_KEY.split("_")[1]
    assert (accepted["key"], accepted["changes"], accepted["client"]) == (key, 1, "127.0.0.1")
    assert accepted["bytes"] == len(conversation.answers[0].request.content)
    assert (bad_value["code"], bad_value["tables"], bad_value["key"]) == ("bad_value", ["t"], key)
    assert (bad_body["code"], bad_body["tables"]) == ("bad_request", ["t"])
    assert bad_key["code"] == "unauthenticated"
    assert "key" not in bad_key
    assert nothing["code"] == "not_found"
    assert "changes" not in bad_value


def test_what_is_no_http_has_its_line_with_the_id_of_its_answer(conversation: Conversation) -> None:
    (line,) = [line for line in conversation.log if line["event"] == "request" and line["method"] is None]
    assert (line["status"], line["code"], line["client"]) == (400, "bad_request", "127.0.0.1")
    assert conversation.no_http.headers["x-request-id"] == line["request_id"]
    assert "this is" not in str(conversation.no_http)


def test_a_warning_of_another_library_is_a_json_line_that_names_its_logger() -> None:
    script = (
        "import logging; from app.settings import Settings; from app.observability.telemetry import configure_logging;"
        "configure_logging(Settings.model_construct());"
        "logging.getLogger('another').warning('look at %s', 'this')"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    line = json.loads(ran.stderr)
    assert (line["event"], line["level"], line["logger"]) == ("look at this", "warning", "another")


def test_a_stop_on_request_writes_no_error(conversation: Conversation) -> None:
    assert [line for line in conversation.log if line["level"] in {"error", "critical"}] == []


def test_the_api_says_that_it_starts_and_stops_where_and_in_which_version(conversation: Conversation) -> None:
    events = {line["event"]: line for line in conversation.log}
    for event in ("api_started", "api_stopped"):
        assert events[event]["version"] == version("mirrorgate")
        assert events[event]["address"].startswith("http://127.0.0.1:")
    assert "no_key_exists" not in events


def test_an_api_without_any_key_warns_that_no_caller_can_log_in(database_url: str) -> None:
    with capture_logs() as logs, pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "configure_logging", lambda _: None)
        main.check_start(Settings(database_url=SecretStr(database_url)))
    (line,) = [line for line in logs if line["event"] == "no_key_exists"]
    assert line["log_level"] == "warning"
    assert "keys generate" in line["remedy"]


def test_an_api_with_another_secret_of_hashed_columns_starts_with_a_warning(
    database_url: str, engine: sa.Engine
) -> None:
    secret = "a secret of hashed columns, only for tests"
    sql.call(engine, pin_mask_secret, MaskSecret(secret.encode()))
    columns = schema_of({"id": "int64", "mail": "string"}, ["id"])
    registered(engine, "t", columns, TableOptions.parse({"masks": {"mail": {"method": "hash"}}}))
    with capture_logs() as logs, pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "configure_logging", lambda _: None)
        for given in (secret, secret.upper(), None):
            main.check_start(Settings(database_url=SecretStr(database_url), mask_secret=given and SecretStr(given)))
    assert [line["detail"] for line in logs if line.get("check") == "mask_secret"] == [
        "1 table has columns that are hashed under another MIRRORGATE_MASK_SECRET than that of this process",
        "1 table has hashed columns, and MIRRORGATE_MASK_SECRET is not set",
    ]
