"""Storage services and connections that fail under a running drain."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import sqlalchemy as sa
from azure.core.exceptions import ClientAuthenticationError
from azure.core.pipeline.transport import HttpRequest, RequestsTransportResponse

from app.domain.model.table import DropAction
from app.landing.adls.client import AdlsClient
from app.staging.connection.database import open_engine
from app.staging.ledger.reports import failing_tables
from mirrorgate.errors import Code, TemporarilyUnavailable
from mirrorgate_zone.emulator import OneLake, Trust
from mirrorgate_zone.emulator.faults import answer
from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import current, dropping, landed_keys, registered, stage_keys
from tests.support.onelake.clients import FixedToken, onelake_address
from tests.support.onelake.fixtures import new_onelake, onelake, trust
from tests.support.postgres import sql
from tests.support.postgres.swallowing_proxy import swallowing_proxy
from tests.support.samples.schemas import ID
from tests.support.small_drain import publish_pending

__all__ = ["new_onelake", "onelake", "trust"]

_IN_TRANSACTION = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"""


def watch_calls(monkeypatch: pytest.MonkeyPatch, look: Callable[[], Any]) -> list[tuple[str, Any]]:
    """Call `look` at the begin of each call to the service; return what it saw, by method."""
    seen: list[tuple[str, Any]] = []

    def watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: AdlsClient, *arguments: Any, **options: Any) -> Any:
            seen.append((name, look()))
            return method(self, *arguments, **options)

        return call

    for name in ("head", "listed", "create_file", "create_folder", "append", "flush", "read", "rename", "delete"):
        monkeypatch.setattr(AdlsClient, name, watched(name, getattr(AdlsClient, name)))
    return seen


def test_no_transaction_is_open_during_a_call_to_the_storage_service(
    engine: sa.Engine,
    database_url: str,
    new_drain: NewDrain,
    onelake: OneLake,
    trust: Trust,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Publish, take over with a planned file, drop: a retried call may take longer than Postgres lets one be idle."""
    zone = onelake_address(onelake, trust)
    table = registered(engine, "t", ID)
    former, cycle, looking = new_drain(zone=zone, rows=1), new_drain(zone=zone, rows=1), open_engine(database_url)
    calls = watch_calls(monkeypatch, lambda: sql.value(looking, _IN_TRANSACTION))
    stage_keys(engine, table, [1], [2], [3])
    assert former.prepare(table.table_id) is not None
    sql.run(engine, "DELETE FROM mirrorgate.workers WHERE worker_id = :id", id=former.context.worker_id)
    publish_pending(cycle)
    dropping(engine, "t", DropAction.RECREATE)
    publish_pending(cycle)
    looking.dispose()
    assert current(engine, "t").generation == 2
    assert {name for name, _ in calls} >= {
        "head",
        "listed",
        "create_file",
        "append",
        "flush",
        "read",
        "rename",
        "delete",
    }
    assert [call for call in calls if call[1]] == []


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (401, "InvalidAuthenticationInfo", Code.STORAGE_CREDENTIAL),
        (403, "AuthorizationPermissionMismatch", Code.STORAGE_FORBIDDEN),
        (429, "TooManyRequests", Code.STORAGE_THROTTLED),
        (503, "ServerBusy", Code.STORAGE_UNAVAILABLE),
    ],
)
def test_a_failing_build_keeps_the_answer_of_the_service_and_its_remedy(
    engine: sa.Engine, new_drain: NewDrain, onelake: OneLake, trust: Trust, status: int, reason: str, code: Code
) -> None:
    table = registered(engine, "t", ID)
    cycle = new_drain(zone=onelake_address(onelake, trust, retry_seconds=0.0))
    for key in (1, 2, 3):
        stage_keys(engine, table, [key])
        onelake.faults.plan("create", *[answer(status, reason)] * 6)
        publish_pending(cycle)
    failure = sql.call(engine, failing_tables, [table.table_id])[table.table_id]
    assert (failure.code, failure.remedy) == (code, code.remedy)
    assert f"{status} {reason}" in failure.detail


@dataclass(frozen=True)
class Expiring:
    """A credential whose secret has expired once `expired` is set."""

    expired: bool = False

    def get_token(self, *scopes: str, **options: Any) -> Any:
        if _EXPIRED:
            message = "AADSTS7000222: The provided client secret keys for app 'a' are expired.\nTrace ID: 1"
            answered = requests.Response()
            answered.status_code, answered._content = 401, json.dumps({"error_description": message}).encode()
            answered.headers["Content-Type"] = "application/json"
            asked = HttpRequest("POST", "https://login.microsoftonline.com/t/oauth2/v2.0/token")
            raise ClientAuthenticationError(message, response=RequestsTransportResponse(asked, answered))
        return FixedToken().get_token(*scopes)._replace(expires_on=int(time.time()) + 1)


_EXPIRED: list[bool] = []


@pytest.mark.parametrize(
    ("plan", "code", "told"),
    [
        (lambda: _EXPIRED.append(True), Code.STORAGE_CREDENTIAL, "AADSTS7000222"),
        (answer(401, "InvalidAuthenticationInfo"), Code.STORAGE_CREDENTIAL, "401"),
        (answer(403, "AuthorizationPermissionMismatch"), Code.STORAGE_FORBIDDEN, "403"),
        (answer(404, "FilesystemNotFound"), Code.STORAGE_NOT_FOUND, "404"),
        (answer(429, "TooManyRequests"), Code.STORAGE_THROTTLED, "429"),
        (answer(500, "InternalError"), Code.STORAGE_UNAVAILABLE, "500"),
    ],
    ids=["secret", "401", "403", "404", "429", "500"],
)
def test_a_running_drain_that_loses_its_zone_says_what_the_service_answers(
    engine: sa.Engine, new_drain: NewDrain, onelake: OneLake, trust: Trust, plan: Any, code: Code, told: str
) -> None:
    table = registered(engine, "t", ID)
    cycle = new_drain(zone=onelake_address(onelake, trust, retry_seconds=0.0, credential=Expiring))
    stage_keys(engine, table, [1])
    try:
        if callable(plan):
            plan()
        else:
            onelake.faults.plan("head", *[plan] * 6)
        with pytest.raises(TemporarilyUnavailable) as waits:
            cycle.due()
    finally:
        _EXPIRED.clear()
    assert waits.value.code is code
    assert told in waits.value.detail
    assert "ount the landing zone" not in waits.value.remedy


def test_a_drain_publishes_on_after_its_connections_fell_silent(
    engine: sa.Engine, database_url: str, landing_zone: Path, new_drain: NewDrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.staging.connection.database._PING_SECONDS", 0.3)
    table = registered(engine, "t", ID)
    with swallowing_proxy(database_url) as proxy:
        cycle = new_drain(url=proxy.url)
        stage_keys(engine, table, [1])
        publish_pending(cycle)
        proxy.swallow()
        stage_keys(engine, table, [2])
        publish_pending(cycle)
        cycle.context.engine.dispose()
    assert landed_keys(landing_zone, "t") == [[1], [2]]
