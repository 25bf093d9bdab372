"""`mirrorgate doctor`, and how `up` and the drain use its checks. The tests' own Postgres does not fsync."""

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from rich.console import Console
from structlog.testing import capture_logs

from app.checks.landing_zone import claim_landing_zone
from app.checks.preflight import examine, not_examined, require_safe
from app.cli.doctor import findings_grid
from app.domain.preflight import Finding, Outcome, unsafe_among
from app.landing.open_zone import ZoneAddress
from app.landing.zone_owner import ZONE_MARKER, claim_zone
from app.local import up
from app.local.embedded import PrivatePostgres, running_url
from app.settings import Settings
from app.staging.connection.schema_revision import present_installation
from mirrorgate.errors import Code, Misconfigured
from tests.support.cli_output import first_json
from tests.support.processes import environment_with, finished

OTHER = UUID(int=2)
UNSAFE = ["postgres_fsync", "postgres_full_page_writes", "postgres_synchronous_commit"]


def run(module: str, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return finished(sys.executable, "-m", module, *arguments, environment=environment_with() | variables)


def set_up(database_url: str, landing_zone: Path) -> Mapping[str, str]:
    return {"MIRRORGATE_DATABASE_URL": database_url, "MIRRORGATE_LANDING_ZONE": str(landing_zone)}


def test_the_command_prints_findings_as_json_and_exits_1_when_something_is_unsafe(
    database_url: str, tmp_path: Path
) -> None:
    variables = {
        **set_up(database_url, tmp_path),
        "MIRRORGATE_LANDINGZONE": "/x",
        "MIRRORGATE_SOURCE": "postgresql://x",
    }
    ran = run("mirrorgate.cli", "doctor", "--json", **variables)
    findings = first_json(ran.stdout)
    assert ran.returncode == 1
    assert [found["check"] for found in findings if found["outcome"] == "unsafe"] == UNSAFE
    assert [found["detail"] for found in findings if found["outcome"] == "warning"] == [
        "MIRRORGATE_LANDINGZONE is not a setting; did you mean MIRRORGATE_LANDING_ZONE?"
    ]
    assert {"zone_rename_keeps_existing", "postgres_listen", "postgres_clock", "descriptor_limit", "memory"} <= {
        found["check"] for found in findings
    }
    assert [*tmp_path.rglob("*")] == [tmp_path / "_scratchPad"]


def test_a_drain_on_an_unsafe_database_does_not_start(database_url: str, tmp_path: Path) -> None:
    ran = run("spark_jobs.drain", "--once", **set_up(database_url, tmp_path))
    assert ran.returncode == 78
    assert "error unsafe_setup: " in ran.stderr
    assert "postgres_fsync: fsync is off" in ran.stderr
    assert "MIRRORGATE_ALLOW_UNSAFE=true" in ran.stderr


@pytest.mark.parametrize("allowed", ["true", "false"])
def test_a_drain_on_the_landing_zone_of_another_gateway_does_not_start(
    database_url: str, tmp_path: Path, allowed: str
) -> None:
    claim_zone(ZoneAddress(str(tmp_path)), OTHER)
    ran = run(
        "spark_jobs.drain", "--once", **set_up(database_url, tmp_path), MIRRORGATE_ALLOW_UNSAFE=allowed, JAVA_HOME="/x"
    )
    assert ran.returncode == 78
    assert "error landing_zone_taken: " in ran.stderr
    assert str(tmp_path) in ran.stderr
    assert str(OTHER) in ran.stderr
    assert "MIRRORGATE_ALLOW_UNSAFE=true" not in ran.stderr


@pytest.mark.parametrize("command", [("spark_jobs.drain", "--once"), ("mirrorgate.cli", "doctor", "--spark")])
def test_a_spark_that_does_not_start_is_reported_with_its_reason(
    database_url: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    variables = {**set_up(database_url, tmp_path), "MIRRORGATE_ALLOW_UNSAFE": "true"}
    ran = run(*command, **variables, MIRRORGATE_SPARK_MASTER="local[0]")
    reason = "Spark did not start: org.apache.spark.SparkException: Asked to run locally with 0 threads"
    assert f"error spark_failed: {reason}\nremedy: Read `spark_log`" in ran.stderr
    assert ran.returncode == 1
    assert "crashed" not in ran.stderr


def test_the_command_says_whose_a_landing_zone_is_and_claims_none(
    database_url: str, engine: sa.Engine, tmp_path: Path
) -> None:
    def owner() -> Finding:
        (found,) = (one for one in examine(ZoneAddress(str(tmp_path)), database_url, {}) if one.check == "zone_owner")
        return found

    assert owner().outcome is owner().outcome is Outcome.OK
    claim_zone(ZoneAddress(str(tmp_path)), present_installation(engine) or OTHER)
    assert owner().outcome is Outcome.OK
    (tmp_path / ZONE_MARKER).unlink()
    claim_zone(ZoneAddress(str(tmp_path)), OTHER)
    assert owner().outcome is Outcome.UNSAFE
    assert str(OTHER) in owner().detail
    (tmp_path / ZONE_MARKER).write_text("?")
    assert owner().outcome is Outcome.UNSAFE


def test_where_the_landing_zone_of_the_database_is_gone_the_checks_create_nothing(
    database_url: str, engine: sa.Engine, tmp_path: Path
) -> None:
    address = ZoneAddress(str(tmp_path / "zone"))
    claim_landing_zone(engine, address)
    shutil.rmtree(address.location)
    assert "zone_known" in {one.check for one in unsafe_among(examine(address, database_url, {}))}
    assert not (tmp_path / "zone").exists()


def test_up_on_the_landing_zone_of_another_gateway_starts_nothing(database_url: str, tmp_path: Path) -> None:
    claim_zone(ZoneAddress(str(tmp_path / "zone")), OTHER)
    settings = Settings(port=0, database_url=SecretStr(database_url), allow_unsafe=True)
    with pytest.raises(Misconfigured, match=Code.LANDING_ZONE_TAKEN):
        up.up(settings, tmp_path / "data", str(tmp_path / "zone"), Console(file=io.StringIO()), environment=os.environ)
    assert not (tmp_path / "data" / "gateway.json").exists()


@pytest.mark.parametrize("level", ["info", "debug"])
def test_retries_on_the_way_are_shown_only_to_who_asks_for_details(tmp_path: Path, level: str) -> None:
    program = """
import sys, typer
from app.checks import preflight
from app.cli import doctor
from app.landing.local_zone import LocalZone
def noisy(address):
    preflight.log.info("storage_retry", detail="x")
    return LocalZone(__import__("pathlib").Path(address.location))
preflight.open_zone = noisy
typer.run(doctor.doctor)
"""
    command = [sys.executable, "-c", program, "--json", "--landing-zone", str(tmp_path), "--data-dir", str(tmp_path)]
    ran = finished(*command, environment=os.environ | {"MIRRORGATE_LOG_LEVEL": level})
    assert isinstance(first_json(ran.stdout), list)
    assert ("storage_retry" in ran.stderr) == (level == "debug")


@pytest.mark.slow
def test_up_on_an_unsafe_database_starts_nothing(database_url: str, tmp_path: Path) -> None:
    settings = Settings(port=0, database_url=SecretStr(database_url))
    with pytest.raises(Misconfigured, match=Code.UNSAFE_SETUP):
        up.up(settings, tmp_path, None, Console(file=io.StringIO()), environment={})
    assert not (tmp_path / "gateway.json").exists()


def test_what_is_not_set_is_not_examined_and_that_is_said() -> None:
    found = {finding.check: finding for finding in not_examined(None, None)}
    assert found["postgres"].outcome is found["landing_zone"].outcome is Outcome.WARNING
    assert "MIRRORGATE_DATABASE_URL" in found["postgres"].detail


def test_a_database_and_a_zone_that_cannot_be_reached_are_unsafe(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    findings = examine(ZoneAddress(str(tmp_path / "file" / "zone")), f"postgresql://x@/x?host={tmp_path}", {})
    found = {finding.check: finding for finding in findings}
    assert found["postgres"].outcome is found["landing_zone"].outcome is Outcome.UNSAFE
    assert "Check that Postgres runs" in str(found["postgres"].remedy)


def test_unsafe_is_rejected_unless_allowed_and_then_said_loudly() -> None:
    findings = [
        Finding("a", Outcome.OK, "well"),
        Finding("b", Outcome.WARNING, "odd", "look"),
        Finding("c", Outcome.UNSAFE, "bad", "mend it"),
    ]
    with capture_logs() as logs, pytest.raises(Misconfigured) as rejection:
        require_safe(findings, allow_unsafe=False)
    assert (rejection.value.code, rejection.value.detail) == (Code.UNSAFE_SETUP, "c: bad")
    assert rejection.value.remedy.startswith("mend it ")
    assert [entry["check"] for entry in logs] == ["b"]
    with capture_logs() as logs:
        require_safe(findings, allow_unsafe=True)
    assert [(entry["log_level"], entry["check"]) for entry in logs] == [("warning", "b"), ("error", "c")]


def test_people_see_the_remedy_below_what_is_wrong() -> None:
    console = Console(file=io.StringIO(), width=100)
    console.print(findings_grid([Finding("zone_write", Outcome.UNSAFE, "[Errno 28] no space", "make \\[/room]")]))
    assert isinstance(console.file, io.StringIO)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    assert lines == ["check outcome detail", "zone_write unsafe [Errno 28] no space", "-> make \\[/room]"]


def test_the_private_postgres_of_a_data_directory_is_found_while_it_runs(tmp_path: Path) -> None:
    assert running_url(tmp_path) is None
    with PrivatePostgres(tmp_path, {"fsync": "off"}) as server:
        assert running_url(tmp_path) == server.url
    assert running_url(tmp_path) is None


def test_the_landing_zone_of_a_data_directory_is_examined(tmp_path: Path) -> None:
    (tmp_path / "landing-zone").mkdir()
    ran = run("mirrorgate.cli", "doctor", "--json", "--data-dir", str(tmp_path))
    checks = {found["check"]: found["outcome"] for found in first_json(ran.stdout)}
    assert checks["zone_rename_keeps_existing"] == "ok"
