"""Settings of logs, traces, alerts and the checks at the start."""

import re
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, Field, SecretStr, field_validator

from app.settings.landing_zone import HOST


class LogFormat(StrEnum):
    """Form of a log line."""

    JSON = "json"
    CONSOLE = "console"


class OperationSettings(BaseModel, use_attribute_docstrings=True):
    """Logs, metrics and start checks of a process."""

    log_level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"
    """Lowest level to log: `debug` to `error`."""
    log_format: LogFormat = LogFormat.JSON
    """Form of the log: `json` (one object per line) or `console`."""
    log_bytes: Annotated[int, Field(ge=2**16)] = 64 * 2**20
    """`mirrorgate up` rotates each of its log files before it exceeds this many bytes."""
    log_files: Annotated[int, Field(ge=0)] = 5
    """Number of rotated files to keep of each log."""
    metrics_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address on which a drain and a mirror serve their `/metrics`, if their port is set: `0.0.0.0` or `::` for a
    Prometheus on another machine, and in Kubernetes. Everyone who reaches the port can read the metrics; they name no
    table."""
    min_free_bytes: Annotated[int, Field(ge=0)] = 2**30
    """`mirrorgate up` does not start with less free space than this in its data directory or landing zone, and a
    running gateway warns below it (`resource_low`). 0: neither."""
    allow_unsafe: bool = False
    """Start even if `mirrorgate doctor` reports something unsafe. Each start then logs `unsafe_setup_allowed`."""
    traces_endpoint: str | None = None
    """Address of an OpenTelemetry collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`; needs the extra
    `otel`. The collector's headers and certificates are set with OpenTelemetry's own variables, such as
    `OTEL_EXPORTER_OTLP_HEADERS`. Unset: no traces."""
    traces_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of the requests that begin a trace, unless their `traceparent` decides."""

    @field_validator("traces_endpoint")
    @classmethod
    def _http_address(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must be an address such as http://127.0.0.1:4318")
        return value


class AlertSettings(BaseModel, use_attribute_docstrings=True):
    """Receiver of alerts, and the time that a trouble must last before it is sent."""

    alert_url: SecretStr | None = None
    """Address that gets a POST with JSON when a table is quarantined or keeps failing, dead letters wait, Fabric stops,
    no drain runs, or a backlog is nearly full, and when that is over. Its member `text` makes it fit Slack, Mattermost
    and Google Chat. Unset: no alerts."""
    alert_secret: Annotated[SecretStr | None, Field(min_length=1)] = None
    """Signs each alert: `X-Signature: sha256=<HMAC-SHA256 of the body>`. Unset: no signature."""
    alert_after_seconds: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """Seconds that a trouble must last before an alert is sent."""

    @field_validator("alert_url")
    @classmethod
    def _alert_address(cls, value: SecretStr | None) -> SecretStr | None:
        form = rf"https?://([^\s/?#@]*@)?{HOST}([/?#][^\x00-\x1f\x7f]*)?"
        if value is not None and not re.fullmatch(form, value.get_secret_value()):
            raise ValueError("must be an address that begins with https:// or http:// and a host")
        return value
