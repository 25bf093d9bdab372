"""Waking the drain after a commit."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from structlog.testing import capture_logs

from app.staging.connection import notifications
from app.staging.connection.notifications import NotificationListener, NotificationSender
from tests.support.postgres.swallowing_proxy import swallowing_proxy
from tests.support.waiting import wait_until


@pytest.fixture
def staged(database_url: str) -> Iterator[Event]:
    """Give what a running sender watches."""
    event = Event()
    sender = NotificationSender(database_url, event)
    sender.start()
    yield event
    sender.close()


def wait_for_wake(listener: NotificationListener, staged: Event) -> None:
    """Stage until the listener, which would wait a minute, wakes."""
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(listener.wait, 60)

        def wake() -> bool:
            staged.set()
            return waiting.done()

        wait_until(wake, within=30, what="the listener woke")


def test_a_listener_wakes_long_before_its_time_when_something_is_staged(database_url: str, staged: Event) -> None:
    listener = NotificationListener(database_url)
    listener.wait(60)
    started = time.monotonic()
    wait_for_wake(listener, staged)
    listener.close()
    assert time.monotonic() - started < 30


def test_a_listener_without_a_database_waits_and_goes_on_and_says_so_once_a_minute() -> None:
    listener = NotificationListener("postgresql://unused@127.0.0.1:1/none")
    with capture_logs() as logs:
        for _ in range(3):
            listener.wait(0.01)
    listener.close()
    assert [line["event"] for line in logs] == ["notification_listen_failed"]


def test_a_sender_without_a_database_stops_when_it_is_told_to() -> None:
    sender = NotificationSender("postgresql://unused@127.0.0.1:1/none", Event())
    sender.start()
    sender.close()


def test_a_listener_whose_connection_fell_silent_listens_again(
    database_url: str, staged: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "PING_AFTER", -1.0)
    monkeypatch.setattr(notifications, "_SILENCE_SECONDS", 0.2)
    with swallowing_proxy(database_url) as proxy:
        listener = NotificationListener(proxy.url)
        listener.wait(0.01)
        proxy.swallow()
        listener.wait(0.01)  # finds that nothing answers
        listener.wait(0.01)  # listens again
        wait_for_wake(listener, staged)
        listener.close()
