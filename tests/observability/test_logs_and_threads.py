"""Background threads and logs: repeated lines are counted, failures told once, crashes in C told with their place."""

import logging
import signal
import sys
from threading import Event

import structlog

from app.observability.periodic_thread import PeriodicThread
from app.observability.repeated_lines import RepeatedLines
from app.observability.telemetry import limited
from tests.support.processes import finished
from tests.support.waiting import Clock


def test_work_is_repeated_until_the_block_ends_and_then_finished() -> None:
    done: list[str] = []
    thrice = Event()

    def work() -> None:
        done.append("work")
        if len(done) == 3:
            thrice.set()

    with PeriodicThread("t", 0.0, work, at_end=lambda: done.append("end")):
        assert thrice.wait(30)
    assert done[-1] == "end"
    assert done.count("end") == 1


def test_a_failure_is_told_once_until_work_succeeds_again() -> None:
    results = iter([OSError("1"), OSError("2"), None, OSError("3"), False])
    told: list[str] = []
    ended = Event()

    def work() -> bool | None:
        found = next(results)
        if isinstance(found, OSError):
            raise found
        return found

    PeriodicThread("t", 0.0, work, on_failure=lambda error: told.append(str(error)), at_end=ended.set).start()
    assert ended.wait(30)
    assert told == ["1", "3"]


def test_a_thread_that_waits_first_does_nothing_if_it_is_ended_before() -> None:
    done: list[str] = []
    with PeriodicThread("t", 3_600.0, lambda: done.append("work"), waits_first=True):
        pass
    assert done == []


def written(lines: RepeatedLines, **event: object) -> structlog.types.EventDict | None:
    try:
        found = limited(lines)(None, "", {"level": "warning", **event})
    except structlog.DropEvent:
        return None
    assert isinstance(found, dict)
    return found


def test_no_line_repeats_faster_than_once_a_second_without_a_count() -> None:
    clock = Clock()
    lines = RepeatedLines(clock=clock)
    shown = []
    for step in range(1_000):
        clock.now = 100 + step / 100
        shown.append(written(lines, event="drain_waiting", code="database_unavailable", detail=str(step)))
    assert len([line for line in shown if line]) == 10
    assert [line.get("repeated") for line in shown if line] == [None, *[99] * 9]


def test_lines_of_other_tables_codes_children_and_levels_and_of_requests_are_not_left_out() -> None:
    lines = RepeatedLines(clock=Clock())
    assert all(written(lines, event="table_publication_failed", table=f"t{number}") for number in range(100))
    assert all(written(lines, event="table_publication_failed", table="t", code=f"c{number}") for number in range(100))
    assert all(written(lines, event="child_ended", child=f"p{number}") for number in range(100))
    assert all(written(lines, event="request", level="info") for _ in range(100))
    assert all(written(lines, event="request_crashed", request_id=str(number)) for number in range(100))


def test_spark_lines_that_differ_in_numbers_alone_are_the_same_line() -> None:
    lines = RepeatedLines(clock=Clock())
    shown = [written(lines, event="spark_log", text=f"task {number} rejected (TID {number})") for number in range(50)]
    assert [line is None for line in shown] == [False, *[True] * 49]
    assert written(lines, event="spark_log", text="something else")


def test_lines_of_other_libraries_are_counted_too() -> None:
    clock = Clock()
    lines = RepeatedLines(clock=clock)
    records = [logging.LogRecord("asyncio", logging.ERROR, "f", 1, "accept failed", (), None) for _ in range(5)]
    assert [lines.filter(record) for record in records] == [True, False, False, False, False]
    clock.now += 1
    again = logging.LogRecord("asyncio", logging.ERROR, "f", 1, "accept failed", (), None)
    assert lines.filter(again)
    assert again.getMessage() == "accept failed (repeated: 4)"


def test_the_kinds_that_are_remembered_are_bounded() -> None:
    lines = RepeatedLines(clock=Clock())
    for number in range(15_000):
        written(lines, event="e", table=str(number))
    assert len(lines._written) <= 10_000


CRASHES = """
import ctypes
from app.observability.telemetry import configure_logging
from app.settings import Settings
configure_logging(Settings(database_url="postgresql://127.0.0.1/t"))
ctypes.string_at(0)
"""


def test_a_crash_in_a_library_says_where_each_thread_was() -> None:
    ran = finished(sys.executable, "-c", CRASHES)
    assert ran.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in ran.stderr
    assert "in string_at" in ran.stderr
