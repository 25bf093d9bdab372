"""PgBouncer in front of Postgres: fine in session mode; in the others no program starts."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.checks.preflight import examine
from app.domain.preflight import Outcome
from app.settings import PREFIX
from app.staging.connection.database import open_engine
from app.staging.connection.schema_revision import check_revisions, migrate, require_own_sessions
from mirrorgate.errors import Code, Misconfigured
from tests.support.postgres.pooler import IGNORE_OPTIONS, needs_pgbouncer, pooled
from tests.support.processes import REPOSITORY

pytestmark = needs_pgbouncer

MIXED = "a connection pooler in transaction or statement mode lets sessions share server processes"
REJECTED = "the connection pooler rejects the settings that a session asks for (startup parameter `options`)"


def test_a_pooler_in_session_mode_serves_and_is_named_where_it_hides_settings(
    database_url: str, tmp_path: Path
) -> None:
    with pooled(database_url, tmp_path, "session", IGNORE_OPTIONS) as url:
        before, after = migrate(url)
        assert before == after
        findings = {finding.check: finding for finding in examine(None, url, {})}
    assert "postgres" not in findings
    assert findings["postgres_listen"].outcome is Outcome.OK
    settings = findings["postgres_session_settings"]
    assert settings.outcome is Outcome.WARNING
    assert "A pooler is in between." in settings.detail


@pytest.mark.parametrize(
    ("mode", "lines", "detail", "remedy"),
    [
        ("transaction", [IGNORE_OPTIONS], MIXED, "pool_mode = session"),
        ("transaction", [IGNORE_OPTIONS, "server_round_robin = 1", "min_pool_size = 3"], MIXED, "pool_mode = session"),
        ("transaction", [IGNORE_OPTIONS, "default_pool_size = 1"], MIXED, "pool_mode = session"),
        ("statement", [IGNORE_OPTIONS], MIXED, "pool_mode = session"),
        ("transaction", [], REJECTED, "ignore_startup_parameters = options"),
        ("session", [], REJECTED, "ignore_startup_parameters = options"),
    ],
)
def test_a_pooler_that_mixes_sessions_or_rejects_their_settings_is_no_database(
    database_url: str, tmp_path: Path, mode: str, lines: list[str], detail: str, remedy: str
) -> None:
    with pooled(database_url, tmp_path, mode, *lines) as url:
        for use in (migrate, check_revisions):
            with pytest.raises(Misconfigured) as error:
                use(url)
            assert (error.value.code, error.value.detail) == (Code.POOLER_UNUSABLE, detail)
            assert remedy in error.value.remedy
        (finding,) = [finding for finding in examine(None, url, {}) if finding.check.startswith("postgres")]
    assert (finding.check, finding.outcome) == ("postgres", Outcome.UNSAFE)
    assert finding.detail.startswith(detail)
    assert remedy in str(finding.remedy)


def test_other_clients_of_the_pooler_do_not_hide_that_sessions_are_mixed(database_url: str, tmp_path: Path) -> None:
    with pooled(database_url, tmp_path, "transaction", IGNORE_OPTIONS) as url:
        others = open_engine(url)
        engine = open_engine(url)
        try:
            with others.connect() as first, others.connect() as second:
                for held in (first, second):
                    held.execute(sa.text("SELECT 1"))
                with pytest.raises(Misconfigured):
                    require_own_sessions(engine)
        finally:
            others.dispose()
            engine.dispose()


@pytest.mark.slow
def test_each_program_ends_with_the_status_of_a_wrong_configuration(database_url: str, tmp_path: Path) -> None:
    zone = tmp_path / "zone"
    zone.mkdir()
    with pooled(database_url, tmp_path, "transaction", IGNORE_OPTIONS) as url:
        given = {"DATABASE_URL": url, "LANDING_ZONE": str(zone), "ALLOW_UNSAFE": "true", "PORT": "0"}
        environment = {**os.environ, **{f"{PREFIX}{name}": value for name, value in given.items()}}

        def run(*command: str) -> "subprocess.CompletedProcess[str]":
            program = [sys.executable, "-m", *command]
            return subprocess.run(program, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=90)

        programs = [
            ["app.main"],
            ["spark_jobs.drain"],
            ["mirrorgate.cli", "migrate"],
            ["mirrorgate.cli", "doctor", "--json"],
        ]
        with ThreadPoolExecutor(len(programs)) as threads:
            *others, doctor = threads.map(lambda program: run(*program), programs)
    for ran in others:
        assert f"error pooler_unusable: {MIXED}\nremedy: Set MIRRORGATE_DATABASE_URL" in ran.stderr
        assert ran.returncode == 78
    assert doctor.returncode == 1
    unsafe = [found for found in json.loads(doctor.stdout) if found["outcome"] == "unsafe"]
    assert ("postgres", MIXED) in [(found["check"], found["detail"]) for found in unsafe]
