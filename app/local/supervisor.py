"""Keeps the processes of `mirrorgate up` running, and lets none outlive it.

Every child has a session of its own, so that Ctrl-C in a terminal reaches the supervisor alone, which stops
the children in order. If the supervisor dies without doing so, each child notices (`app.local.child_process`).
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Final, NoReturn, Self

import structlog

from app.local.child_process import CANNOT_START
from app.local.log_files import ChildLog

_log = structlog.get_logger()

_FIRST_DELAY: Final = 0.2
_LONGEST_DELAY: Final = 10.0
_LIVED_WELL: Final = 30.0
_TROUBLE_AFTER: Final = 3
_READY_LOOKS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Child:
    """A process to keep running. `running` is one that was started already, in its own session, the same way."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: ChildLog | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_within: float = 15.0
    running: "subprocess.Popen[bytes] | None" = None


class ChildRejected(Exception):
    """A child ended because it cannot start as it is configured, and was never of use before."""

    def __init__(self, child: Child) -> None:
        super().__init__(f"{child.name} cannot start")
        self.child = child


def run(
    children: Sequence[Child],
    *,
    is_ready: Callable[[], bool] = lambda: True,
    on_ready: Callable[[], None] = lambda: None,
    on_trouble: Callable[[Child], None] = lambda _: None,
) -> None:
    """Keep `children` running until SIGTERM, SIGINT or SIGHUP, then stop them, the last one first.

    Returns when every child has ended. `is_ready` is asked until it says yes, then `on_ready` is called, once.
    `on_trouble` is called for a child that has died three times in a row soon after its start. Call it in the
    main thread. If the process dies here, the children end by themselves.

    Raises ChildRejected, once the others have been stopped, for a child that ends with CANNOT_START and was never of
    use: it neither lived for half a minute nor saw everything ready. Starting it again would change nothing. Later the
    same exit status is a death like any other, because the others serve.
    """
    with _Signals() as signals:
        kept = [_Kept(child) for child in children]
        try:
            _keep_running(kept, signals, is_ready, on_ready, on_trouble)
        finally:
            _stop_all(kept, signals)


@contextmanager
def stop_signals_interrupt() -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does: for the work before `run`."""

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    with ExitStack() as restore:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                restore.callback(signal.signal, number, signal.signal(number, interrupt))
        yield


class _Signals:
    """Turns the signals a supervisor waits for into something to wait on."""

    _STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._restore = ExitStack()
        self._restore.callback(self._reader.close)
        self._restore.callback(self._writer.close)
        previous = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._restore.callback(signal.set_wakeup_fd, previous)
        for number in (*self._STOPPING, signal.SIGCHLD):
            # Started with nohup, SIGHUP is ignored and stays so.
            if number is signal.SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
                self._restore.callback(signal.signal, number, signal.signal(number, lambda _number, _frame: None))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore.close()

    def wait(self, seconds: float | None) -> set[int]:
        """The signals that arrived, among them those that say a child has ended; empty after `seconds`."""
        self._reader.settimeout(seconds if seconds is None else max(seconds, 0.001))
        try:
            return set(self._reader.recv(4096))
        except TimeoutError:
            return set()

    def asks_to_stop(self, received: set[int]) -> bool:
        return not received.isdisjoint(self._STOPPING)


class _Kept:
    """One child: its process, or when to start it again."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.process = child.running
        self.failures = 0
        self.was_of_use = False
        self._started_at = self._start_at = time.monotonic()

    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def tend(self) -> None:
        """Notice that the process has ended, and start it when it is time to. Raises ChildRejected."""
        if self.process is not None and self.process.poll() is not None:
            self.was_of_use |= time.monotonic() - self._started_at >= _LIVED_WELL
            if self.process.returncode == CANNOT_START and not self.was_of_use:
                raise ChildRejected(self.child)
            self._plan_restart(f"exit code {self.process.returncode}")
            self.kill_group()
        if self.process is None and time.monotonic() >= self._start_at:
            try:
                self.process = self._start()
            except OSError as error:
                self._plan_restart(str(error))

    def next_look(self) -> float | None:
        """Seconds until `tend` has something to do even if no signal arrives."""
        return None if self.process is not None else self._start_at - time.monotonic()

    def kill_group(self) -> None:
        """End at once whatever is left of the process and its group, such as a JVM it started."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _start(self) -> "subprocess.Popen[bytes]":
        self._started_at = time.monotonic()
        log = None if self.child.log is None else self.child.log.descriptor
        return subprocess.Popen(
            self.child.command,
            env=self.child.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def _plan_restart(self, reason: str) -> None:
        now = time.monotonic()
        self.failures = 1 if now - self._started_at >= _LIVED_WELL else self.failures + 1
        delay = min(_FIRST_DELAY * 2 ** (self.failures - 1), _LONGEST_DELAY)
        self._start_at = now + delay
        _log.warning("child_ended", child=self.child.name, reason=reason, restart_in_seconds=delay)


def _keep_running(
    kept: Sequence[_Kept],
    signals: _Signals,
    is_ready: Callable[[], bool],
    on_ready: Callable[[], None],
    on_trouble: Callable[[Child], None],
) -> None:
    ready = False
    while True:
        for one in kept:
            before = one.failures
            one.tend()
            if one.failures == _TROUBLE_AFTER != before:
                on_trouble(one.child)
        if not ready and is_ready():
            ready = True
            for one in kept:
                one.was_of_use = True
            on_ready()
        looks = [look for one in kept if (look := one.next_look()) is not None]
        if not ready:
            looks.append(_READY_LOOKS)
        if signals.asks_to_stop(signals.wait(min(looks, default=None))):
            return


def _stop_all(kept: Sequence[_Kept], signals: _Signals) -> None:
    """Stop every child, the last one first, each within its time; a second Ctrl-C ends the rest at once."""
    hurry = False
    for one in reversed(kept):
        if not one.has_ended() and one.process is not None and not hurry:
            one.process.send_signal(one.child.stop_signal)
            give_up = time.monotonic() + one.child.stop_within
            while not one.has_ended() and not hurry and (left := give_up - time.monotonic()) > 0:
                hurry = signal.SIGINT in signals.wait(left)
        one.kill_group()
