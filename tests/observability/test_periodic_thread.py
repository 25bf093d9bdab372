"""The loop of background threads: it works, tells a failure once, and ends when somebody says so."""

from threading import Event

from app.observability.periodic_thread import PeriodicThread


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
