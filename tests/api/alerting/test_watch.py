"""Alerts of a real gateway reach a real receiver, signed, once among several API processes."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from typer.testing import CliRunner

from app.api.alerting import AlertWatch, Webhook
from app.domain.publication import BacklogLimit
from app.ingest import BacklogWatch
from app.staging.connection.database import AdvisoryLock, open_engine, session_lock
from mirrorgate.cli.main import app
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.support.http.stand_in import StandIn, serving
from tests.support.postgres import sql
from tests.support.postgres.ledger import owned_table
from tests.support.waiting import wait_until

SECRET = "only-for-tests"


@dataclass
class Receiver:
    """A webhook: what it got, and what it answers."""

    address: str = ""
    status: int = 204
    bodies: list[bytes] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts of all messages, and forget them."""
        found = [alert for body in self.bodies for alert in json.loads(body)["alerts"]]
        self.bodies.clear()
        return found

    def told(self) -> list[tuple[str, str, str]]:
        return [(alert["status"], alert["subject"], alert["code"]) for alert in self.alerts()]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(StandIn):
        def respond(self) -> None:
            found.bodies.append(self.body())
            found.signatures.append(self.headers["X-Signature"] or "")
            self.answer(found.status, b"")

    with serving(Handler) as address:
        found.address = f"{address}/hook?token=hidden"
        yield found


class Clock:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def watch_of(engine: sa.Engine, receiver: Receiver, clock: Clock | None = None, after: float = 0.0) -> AlertWatch:
    webhook = Webhook(SecretStr(receiver.address), SecretStr(SECRET))
    backlog = BacklogWatch(engine, BacklogLimit(1, 1, 1), BacklogLimit(1, 1))
    return AlertWatch(engine, webhook, after, backlog, clock or Clock())


@pytest.fixture
def quarantined(engine: sa.Engine) -> sa.Engine:
    sql.run(
        engine,
        "WITH t AS (INSERT INTO mirrorgate.tables (name, folded_name, state, state_reason) "
        "VALUES ('s.a', 's.a', 'quarantined', 'foreign_file: a file is foreign') RETURNING table_id) "
        "INSERT INTO mirrorgate.table_counters (table_id) SELECT table_id FROM t",
    )
    return engine


def test_a_quarantined_table_and_a_missing_drain_are_told_once_and_when_they_are_over(
    quarantined: sa.Engine, receiver: Receiver
) -> None:
    watch = watch_of(quarantined, receiver)
    watch.look()
    assert receiver.told() == [("firing", "drain", "drain_not_ok"), ("firing", "s.a", "foreign_file")]
    watch_of(quarantined, receiver).look()  # of another API process, or after a restart
    assert receiver.told() == []
    sql.run(quarantined, "UPDATE mirrorgate.tables SET state = 'active', state_reason = NULL")
    watch.look()
    assert receiver.told() == [("resolved", "s.a", "foreign_file")]


def test_the_remedy_of_a_quarantine_names_the_command_that_releases_the_table(
    quarantined: sa.Engine, receiver: Receiver
) -> None:
    watch_of(quarantined, receiver).look()
    [remedy] = [alert["remedy"] for alert in receiver.alerts() if alert["subject"] == "s.a"]
    assert "move the file out of the landing zone" in remedy
    assert "`mirrorgate tables release s.a --generation 1 --reason …`" in remedy


def test_a_message_is_signed_over_its_body(quarantined: sa.Engine, receiver: Receiver) -> None:
    watch_of(quarantined, receiver).look()
    digest = hmac.new(SECRET.encode(), receiver.bodies[0], hashlib.sha256).hexdigest()
    assert receiver.signatures == [f"sha256={digest}"]


def test_google_chat_gets_the_text_alone_because_it_rejects_other_members(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []

    def answered(request: httpx.Request) -> httpx.Response:
        sent.append(request.content)
        return httpx.Response(200)

    client = httpx.Client(transport=httpx.MockTransport(answered))
    monkeypatch.setattr("app.api.alerting.httpx.stream", client.stream)
    message: dict[str, object] = {"version": 1, "text": "é" * 5_000, "alerts": []}
    Webhook(SecretStr("https://chat.googleapis.com/v1/spaces/x/messages?key=hidden"), None).send(message)
    Webhook(SecretStr("https://hooks.slack.com/services/hidden"), None).send(message)
    assert [json.loads(body) for body in sent] == [{"text": "é" * 4_096}, message]


def test_a_receiver_that_fails_gets_the_same_alerts_again(quarantined: sa.Engine, receiver: Receiver) -> None:
    watch, receiver.status = watch_of(quarantined, receiver), 500
    with pytest.raises(TemporarilyUnavailable, match=Code.ALERT_NOT_SENT) as caught:
        watch.look()
    assert "hidden" not in str(caught.value)
    first, receiver.status = receiver.alerts(), 200
    watch.look()
    assert receiver.alerts() == first


def test_one_process_at_a_time_tells(quarantined: sa.Engine, receiver: Receiver) -> None:
    with session_lock(quarantined, AdvisoryLock.ALERTS) as session:
        assert session is not None
        watch_of(quarantined, receiver).look()
    assert receiver.told() == []


def test_a_trouble_that_does_not_last_is_not_told(quarantined: sa.Engine, receiver: Receiver) -> None:
    clock = Clock()
    watch = watch_of(quarantined, receiver, clock, after=60)
    watch.look()
    sql.run(quarantined, "UPDATE mirrorgate.tables SET state = 'active', state_reason = NULL")
    clock.now += timedelta(seconds=61)
    watch.look()
    assert receiver.told() == [("firing", "drain", "drain_not_ok")]


def test_a_full_backlog_is_told_of_its_table_and_of_all_tables(engine: sa.Engine, receiver: Receiver) -> None:
    owned_table(engine, [1], name="s.full")
    watch = watch_of(engine, receiver)
    watch.backlog.start()
    try:
        wait_until(lambda: watch.backlog.total_share() >= 1, within=60, what="the backlog is full")
        watch.look()
        watch.look()
    finally:
        watch.backlog.close()
    told = [(alert["severity"], alert["kind"], alert["subject"]) for alert in receiver.alerts()]
    assert sorted(told) == [
        ("critical", "backlog", "all tables"),
        ("critical", "backlog", "s.full"),
    ]


def test_a_process_without_postgres_tells_that_and_when_it_is_back(quarantined: sa.Engine, receiver: Receiver) -> None:
    watch = watch_of(quarantined, receiver)
    away = open_engine("postgresql://unused@127.0.0.1:1/none")
    watch.engine = away
    watch.look()
    watch.look()
    assert receiver.told() == [("firing", "database", "database_unavailable")]
    watch.engine = quarantined
    watch.look()
    assert ("resolved", "database", "database_unavailable") in receiver.told()
    away.dispose()


def test_the_command_sends_a_test_message(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORGATE_ALERT_URL", receiver.address)
    assert CliRunner().invoke(app, ["alerts", "test"], catch_exceptions=False).exit_code == 0
    assert json.loads(receiver.bodies[0])["text"].startswith("TEST:")
