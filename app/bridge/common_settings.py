"""The sections that every bridge's file has: the gateway, the health port and the log."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from app.bridge.settings_file import Entry, choice_of, fields_of, seconds_of, whole_number
from app.client.http import GatewayClient
from app.errors import Code

DEFAULT_HEALTH_PORT: Final = 9480
MAX_REQUESTS_AT_A_TIME: Final = 64
_NAME: Final = re.compile(r"[!-.0-~]{1,100}")


@dataclass(frozen=True)
class GatewaySettings:
    """Which gateway a bridge posts to. `certificate` is the only one it accepts, None for those of the system."""

    url: str = "http://127.0.0.1:8480"
    key: str = ""
    certificate: Path | None = None
    requests: int = 8
    """Requests at the same time, one for each partition or prefix at most."""

    def client(self) -> GatewayClient:
        """Open an HTTP client, which all threads of the bridge share."""
        return GatewayClient(self.url, self.key, self.certificate)


@dataclass(frozen=True)
class HealthSettings:
    """Where `/healthz`, `/readyz` and `/metrics` are served; port 0 takes any free one."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_HEALTH_PORT


@dataclass(frozen=True)
class LogSettings:
    """How log lines are written. `format` is `json`, `console`, or `auto`: console in a terminal."""

    format: str = "auto"
    level: str = "info"
    repeat_seconds: float = 60.0
    """The least time between two lines about the same trouble of the same partition or table."""


def read_name(entry: Entry) -> str:
    """Return a name that becomes part of producers' names."""
    if not _NAME.fullmatch(entry.text()):
        remedy = "Use up to 100 visible ASCII characters without blanks and slashes."
        raise entry.wrong(Code.BAD_SETTING, "is not a name", remedy)
    return entry.text()


def read_gateway(entry: Entry) -> GatewaySettings:
    """Return the section `gateway`; its errors are noted."""
    fields = fields_of(entry, ("url", "key", "certificate", "requests"), ("url", "key"))
    return GatewaySettings(
        fields.take("url", _url, GatewaySettings.url),
        fields.take("key", _key, ""),
        fields.take("certificate", _file, None),
        fields.take("requests", whole_number(1, MAX_REQUESTS_AT_A_TIME), 8),
    )


def read_health(entry: Entry) -> HealthSettings:
    """Return the section `health`; its errors are noted."""
    fields = fields_of(entry, ("host", "port"))
    return HealthSettings(
        fields.take("host", Entry.text, "127.0.0.1"), fields.take("port", whole_number(0, 65535), DEFAULT_HEALTH_PORT)
    )


def read_log(entry: Entry) -> LogSettings:
    """Return the section `log`; its errors are noted."""
    fields = fields_of(entry, ("format", "level", "repeat"))
    return LogSettings(
        fields.take("format", choice_of("auto", "json", "console"), "auto"),
        fields.take("level", choice_of("debug", "info", "warning", "error"), "info"),
        fields.take("repeat", seconds_of(0, 86400), 60.0),
    )


def _url(entry: Entry) -> str:
    url = entry.text().rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise entry.wrong(Code.BAD_SETTING, "is not an address", "Write https://host, or http://127.0.0.1:8480.")
    if parts.username or parts.query or parts.fragment:
        raise entry.wrong(
            Code.BAD_SETTING, "has more than scheme, host, port and path", "Give the API key as `key`, not in the URL."
        )
    return url


def _key(entry: Entry) -> str:
    key = entry.text().strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise entry.wrong(Code.BAD_SETTING, "is not an API key", "Write `key: ${MIRRORGATE_API_KEY}` and set it.")
    return key


def _file(entry: Entry) -> Path:
    path = Path(entry.text())
    if not path.is_file():
        raise entry.wrong(Code.BAD_SETTING, f"there is no file {path}", "Give the path of a PEM file.")
    return path
