"""Structured logs. No log line has a row value or a secret."""

import faulthandler
import io
import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Hashable, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, BinaryIO, Final, TypeAlias, cast

import msgspec
import structlog

from app.observability.repeated_lines import RepeatedLines
from app.settings import LogFormat, Settings

_LIMITED: Final = frozenset({"warning", "error", "critical"})
_MAX_COMPARED_CHARACTERS: Final = 120
_NUMBERS: Final = re.compile(r"\d+")
_ENCODER: Final = msgspec.json.Encoder(enc_hook=repr)


def _json_bytes(_: object, __: str, event: MutableMapping[str, Any]) -> bytes:
    return _ENCODER.encode(event)


def _json_text(_: object, __: str, event: MutableMapping[str, Any]) -> str:
    return _ENCODER.encode(event).decode()


def current_request_id() -> str | None:
    """Return the id under which this request's lines are logged, None outside of a request."""
    found: str | None = structlog.contextvars.get_contextvars().get("request_id")
    return found


class UnfailingStream(io.RawIOBase):
    """Stream that writes to another one and ignores errors such as a full disk or a reader that is gone.

    A request must not fail because its log line cannot be written.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, line: Any, /) -> int:
        """Write and flush a line if that is possible; return its length in any case."""
        with suppress(OSError):
            self._stream.write(line)
            self._stream.flush()
        return len(line)


LogEvent: TypeAlias = MutableMapping[str, Any]


class _TextOver:
    """A string stream for `logging`, over a stream of bytes."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(text.encode())

    def flush(self) -> None:
        self._stream.flush()


def _showing(show: Callable[[LogEvent], None] | None) -> structlog.types.Processor:
    def pass_on(_: object, __: str, event: LogEvent) -> LogEvent:
        if show is not None and event.get("level") in {"warning", "error", "critical"}:
            show(event)
        return event

    return pass_on


def limited(lines: RepeatedLines) -> structlog.types.Processor:
    """Return a processor that drops warnings and errors of one event, table and code that repeat too fast.

    A line with a request id is never dropped, because each is about its own request.
    """

    def limit(_: object, __: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
        if event.get("level") not in _LIMITED or "request_id" in event:
            return event
        dropped = lines.admit(_kind(event))
        if dropped is None:
            raise structlog.DropEvent
        return {**event, "repeated": dropped} if dropped else event

    return limit


def _kind(event: structlog.types.EventDict) -> Hashable:
    text = _NUMBERS.sub("#", str(event.get("text", ""))[:_MAX_COMPARED_CHARACTERS])
    names = ("event", "table", "table_id", "code", "check", "logger", "child")
    return *(event.get(name) for name in names), text


class RequestLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The log line of one request. What is not known of it is left out."""

    method: str
    route: str
    status: int
    milliseconds: float
    code: str | None = None
    tables: tuple[str, ...] = ()
    key: str | None = None
    bytes: int = 0
    changes: int = 0
    client: str | None = None
    event: str
    request_id: str
    trace_id: str | None = None
    level: str
    timestamp: str


class RequestLines:
    """Writer of each request's log line, in a fifth of the time of structlog's processors (decision 0031).

    A line has the form of every other line. Without `configure_logging`, and for the console, structlog writes it.
    """

    def __init__(self) -> None:
        self.is_on = True
        """False if the level is above that of these lines; then nothing of a line should be computed."""
        self._stream: BinaryIO | None = None
        self._second = 0
        self._second_text = ""

    def configure(self, stream: BinaryIO | None, *, is_on: bool) -> None:
        """Write JSON to `stream` from now on, or through structlog if it is None."""
        self._stream, self.is_on = stream, is_on

    def write(self, **facts: Any) -> None:
        """Write one line. `facts` are the fields of RequestLine but for the last ones, which this adds."""
        now = time.time_ns() // 1_000
        if now // 1_000_000 != self._second:
            self._second = now // 1_000_000
            self._second_text = datetime.fromtimestamp(self._second, UTC).strftime("%Y-%m-%dT%H:%M:%S.")
        timestamp = f"{self._second_text}{now % 1_000_000:06}Z"
        line = RequestLine(**facts, event="request", level="info", timestamp=timestamp)
        if self._stream is not None:
            self._stream.write(_ENCODER.encode(line) + b"\n")
        else:
            given = msgspec.structs.asdict(line)
            structlog.get_logger().info(**{name: value for name, value in given.items() if value and name != "level"})


REQUEST_LINES: Final = RequestLines()
"""The lines of the process's requests. One thread of the process, the event loop, writes them."""


def log_crashes() -> None:
    """Log an uncaught exception as one line with its type and traceback, without its text, which may hold values."""

    def log_crash(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt | SystemExit):
            return
        thread = threading.current_thread().name
        structlog.get_logger().critical("crashed", error=kind.__name__, at=traceback.format_tb(trace), thread=thread)

    sys.excepthook = log_crash
    threading.excepthook = lambda crash: log_crash(crash.exc_type, crash.exc_value, crash.exc_traceback)


def configure_logging(
    settings: Settings,
    stream: io.RawIOBase | None = None,
    *,
    show: Callable[[LogEvent], None] | None = None,
    is_command: bool = False,
) -> None:
    """Write one line per event to `stream` or standard error, as JSON or for the console.

    Warnings of other libraries have the same form, and the name of their `logger`. A warning or error that repeats is
    written once a second, with the number of dropped lines in `repeated`. `show` receives each warning and error that
    is written. `is_command` leaves out what is less than a warning, unless the log level asks for more: people read a
    command's own output.

    If a library in C crashes the process, it says on standard error where each thread was.
    """
    if not (is_command or faulthandler.is_enabled()):
        faulthandler.enable()
    is_json = settings.log_format is LogFormat.JSON
    text: structlog.types.Processor = _json_text if is_json else structlog.dev.ConsoleRenderer()
    repeated = RepeatedLines()
    common: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _showing(show),
    ]
    bytes_out = cast("BinaryIO", stream or UnfailingStream(sys.stderr.buffer))
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    if is_command and level == logging.INFO:
        level = logging.WARNING
    REQUEST_LINES.configure(bytes_out if is_json else None, is_on=level <= logging.INFO)
    structlog.configure(
        processors=[*common[:2], limited(repeated), *common[2:], _json_bytes if is_json else text],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.BytesLoggerFactory(bytes_out) if is_json else structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    others = logging.StreamHandler(sys.stderr if stream is None else _TextOver(bytes_out))
    last = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, text]
    named = [structlog.stdlib.add_logger_name, *common]
    others.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=named, processors=last))
    others.addFilter(repeated.filter)
    logging.basicConfig(level=logging.WARNING, handlers=[others])
