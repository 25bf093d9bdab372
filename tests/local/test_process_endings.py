"""Why a process ended, and when it is started again."""

import signal
from pathlib import Path

import pytest

from app.process_endings import EndReasons, RestartDelays


@pytest.mark.parametrize(
    ("is_accident", "delays"),
    [(False, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]), (True, [0.2, 0.2, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0])],
)
def test_early_ends_in_a_row_double_the_wait_up_to_a_limit_and_a_long_life_resets_it(
    is_accident: bool, delays: list[float]
) -> None:
    restarts = RestartDelays()
    for _ in range(2):
        waits = [restarts.next_delay(lived_seconds=lived, is_accident=is_accident) for lived in [40.0, *[20.0] * 9]]
        assert waits[: len(delays)] == delays


@pytest.mark.parametrize(
    ("before", "after", "exit_status", "reason"),
    [
        (None, None, 3, "exit code 3"),
        (None, None, -signal.SIGSEGV, "killed by SIGSEGV"),
        (None, None, -signal.SIGKILL, "killed by SIGKILL; out of memory?"),
        (0, 0, -signal.SIGKILL, "killed by SIGKILL"),
        (1, 1, 1, "exit code 1"),
        (1, 2, -signal.SIGKILL, "killed by SIGKILL; out of memory: the kernel killed a process of this control group"),
        (0, 1, 1, "exit code 1; out of memory: the kernel killed a process of this control group"),
        (None, None, -40, "killed by signal 40"),
    ],
)
def test_the_reason_names_the_signal_and_a_kill_for_lack_of_memory_that_the_kernel_counted(
    tmp_path: Path, before: int | None, after: int | None, exit_status: int, reason: str
) -> None:
    counter = tmp_path / "memory.events"

    def count(kills: int | None) -> None:
        if kills is not None:
            counter.write_text(f"low 0\nhigh 0\nmax 7\noom 3\noom_kill {kills}\noom_group_kill 0\n")

    count(before)
    reasons = EndReasons([tmp_path / "missing", counter])
    count(after)
    assert reasons.describe(exit_status) == reason
    assert "memory:" not in reasons.describe(0)
