"""The supervisor keeps its children running, stops them in order, and leaves no process behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.local import supervisor
from app.local.child_process import CANNOT_START
from app.local.supervisor import Child
from app.process_endings import EndReasons
from tests.support.processes import is_alive, read_line, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

PROGRAM = "tests.local.supervises"
SOON = 20.0
LONG = 60.0


@contextmanager
def not_ignored(number: signal.Signals) -> Iterator[None]:
    """Restore SIGHUP, which children inherit as ignored if the tests run under nohup."""
    before = signal.getsignal(number)
    if before is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


def noted(folder: Path, name: str, event: str) -> list[str]:
    """Return what `name` noted about `event`, one entry each time."""
    file = folder / f"{name}.events"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line.removeprefix(event).strip() for line in lines if line.split()[0] == event]


def started_pids(folder: Path, name: str, *, times: int = 1) -> list[int]:
    wait_until(
        lambda: len(noted(folder, name, "started")) >= times, within=SOON, what=f"{name} started {times} time(s)"
    )
    return [int(pid) for pid in noted(folder, name, "started")]


def family_pid(folder: Path, name: str) -> int:
    return int(noted(folder, name, "family")[0])


def test_a_killed_child_is_started_again_and_the_others_are_left_alone(tmp_path: Path) -> None:
    with started(PROGRAM, tmp_path, LONG, "first", "second") as process:
        assert read_line(process) == "ready"
        [first] = started_pids(tmp_path, "first")
        os.kill(first, signal.SIGKILL)
        again = started_pids(tmp_path, "first", times=2)[1]
        assert again != first
        assert is_alive(again)
        assert len(noted(tmp_path, "second", "started")) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_signal_stops_the_children_last_first_and_ends_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with not_ignored(signal.SIGHUP), started(PROGRAM, tmp_path, LONG, "first", "second", "third") as process:
        assert read_line(process) == "ready"
        process.send_signal(number)
        assert process.wait(timeout=SOON) == 0
    events = (tmp_path / "all.events").read_text().splitlines()
    assert [line for line in events if line.endswith("stopped")] == ["third stopped", "second stopped", "first stopped"]


def test_a_child_that_does_not_stop_is_killed_after_its_time_with_all_it_started(tmp_path: Path) -> None:
    with started(PROGRAM, tmp_path, 0.3, "first", "second:stubborn:family") as process:
        assert read_line(process) == "ready"
        [stubborn] = started_pids(tmp_path, "second")
        process.terminate()
        assert process.wait(timeout=SOON) == 0
        assert noted(tmp_path, "second", "asked")
        assert noted(tmp_path, "first", "stopped")
        assert not is_alive(stubborn)
        wait_until(lambda: not is_alive(family_pid(tmp_path, "second")), within=SOON, what="its family ended")


def test_a_second_interrupt_does_not_wait_for_anybody(tmp_path: Path) -> None:
    with started(PROGRAM, tmp_path, LONG, "first", "second:stubborn") as process:
        assert read_line(process) == "ready"
        started_pids(tmp_path, "second")
        process.send_signal(signal.SIGINT)
        wait_until(lambda: noted(tmp_path, "second", "asked"), within=SOON, what="the child was asked to stop")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=SOON) == 0
    assert not noted(tmp_path, "first", "asked")
    for name in ("first", "second"):
        assert not is_alive(started_pids(tmp_path, name)[0])


def test_what_a_dead_child_had_started_ends_too(tmp_path: Path) -> None:
    with started(PROGRAM, tmp_path, LONG, "only:family") as process:
        assert read_line(process) == "ready"
        [pid] = started_pids(tmp_path, "only")
        family = family_pid(tmp_path, "only")
        os.kill(pid, signal.SIGKILL)
        started_pids(tmp_path, "only", times=2)
        wait_until(lambda: not is_alive(family), within=SOON, what="the dead child's family ended")


@pytest.mark.parametrize("traits", ["", ":family", ":stubborn", ":stubborn:family"])
def test_nothing_outlives_a_killed_supervisor(tmp_path: Path, traits: str) -> None:
    with started(PROGRAM, tmp_path, LONG, f"only{traits}") as process:
        assert read_line(process) == "ready"
        pids = started_pids(tmp_path, "only") + [int(pid) for pid in noted(tmp_path, "only", "family")]
        process.kill()
        process.wait(timeout=SOON)
        wait_until(lambda: not any(map(is_alive, pids)), within=SOON, what="the children ended")
    assert noted(tmp_path, "only", "asked")


def test_a_child_whose_parent_died_before_it_looked_ends(tmp_path: Path) -> None:
    nobody = 2**22
    with started("tests.local.lasting_child", tmp_path, "late", nobody) as process:
        process.wait(timeout=SOON)
    assert noted(tmp_path, "late", "asked")


def test_a_child_that_keeps_dying_is_reported_once_and_stops_nothing_else(tmp_path: Path) -> None:
    with started(PROGRAM, tmp_path, LONG, "sick:dying", "well") as process:
        assert read_line(process) == "trouble sick"
        [well] = started_pids(tmp_path, "well")
        assert is_alive(well)
        process.terminate()
        assert process.wait(timeout=SOON) == 0
        assert process.stdout is not None
        assert process.stdout.read() == ""


def test_a_child_that_cannot_start_ends_everything_and_is_not_started_again(tmp_path: Path) -> None:
    with started(PROGRAM, tmp_path, LONG, "well", "wrong:rejecting") as process:
        assert read_line(process) == "rejected wrong"
        assert process.wait(timeout=SOON) == 0
    assert all(not is_alive(int(pid)) for pid in noted(tmp_path, "well", "started"))


def test_a_child_that_has_served_is_started_again_whatever_it_ends_with() -> None:
    child = Child("one", [sys.executable, "-c", f"raise SystemExit({CANNOT_START})"], {})
    kept = supervisor._SupervisedChild(child, EndReasons([]))
    for has_served in (True, False):
        kept.process = kept._start()
        kept.process.wait()
        kept.has_served = has_served
        if has_served:
            kept.check()
            assert kept.seconds_to_start() is not None
        else:
            with pytest.raises(supervisor.ChildCannotStart):
                kept.check()


@pytest.mark.parametrize(
    ("ending", "reason", "waits"),
    [
        ("raise SystemExit(5)", "exit code 5", [0.2, 0.4, 0.8, 1.6]),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "killed by SIGTERM", [0.2, 0.2, 0.2, 0.4]),
    ],
)
def test_a_child_that_is_killed_is_started_at_once_and_one_that_fails_less_and_less_often(
    ending: str, reason: str, waits: list[float]
) -> None:
    kept = supervisor._SupervisedChild(Child("one", [sys.executable, "-c", ending], {}), EndReasons([]))
    with capture_logs() as logs:
        for _ in waits:
            kept.process = kept._start()
            kept.process.wait()
            kept.check()
    assert [(line["event"], line["child"], line["reason"]) for line in logs] == [("child_ended", "one", reason)] * 4
    assert [line["restart_in_seconds"] for line in logs] == waits


def test_a_process_that_runs_already_is_kept_and_not_started_twice() -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as running:
        child = Child("one", ["sleep", "600"], {"PATH": os.defpath}, running=running)

        def stop() -> None:
            os.kill(os.getpid(), signal.SIGTERM)

        supervisor.run([child], on_ready=stop)
        assert running.returncode == -signal.SIGTERM


def test_the_signal_handlers_of_before_are_back_afterwards() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)]
    supervisor.run([], on_ready=lambda: os.kill(os.getpid(), signal.SIGTERM))
    after = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)]
    assert after == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_before_there_is_anything_to_supervise_a_stop_signal_is_an_interrupt(number: signal.Signals) -> None:
    with not_ignored(number):
        before = signal.getsignal(number)
        with pytest.raises(KeyboardInterrupt), supervisor.stop_signals_interrupt():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) == before


def test_under_nohup_a_hangup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with supervisor.stop_signals_interrupt():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
