"""Keep the child processes of `mirrorgate up` running, and stop them with it.

Each child has its own session, so that Ctrl-C in a terminal reaches only the supervisor, which stops the children in
order. If the supervisor dies without doing so, each child ends by itself (`app.local.child_process`).
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Final, NoReturn, Self

import structlog

from app.local.child_process import CANNOT_START
from app.local.log_files import ChildLog
from app.process_endings import STABLE_SECONDS, EndReasons, RestartDelays

_log = structlog.get_logger()

_TROUBLE_AFTER: Final = 3
_READY_POLL_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Child:
    """A process to keep running. `running` is the same command already started, in its own session."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: ChildLog | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_within: float = 15.0
    running: "subprocess.Popen[bytes] | None" = None
    umask: int = -1
    """Permissions that the child's new files lack; -1: those that this process lacks."""
    serves_no_longer: Callable[[int], bool] = lambda _pid: False
    """Asked about once a second: True if the process runs without serving, and must get `stop_signal` to restart."""


class ChildCannotStart(Exception):
    """A child ended because it cannot start as it is configured, and never served before."""

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

    Returns when every child has ended. `is_ready` is called until it returns True, then `on_ready` once. `on_trouble`
    is called for a child that has ended three times in a row soon after its start. Call this in the main thread. If
    this process dies, the children end by themselves.

    Raises ChildCannotStart, after stopping the other children, for a child that exits with CANNOT_START before it has
    served, that is: before it ran for half a minute or everything was ready. A restart would not help. Later, the same
    exit status causes a restart like any other, because the other children serve.
    """
    with _Signals() as signals:
        end_reasons = EndReasons()
        supervised = [_SupervisedChild(child, end_reasons) for child in children]
        try:
            _keep_running(supervised, signals, is_ready, on_ready, on_trouble)
        finally:
            _stop_all(supervised, signals)


@contextmanager
def stop_signals_interrupt() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does, during the work before `run`."""

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    with ExitStack() as restore:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                restore.callback(signal.signal, number, signal.signal(number, interrupt))
        yield


class _Signals:
    """Signals that the supervisor waits for: a wake-up socket to which the kernel's handler writes."""

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
            # nohup starts a program with SIGHUP ignored; it remains ignored.
            if number is signal.SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
                self._restore.callback(signal.signal, number, signal.signal(number, lambda _number, _frame: None))
        return self

    def __exit__(self, *_: object) -> None:
        self._restore.close()

    def wait(self, seconds: float | None) -> set[int]:
        """Return the signals that arrived, including SIGCHLD; an empty set after `seconds`."""
        self._reader.settimeout(seconds if seconds is None else max(seconds, 0.001))
        try:
            return set(self._reader.recv(4096))
        except TimeoutError:
            return set()

    def asks_to_stop(self, received: set[int]) -> bool:
        """Return True if one of the signals means to stop."""
        return not received.isdisjoint(self._STOPPING)


class _SupervisedChild:
    """One child: its process, or the time to start it again."""

    def __init__(self, child: Child, end_reasons: EndReasons) -> None:
        self.child = child
        self.process = child.running
        self.has_served = False
        """True if a process of this child served, at any time."""
        self.serves = False
        """True if the present process has served."""
        self.delays = RestartDelays()
        self._end_reasons = end_reasons
        self._started_at = self._start_at = time.monotonic()

    def has_ended(self) -> bool:
        """Return True if no process is running."""
        return self.process is None or self.process.poll() is not None

    def check(self) -> None:
        """Plan a restart if the process has ended, and start it when it is due. Raises ChildCannotStart."""
        if self.process is not None and self.process.poll() is not None:
            exit_status = self.process.returncode
            self.has_served |= time.monotonic() - self._started_at >= STABLE_SECONDS
            if exit_status == CANNOT_START and not self.has_served:
                raise ChildCannotStart(self.child)
            reason = self._end_reasons.describe(exit_status)
            self._plan_restart(reason, is_accident=exit_status < 0 or self.serves)
            self.kill_group()
        elif self.process is not None and self.child.serves_no_longer(self.process.pid):
            self.process.send_signal(self.child.stop_signal)
        if self.process is None and time.monotonic() >= self._start_at:
            try:
                self.process = self._start()
            except OSError as error:
                self._plan_restart(str(error), is_accident=False)

    def seconds_to_start(self) -> float | None:
        """Return the seconds until `check` must start the process; None while it runs."""
        return None if self.process is not None else self._start_at - time.monotonic()

    def kill_group(self) -> None:
        """Kill what is left of the process and its group, such as a JVM that it started."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _start(self) -> "subprocess.Popen[bytes]":
        self._started_at = time.monotonic()
        self.serves = False
        log = None if self.child.log is None else self.child.log.descriptor
        return subprocess.Popen(
            self.child.command,
            env=self.child.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            umask=self.child.umask,
        )

    def _plan_restart(self, reason: str, *, is_accident: bool) -> None:
        now = time.monotonic()
        delay = self.delays.next_delay(lived_seconds=now - self._started_at, is_accident=is_accident)
        self._start_at = now + delay
        _log.warning("child_ended", child=self.child.name, reason=reason, restart_in_seconds=delay)


def _keep_running(
    supervised: Sequence[_SupervisedChild],
    signals: _Signals,
    is_ready: Callable[[], bool],
    on_ready: Callable[[], None],
    on_trouble: Callable[[Child], None],
) -> None:
    ready = False
    while True:
        for one in supervised:
            before = one.delays.failures
            one.check()
            if one.delays.failures == _TROUBLE_AFTER != before:
                on_trouble(one.child)
        if not ready and is_ready():
            ready = True
            for one in supervised:
                one.has_served = one.serves = True
            on_ready()
        waits = [wait for one in supervised if (wait := one.seconds_to_start()) is not None]
        if signals.asks_to_stop(signals.wait(min([*waits, _POLL_SECONDS if ready else _READY_POLL_SECONDS]))):
            return


def _stop_all(supervised: Sequence[_SupervisedChild], signals: _Signals) -> None:
    """Stop every child, the last one first, each within its time limit; a second Ctrl-C kills the rest."""
    hurry = False
    for one in reversed(supervised):
        if not one.has_ended() and one.process is not None and not hurry:
            one.process.send_signal(one.child.stop_signal)
            give_up = time.monotonic() + one.child.stop_within
            while not one.has_ended() and not hurry and (left := give_up - time.monotonic()) > 0:
                hurry = signal.SIGINT in signals.wait(left)
        one.kill_group()
