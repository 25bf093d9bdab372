"""Structured log lines of a bridge on standard error: JSON, or one readable line in a terminal.

A bridge that waits for an hour must not write a line for each try: a line about the same trouble of the same place is
written once in `repeat` seconds, with the number of lines left out. Invariant: no line has a value of a record.
"""

import sys
import threading
import time
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from app.observability.repeated_lines import RepeatedLines
from mirrorgate.cli.console import encoded
from mirrorgate_bridge.settings_file import LogSettings

_LEVELS: Final = ("debug", "info", "warning", "error")


class BridgeLog:
    """Log of a bridge, which threads share. An event is a short snake_case name; its fields are keyword arguments."""

    def __init__(
        self, settings: LogSettings, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._least = _LEVELS.index(settings.level)
        self._lines = RepeatedLines(settings.repeat, clock)
        self._is_json = settings.format == "json" or (settings.format == "auto" and not self._stream.isatty())
        self._lock = threading.Lock()

    def info(self, event: str, **fields: Any) -> None:
        """Write a line about the normal course."""
        self._write("info", event, fields)

    def warning(self, event: str, *, about: Hashable = None, **fields: Any) -> None:
        """Write a line about trouble that passes. `about` names the place; repeats of it are limited."""
        self._write_limited("warning", event, about, fields)

    def error(self, event: str, *, about: Hashable = None, **fields: Any) -> None:
        """Write a line about trouble that needs a person."""
        self._write_limited("error", event, about, fields)

    def _write_limited(self, level: str, event: str, about: Hashable, fields: dict[str, Any]) -> None:
        left_out = self._lines.admit((event, about, fields.get("code")))
        if left_out is not None:
            self._write(level, event, {**fields, "repeated": left_out} if left_out else fields)

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        if _LEVELS.index(level) < self._least:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        given = {name: value for name, value in fields.items() if value is not None}
        if self._is_json:
            line = encoded({"timestamp": now, "level": level, "event": event, **given})
        else:
            line = " ".join([now[11:19], f"{level:<7}", event, *(f"{name}={value}" for name, value in given.items())])
        with self._lock:
            try:
                self._stream.write(line + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                return  # a full disk or a closed reader must not stop the bridge
