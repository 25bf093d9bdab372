"""What Spark's JVM and its Python workers print, as log lines of the drain.

Spark writes log4j lines, Java and Python write stack traces, and the launcher writes plain text. The JVM prints into a
pipe; each record, with the lines that continue it, becomes one event `spark_log`.
"""

import os
import re
import select
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

import structlog

log = structlog.get_logger()

_MAX_READ_BYTES: Final = 2**16
_COMPLETE_SECONDS: Final = 0.3
"""After so long without output, a record counts as complete."""
_MAX_TEXT_CHARACTERS: Final = 8_000
_MAX_LINES: Final = 400

_HEAD: Final = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ([^\s:]+): (.*)")
_FOLLOWS: Final = re.compile(
    r"\s|$|Caused by: |Traceback \(most recent|During handling of |The above exception "
    r"|[A-Za-z_][\w.$]*(Error|Exception)\b"
)
_LEVELS: Final = {"WARN": "warning", "ERROR": "error", "FATAL": "critical"}
_HARMLESS: Final = re.compile(r"daemon failed to flush.*BrokenPipeError", re.DOTALL)
"""A Python worker whose job was over before it answered; nothing is lost."""


@dataclass(frozen=True, slots=True)
class Record:
    """One message of the JVM, with log4j's level and logger if it has them."""

    level: str
    logger: str | None
    text: str


def records(lines: Sequence[str]) -> Iterator[Record]:
    """Group lines into records: a stack trace belongs to the line before it."""
    group: list[str] = []
    for line in lines:
        if group and (_HEAD.match(line) or not _FOLLOWS.match(line)):
            yield _record(group)
            group = []
        if group or line.strip():
            group.append(line)
    if group:
        yield _record(group)


def _record(lines: Sequence[str]) -> Record:
    head = _HEAD.match(lines[0])
    if head is None:
        text = "\n".join(lines).strip()
        return Record(_level_of_plain(text), None, text[:_MAX_TEXT_CHARACTERS])
    level, logger, message = head.groups()
    text = "\n".join([message, *lines[1:]]).strip()
    return Record(_LEVELS.get(level, "info"), logger, text[:_MAX_TEXT_CHARACTERS])


def _level_of_plain(text: str) -> str:
    if _HARMLESS.search(text):
        return "debug"
    return "warning" if "Traceback (most recent" in text or "Exception" in text else "info"


class JvmOutput:
    """A pipe to start the JVM with, read until the JVM and all that it started have closed it."""

    def __init__(self) -> None:
        self._reader, self.descriptor = os.pipe()
        self._thread = threading.Thread(target=self._follow, name="jvm-output", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close this process's end: the JVM has its own by now, or was not started."""
        os.close(self.descriptor)

    def _follow(self) -> None:
        unfinished, lines = b"", list[str]()
        while True:
            ready, _, _ = select.select([self._reader], [], [], _COMPLETE_SECONDS if lines else None)
            data = os.read(self._reader, _MAX_READ_BYTES) if ready else b""
            *complete, unfinished = (unfinished + data).split(b"\n")
            lines += [line.decode(errors="replace") for line in complete]
            if not data or len(lines) > _MAX_LINES:
                _log(lines)
                lines = []
            if ready and not data:
                _log([unfinished.decode(errors="replace")])
                os.close(self._reader)
                return


def _log(lines: Sequence[str]) -> None:
    for record in records(lines):
        with suppress(Exception):  # this thread must live: the JVM blocks when the pipe is full
            named = {"logger": record.logger} if record.logger else {}
            getattr(log, record.level)("spark_log", **named, text=record.text)
