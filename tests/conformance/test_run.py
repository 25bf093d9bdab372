"""The conformance run against endpoints that answer as Fabric and OneLake do; the Delta mirror does Fabric's work."""

import io
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from mirrorgate_zone.emulator.fabric_api import Answer
from mirrorgate_zone.emulator.onelake import ITEM, OneLake
from tests.support.fabric.endpoint import Fabric
from tests.support.processes import REPOSITORY
from tools.conformance.__main__ import main
from tools.conformance.report import Outcome, Report
from tools.conformance.run import PREFIX, Plan, run

WORKSPACE = "Sales workspace"
Run = Callable[..., int]


@contextmanager
def mirroring(fabric: Fabric, onelake: OneLake, target: Path) -> Iterator[None]:
    """Do Fabric's work: once mirroring is started, apply the files of the landing zone to Delta tables."""
    ended = Event()
    started: list[subprocess.Popen[bytes]] = []

    def watch() -> None:
        while not ended.wait(0.2):
            if any(database.started for database in list(fabric.service.databases.values())):
                command = [sys.executable, "-m", "mirrorgate.cli", "mirror", "run", onelake.url, "--to", str(target)]
                with (target.parent / "mirror.log").open("wb") as log:
                    process = subprocess.Popen([*command, "--poll-seconds", "0.5"], stderr=log, stdout=log)
                started.append(process)
                return

    thread = Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for process in started:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_whole_run_finds_every_row_again_and_deletes_its_database(
    fabric: Fabric, onelake: OneLake, tmp_path: Path
) -> None:
    target, report = tmp_path / "Tables", Report()
    target.mkdir()
    plan = Plan(
        WORKSPACE,
        f"{PREFIX}whole",
        timeout=240.0,
        poll_seconds=2.0,
        environment={"MIRRORGATE_FABRIC_POLL_SECONDS": "1"},
        tables_address=lambda _: str(target),
    )
    with mirroring(fabric, onelake, target):
        run(plan, report)
    assert report.is_conformant, report.markdown()
    assert [step.name for step in report.steps][-1] == "Delete the database"
    assert fabric.service.databases == {}
    assert not [fact for fact in report.facts if fact.startswith("logs")]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program in this process, where nobody answers a question and no gateway can start."""
    monkeypatch.setenv("MIRRORGATE_DATABASE_URL", "postgresql://an.operators.own.database/x")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # logs of a failure are kept there
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def run_program(*options: str, workspace: str = WORKSPACE) -> int:
        given = ["--workspace", workspace, "--report", str(tmp_path / "report.md"), *options]
        monkeypatch.setattr("sys.argv", ["conformance", *given])
        try:
            return main({"MIRRORGATE_MIN_FREE_BYTES": str(2**62)})
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    return run_program


def report_in(tmp_path: Path) -> str:
    return (tmp_path / "report.md").read_text(encoding="utf-8")


def test_without_a_yes_nothing_is_asked_of_fabric(
    start: Run, fabric: Fabric, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start() == 1
    assert "nothing was done" in capsys.readouterr().err
    assert (fabric.service.seen, list(tmp_path.iterdir())) == ([], [])


def test_an_unknown_workspace_ends_the_run_before_anything_is_created(
    start: Run, fabric: Fabric, tmp_path: Path
) -> None:
    assert start("--yes", workspace="Elsewhere") == 1
    assert "| Find the workspace | failed |" in report_in(tmp_path)
    assert "fabric_not_found" in report_in(tmp_path)
    assert not [path for method, path in fabric.service.seen if method != "GET"]


def test_a_gateway_that_does_not_start_is_reported_and_so_is_a_database_that_cannot_be_deleted(
    start: Run, fabric: Fabric, onelake: OneLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabric.service.plan(ITEM[0], Answer(403, {"errorCode": "InsufficientPrivileges", "message": "No."}))
    assert start("--yes") == 1
    report = report_in(tmp_path)
    assert "Not every step succeeded" in report
    assert "| Start a gateway on the new landing zone | failed |" in report
    assert "unsafe_setup" in report
    assert "logs of the gateway" in report
    assert "| Delete the database | failed |" in report
    [left] = [database.name for database in fabric.service.databases.values()]
    assert f"delete the database {left} in the portal" in capsys.readouterr().out


@pytest.mark.thorough
def test_a_database_that_is_wanted_stays_and_is_named(
    start: Run, fabric: Fabric, onelake: OneLake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start("--yes", "--keep") == 1
    [kept] = [database.name for database in fabric.service.databases.values()]
    assert f"kept the database {kept}" in capsys.readouterr().out


NOT_LISTED = Answer(200, {"value": []})


def unconfirmed(creation_seconds: float) -> Report:
    """Return the report of a run that gets no answer to its request to create the database."""
    report = Report()
    run(Plan(WORKSPACE, f"{PREFIX}lost", creation_seconds=creation_seconds, poll_seconds=0.1), report)
    assert next(step.name for step in report.steps if step.outcome is Outcome.FAILED) == "Create the mirrored database"
    return report


def test_a_database_whose_creation_was_not_confirmed_is_deleted_once_fabric_lists_it(fabric: Fabric) -> None:
    lost = Answer(500, {}, lost=True)
    fabric.service.plan("mirroredDatabases", NOT_LISTED, lost, *[NOT_LISTED] * 3)
    assert unconfirmed(60.0).steps[-1].outcome is Outcome.OK
    assert fabric.service.databases == {}


def test_a_database_that_may_still_appear_is_named_for_the_portal(
    fabric: Fabric, capsys: pytest.CaptureFixture[str]
) -> None:
    fabric.service.plan("mirroredDatabases", NOT_LISTED, Answer(500, {}), NOT_LISTED)
    deletion = unconfirmed(0.0).steps[-1]
    assert deletion.outcome is Outcome.FAILED
    assert "it may still appear" in deletion.detail
    assert f"delete the database {PREFIX}lost in the portal" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interruption_stops_the_gateway_and_deletes_the_database(
    fabric: Fabric, onelake: OneLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    report = tmp_path / "report.md"
    command = [sys.executable, "-m", "tools.conformance", "--workspace", WORKSPACE, "--yes", "--report", str(report)]
    inherited = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests that run under nohup ignore it
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        signal.signal(signal.SIGHUP, inherited)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Start a gateway"):
                break
        process.send_signal(number)
        output = process.stdout.read()
        assert process.wait(120) == 130
    assert "interrupted after" in output
    assert "| Delete the database | ok |" in report.read_text(encoding="utf-8")
    assert fabric.service.databases == {}
