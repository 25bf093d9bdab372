"""PgBouncer in front of Postgres: rejected in transaction mode, usable with the settings that the remedy names."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import psycopg
import pytest
import sqlalchemy as sa

from app.local.embedded import PrivatePostgres
from tests.model.gateway import small_gateway
from tests.real.counterparts import debian_program, output_of
from tests.real.debezium import Rows, landed, send_rows
from tests.real.report import Report
from tests.support.postgres.pooler import pooled
from tests.support.processes import environment_with, finished

TABLE: Final = "shop.orders"


@pytest.fixture
def pgbouncer() -> str:
    """Return the name and version of the installed PgBouncer."""
    return output_of(debian_program("pgbouncer", "pgbouncer"), "--version").splitlines()[0]


def run(url: str, zone: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    environment = environment_with(DATABASE_URL=url, LANDING_ZONE=zone, ALLOW_UNSAFE="true", PORT=0)
    return finished(sys.executable, "-m", *command, environment=environment, timeout=120)


def findings(url: str, zone: Path) -> dict[str, dict[str, Any]]:
    """Return what `mirrorgate doctor` finds, by the check."""
    printed = run(url, zone, "mirrorgate.cli", "doctor", "--json").stdout
    return {finding["check"]: finding for finding in msgspec.json.decode(printed)}


def console(url: str, *commands: str) -> dict[str, str]:
    """Run commands in PgBouncer's console, and return its settings."""
    address = sa.make_url(url).set(database="pgbouncer").render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        for command in commands:
            connection.execute(command.encode())
        return {row[0]: row[1] for row in connection.execute("SHOW CONFIG")}


def test_doctor_and_start_reject_transaction_mode(
    database_url: str, tmp_path: Path, pgbouncer: str, report: Report
) -> None:
    with pooled(database_url, tmp_path, "transaction", "ignore_startup_parameters = options") as url:
        finding = findings(url, tmp_path)["postgres"]
        assert finding["outcome"] == "unsafe"
        assert "pool_mode = session" in finding["remedy"]
        for program in ("app.main", "spark_jobs.drain"):
            ran = run(url, tmp_path, program)
            assert ran.returncode == 78
            assert "error pooler_unusable: " in ran.stderr
            assert "pool_mode = session" in ran.stderr
    report.add(pgbouncer, 3)


def test_with_the_settings_of_the_remedies_a_gateway_publishes_through_a_reload_and_lost_connections(
    postgres: PrivatePostgres, database_url: str, tmp_path: Path, pgbouncer: str, report: Report
) -> None:
    zone, database = tmp_path / "examined", str(sa.make_url(database_url).database)
    zone.mkdir()
    with pooled(database_url, tmp_path, "session") as url:
        named = re.findall(r"`(\w+ = \w+)`", findings(url, zone)["postgres"]["remedy"])
    assert {setting.split()[0] for setting in named} == {"pool_mode", "ignore_startup_parameters"}
    with (
        psycopg.connect(postgres.administration_url, autocommit=True) as administration,
        pooled(database_url, tmp_path, "transaction", *named, "admin_users = gateway") as url,
    ):
        hidden = findings(url, zone)["postgres_session_settings"]
        assert hidden["outcome"] == "warning"
        role = f'ALTER ROLE gateway IN DATABASE "{database}"'
        wanted = re.findall(r"(\w+) is \w+, not (\w+)", hidden["detail"])
        assert wanted
        for name, value in wanted:
            administration.execute(f"{role} SET {name} = '{value}'".encode())
        try:
            console(url, "RECONNECT")
            found = findings(url, zone)
            assert {found[check]["outcome"] for check in ("postgres_session_settings", "postgres_listen")} == {"ok"}
            report.add(pgbouncer, publish_while_the_pooler_changes(url, database, tmp_path))
        finally:
            administration.execute(f"{role} RESET ALL".encode())


def publish_while_the_pooler_changes(url: str, database: str, folder: Path) -> int:
    """Send, reload, send, close all connections, send; return how many rows have landed."""
    changes = {
        "reload": lambda: reloaded(url, folder / "pgbouncer.ini"),
        "lost connections": lambda: console(url, f"KILL {database}", f"RESUME {database}"),
        "nothing": lambda: {},
    }
    with small_gateway(url, folder) as gateway:
        gateway.register(TABLE, {"id": "int64", "note": "string"})
        sent: Rows = {}
        for number, (note, change) in enumerate(changes.items()):
            rows = [{"id": number * 100 + row, "note": note} for row in range(100)]
            sent |= send_rows(gateway, TABLE, rows)
            change()
        gateway.until_published(TABLE)
        assert landed(gateway, TABLE, "id") == sent
        gateway.close()
    return len(sent)


def reloaded(url: str, configuration: Path) -> dict[str, str]:
    """Let PgBouncer read a changed configuration."""
    with configuration.open("a") as file:
        file.write("\nquery_wait_timeout = 77\n")
    console(url, "RELOAD")
    now = console(url)
    assert now["query_wait_timeout"] == "77"
    return now
