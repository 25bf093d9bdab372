"""The only reader of the environment: every setting is one `MIRRORGATE_*` variable."""

import difflib
import json
import re
from collections.abc import Mapping
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.domain.access.api_key import ApiKey
from app.errors import Code, Misconfigured, RejectedInput

PREFIX: Final = "MIRRORGATE_"
_FOREIGN: Final = frozenset({"MIRRORGATE_URL", "MIRRORGATE_API_KEY"})
"""Read by the command line's client commands (app/cli/main.py), not by the gateway."""

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Hosts that only this machine reaches."""


_SPARK_MASTER: Final = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|(spark|k8s)://.+|yarn")


class GrantedRights(BaseModel):
    """What a role or scope of a token grants: rights, and the patterns of the tables that they hold for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rights: Annotated[list[Literal["ingest", "read", "register", "admin"]], Field(min_length=1)]
    tables: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class RowMarkerPosition(StrEnum):
    """Where `__rowMarker__` stands in a landing file; see shared landing-zone contract."""

    LAST = "last"
    FIRST = "first"


class Compression(StrEnum):
    """Parquet codecs that open mirroring reads."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    NONE = "none"


class LogFormat(StrEnum):
    JSON = "json"
    CONSOLE = "console"


class Settings(BaseSettings):
    """Settings of the gateway, read once at start. Unset ones have the defaults shown."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True, allow_inf_nan=False)

    database_url: Annotated[
        SecretStr | None, Field(description="Postgres 15 or newer, `postgresql://user:password@host/database`.")
    ] = None
    database_seconds: Annotated[
        float,
        Field(
            ge=1,
            description="Longest wait for an answer of Postgres: a connection that is silent for so long is closed and "
            "replaced, and requests that needed it are answered 503. A group of change requests has half of it.",
        ),
    ] = 10.0
    landing_zone: Annotated[
        str | None,
        Field(
            description="Folder that the drain publishes into, created when missing, or an address in OneLake or ADLS "
            "Gen2: `abfss://<workspace>@onelake.dfs.fabric.microsoft.com/<item>/Files/LandingZone`."
        ),
    ] = None
    storage_endpoint: Annotated[
        str | None,
        Field(
            pattern="^https://[^/@?#]+$",
            description="`https://host:port` that OneLake or ADLS Gen2 is reached at, where not at the address's host.",
        ),
    ] = None
    storage_api_version: Annotated[
        str | None,
        Field(description="`x-ms-version` sent to OneLake or ADLS Gen2; unset: the newest that the Azure SDK knows."),
    ] = None
    admin_key: Annotated[
        SecretStr | None,
        Field(description="A key `mg_<id>_<secret>` with every right on every table, beside the stored ones."),
    ] = None
    host: Annotated[str, Field(description="Address the API listens on.")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="Port the API listens on.")] = 8480
    tls_certificate_file: Annotated[
        Path | None,
        Field(description="PEM file of the API's certificate and those above it; with it, the API serves HTTPS."),
    ] = None
    tls_key_file: Annotated[Path | None, Field(description="PEM file of the certificate's private key.")] = None
    behind_tls_proxy: Annotated[
        bool,
        Field(
            description="The API is reached only through a proxy that ends TLS, so it may listen beyond this machine "
            "without a certificate."
        ),
    ] = False
    forwarded_allow_ips: Annotated[
        str,
        Field(
            min_length=1,
            description="With `MIRRORGATE_BEHIND_TLS_PROXY`: addresses or networks, separated by commas, of proxies "
            "whose `X-Forwarded-*` headers are believed.",
        ),
    ] = "127.0.0.1"
    oidc_issuer: Annotated[
        str | None,
        Field(description="Issuer of OpenID Connect access tokens that are accepted beside keys, as `iss` names it."),
    ] = None
    oidc_audience: Annotated[str | None, Field(min_length=1, description="`aud` that a token must have.")] = None
    oidc_rights: Annotated[
        dict[str, GrantedRights],
        NoDecode,
        Field(
            description="What roles and scopes of tokens grant, as JSON: "
            '`{"<role or scope>": {"rights": ["ingest"], "tables": ["sales.*"]}}`.'
        ),
    ] = {}
    api_processes: Annotated[int, Field(ge=1, le=64, description="API processes that share the port.")] = 1
    shutdown_seconds: Annotated[
        int,
        Field(
            ge=1,
            description="After SIGTERM: how long an API process waits for requests in flight before it answers them "
            "with `commit_unknown` and ends.",
        ),
    ] = 10
    max_body_bytes: Annotated[
        int, Field(ge=1024, description="Largest request body, compressed and decompressed, in bytes.")
    ] = 64 * 2**20
    max_expansion: Annotated[
        int,
        Field(
            ge=2, description="Largest decompressed body beyond 1 MiB, as a multiple of what was sent: 200 for 200 : 1."
        ),
    ] = 200
    max_request_messages: Annotated[int, Field(ge=1, description="Most messages, or CSV records, in one request.")] = (
        500_000
    )
    max_value_bytes: Annotated[
        int, Field(ge=1, description="Longest text, or JSON, that a message may have as a value, in bytes of UTF-8.")
    ] = 16 * 2**20
    body_seconds: Annotated[
        float, Field(gt=0, description="Longest time that a request's body may take to arrive.")
    ] = 300.0
    body_grace_seconds: Annotated[
        float, Field(gt=0, description="How long a body may take to arrive whatever its rate.")
    ] = 10.0
    min_body_rate: Annotated[
        int,
        Field(ge=1, description="Bytes per second that a body must arrive with after `MIRRORGATE_BODY_GRACE_SECONDS`."),
    ] = 1024
    max_concurrent_requests: Annotated[
        int, Field(ge=1, description="Change requests that an API process works on at the same time.")
    ] = 1_000
    max_bytes_in_memory: Annotated[
        int | None,
        Field(
            ge=1024,
            description="Bytes of bodies, as sent and decompressed, that an API process holds at the same time; unset: "
            "four times `MIRRORGATE_MAX_BODY_BYTES`, at least 64 MiB.",
        ),
    ] = None
    max_key_share: Annotated[
        float,
        Field(
            gt=0,
            le=1,
            description="Share of `MIRRORGATE_MAX_CONCURRENT_REQUESTS` and `MIRRORGATE_MAX_BYTES_IN_MEMORY` that the "
            "requests of one key may use together; never less than one request with the largest body.",
        ),
    ] = 0.5
    key_requests_per_second: Annotated[
        float | None,
        Field(
            ge=0.001,
            description="Requests a second that an API process takes of one key that has no limit of its own; unset: "
            "any number.",
        ),
    ] = None
    key_bytes_per_second: Annotated[
        int | None,
        Field(
            gt=0,
            description="Bytes of request bodies a second, as sent, that an API process takes of one key that has no "
            "limit of its own; unset: any number.",
        ),
    ] = None
    max_large_bodies_bytes: Annotated[
        int,
        Field(
            ge=1,
            description="Bytes of bodies beyond 1 MiB that an API process reads and works on at the same time, or one "
            "such body; the others wait unread.",
        ),
    ] = 32 * 2**20
    max_backlog_bytes: Annotated[
        int, Field(ge=1, description="Payload bytes of a table that may be accepted and not yet published.")
    ] = 16 * 2**30
    max_backlog_rows: Annotated[
        int | None, Field(ge=1, description="Rows of a table that may be accepted and not yet published; unset: any.")
    ] = None
    max_backlog_seconds: Annotated[
        float | None,
        Field(gt=0, description="How old the oldest unpublished batch of a table may become; unset: any age."),
    ] = None
    max_total_backlog_bytes: Annotated[
        int, Field(ge=1, description="Payload bytes of all tables that may be accepted and not yet published.")
    ] = 128 * 2**30
    max_total_backlog_rows: Annotated[
        int | None,
        Field(ge=1, description="Rows of all tables that may be accepted but not published; unset: any."),
    ] = None
    lease_seconds: Annotated[
        float, Field(gt=0, description="A drain that has not renewed its lease for this long loses its tables.")
    ] = 15.0
    target_file_bytes: Annotated[
        int, Field(ge=1, description="Roll a landing file at this many staged payload bytes.")
    ] = 128 * 2**20
    target_file_rows: Annotated[int, Field(ge=1, description="Roll a landing file at this many rows.")] = 1_000_000
    max_delay_seconds: Annotated[
        float | None,
        Field(
            ge=0,
            description="Publish a pending batch after this long even if the file stays small; unset: 1 for a folder, "
            "30 for OneLake and ADLS Gen2.",
        ),
    ] = None
    row_marker_position: Annotated[
        RowMarkerPosition, Field(description="Position of `__rowMarker__` in landing files: `last` or `first`.")
    ] = RowMarkerPosition.LAST
    compression: Annotated[Compression, Field(description="Parquet codec: `zstd`, `snappy`, `gzip` or `none`.")] = (
        Compression.ZSTD
    )
    monitoring_seconds: Annotated[
        float,
        Field(
            ge=0,
            description="Read how far Fabric has processed the tables (`Monitoring/tables.json` beside the landing "
            "zone) at most once in so many seconds, whatever the number of drains; 0: never.",
        ),
    ] = 60.0
    drop_wait_seconds: Annotated[
        float,
        Field(
            ge=0,
            description="After a dropped table's folder is deleted, wait so long at the most until Fabric no longer "
            "lists the table, where it can be read.",
        ),
    ] = 600.0
    spark_master: Annotated[
        str | None,
        Field(
            description="Spark master of the drain; unset: what spark-submit says, else `local[*]`.",
        ),
    ] = None
    drain_bins: Annotated[
        int | None,
        Field(ge=1, description="Spark jobs that build files at the same time; unset: Spark's default parallelism."),
    ] = None
    spark_job_min_bytes: Annotated[
        int,
        Field(
            ge=0,
            description="A few files of fewer staged payload bytes together are built by the drain itself, sooner than "
            "a Spark job starts; 0: all files are built by Spark.",
        ),
    ] = 256 * 2**10
    drain_metrics_port: Annotated[
        int | None,
        Field(
            ge=0,
            le=65535,
            description="Port of 127.0.0.1 on which a drain serves its own `/metrics`; 0: any free one, which it logs; "
            "unset: it serves none.",
        ),
    ] = None
    spark_stuck_seconds: Annotated[
        float,
        Field(
            ge=0,
            description="The drain ends, and is to be started again, when Spark has made no progress for this long "
            "although a job runs; 0: never, for a cluster that may have no executor for long.",
        ),
    ] = 300.0
    retention_days: Annotated[
        float,
        Field(gt=0, description="Payloads of published files, and the ledger's lines, are kept this many days."),
    ] = 7.0
    retention_bytes: Annotated[
        int,
        Field(
            ge=2**20,
            description="Payloads are dropped earlier, oldest first, once they take more bytes than this in Postgres.",
        ),
    ] = 64 * 2**30
    audit_days: Annotated[
        float,
        Field(gt=0, description="Audit events (acts on keys, registrations, rejections) are kept this many days."),
    ] = 90.0
    partner_name: Annotated[str, Field(min_length=1, description="`partnerName` in `_partnerEvents.json`.")] = (
        "Mirrorgate"
    )
    source_type: Annotated[
        str, Field(min_length=1, description="`sourceInfo.sourceType` in `_partnerEvents.json`.")
    ] = "Mirrorgate"
    min_free_bytes: Annotated[
        int,
        Field(
            ge=0,
            description="`mirrorgate up` refuses to start with less free space than this in its data directory or "
            "landing zone, and a running gateway warns below it (`resource_low`); 0: neither.",
        ),
    ] = 2**30
    allow_unsafe: Annotated[
        bool,
        Field(
            description="Run although `mirrorgate doctor` finds something unsafe, saying so in the log at every start."
        ),
    ] = False
    log_format: Annotated[LogFormat, Field(description="`json` (one object a line) or `console`.")] = LogFormat.JSON
    log_bytes: Annotated[
        int,
        Field(
            ge=2**16,
            description="`mirrorgate up` rolls each of its log files before it exceeds this many bytes.",
        ),
    ] = 64 * 2**20
    log_files: Annotated[int, Field(ge=0, description="Older files that are kept of each log.")] = 5
    log_level: Annotated[
        str, Field(pattern="^(debug|info|warning|error)$", description="Lowest level that is logged.")
    ] = "info"

    @field_validator("database_url")
    @classmethod
    def _postgres_only(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("must start with postgresql://")
        return value

    @field_validator("admin_key")
    @classmethod
    def _a_key(cls, value: SecretStr | None) -> SecretStr | None:
        try:
            if value is not None:
                ApiKey.parse(value.get_secret_value())
        except RejectedInput:
            raise ValueError(
                "must be mg_<id>_<secret>: 8 to 32 hexadecimal digits, then 20 to 128 letters, digits, - and _; "
                "`mirrorgate keys generate` prints a new one"
            ) from None
        return value

    @field_validator("spark_master")
    @classmethod
    def _a_master(cls, value: str | None) -> str | None:
        if value and not _SPARK_MASTER.fullmatch(value):
            raise ValueError("must be local[*], spark://host:port, k8s://…, or yarn")
        return value

    @field_validator("forwarded_allow_ips")
    @classmethod
    def _networks(cls, value: str) -> str:
        for entry in map(str.strip, value.split(",")):
            try:
                if entry != "*":
                    ip_network(entry)
            except ValueError:
                raise ValueError(f"{entry!r} is neither an IP address, nor a network such as 10.1.0.0/16") from None
        return value

    @field_validator("oidc_rights", mode="before")
    @classmethod
    def _json_object(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value or "{}")
        except json.JSONDecodeError:
            raise ValueError("must be a JSON object") from None

    @field_validator("port", mode="before")
    @classmethod
    def _not_a_service_link(cls, value: object) -> object:
        """Kubernetes sets MIRRORGATE_PORT=tcp://… in pods beside a service named `mirrorgate`: not meant for us."""
        return cls.model_fields["port"].default if isinstance(value, str) and value.startswith("tcp://") else value

    @classmethod
    def from_environment(cls, **overrides: object) -> Self:
        """Read the settings; `overrides` (from the command line) win. Raises Misconfigured `bad_setting`."""
        given = {name: value for name, value in overrides.items() if value is not None}
        try:
            return cls.model_validate(cls().model_dump() | given) if given else cls()
        except ValidationError as error:
            wrong = "; ".join(
                f"{PREFIX}{'.'.join(str(part) for part in issue['loc']).upper()}: "
                + issue["msg"].removeprefix("Value error, ")
                for issue in error.errors(include_input=False)
            )
            raise Misconfigured(
                Code.BAD_SETTING, wrong, remedy="Correct the value, or unset the variable for its default."
            ) from None

    @field_validator("max_bytes_in_memory")
    @classmethod
    def _room_for_one(cls, value: int | None, others: ValidationInfo) -> int | None:
        """A compressed body and what it expands to must fit, or it would be rejected for ever."""
        if value is not None and value < 2 * others.data.get("max_body_bytes", 0):
            raise ValueError(f"must be at least twice {PREFIX}MAX_BODY_BYTES")
        return value

    @property
    def bytes_in_memory(self) -> int:
        """`max_bytes_in_memory`, or what follows from the largest body."""
        return self.max_bytes_in_memory or max(4 * self.max_body_bytes, 64 * 2**20)

    @property
    def requests_of_one_key(self) -> int:
        """How many change requests of one key an API process works on at a time."""
        return max(1, int(self.max_key_share * self.max_concurrent_requests))

    @property
    def bytes_in_memory_of_one_key(self) -> int:
        """How many bytes of bodies of one key an API process holds; a compressed body and what it expands to fit."""
        return max(2 * self.max_body_bytes, int(self.max_key_share * self.bytes_in_memory))

    @property
    def marker_first(self) -> bool:
        """Whether landing files begin with the row marker."""
        return self.row_marker_position is RowMarkerPosition.FIRST

    def require_database_url(self) -> str:
        if self.database_url is None:
            raise Misconfigured(
                Code.BAD_SETTING,
                "MIRRORGATE_DATABASE_URL is not set",
                remedy="Set it to a Postgres database, or run `mirrorgate up`, which brings its own.",
            )
        return self.database_url.get_secret_value()

    def require_landing_zone(self) -> str:
        """The landing zone's absolute folder, or its address. Raises Misconfigured for none."""
        if not self.landing_zone:
            raise Misconfigured(
                Code.BAD_SETTING,
                "MIRRORGATE_LANDING_ZONE is not set",
                remedy="Set it to the folder or the address to publish into.",
            )
        return self.landing_zone if _is_address(self.landing_zone) else str(Path(self.landing_zone).absolute())

    def require_safe_listening(self) -> None:
        """Raises Misconfigured `public_without_tls`, or `bad_setting` for half a certificate."""
        if (self.tls_certificate_file is None) != (self.tls_key_file is None):
            raise Misconfigured(
                Code.BAD_SETTING, "MIRRORGATE_TLS_CERTIFICATE_FILE and MIRRORGATE_TLS_KEY_FILE go together"
            )
        if self.host not in LOOPBACK and self.tls_certificate_file is None and not self.behind_tls_proxy:
            raise Misconfigured(Code.PUBLIC_WITHOUT_TLS, f"the API would listen on {self.host} without TLS")

    @property
    def max_delay(self) -> float:
        """`max_delay_seconds`, or what suits the landing zone: a table in Fabric takes in less than a file a second."""
        if self.max_delay_seconds is not None:
            return self.max_delay_seconds
        return 30.0 if _is_address(self.landing_zone or "") else 1.0


def _is_address(landing_zone: str) -> bool:
    return "://" in landing_zone


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Sentences naming each `MIRRORGATE_*` variable that is no setting, with the closest one that is."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | _FOREIGN
    sentences = []
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1)
            sentences.append(f"{name} is not a setting" + (f"; did you mean {close[0]}?" if close else ""))
    return sentences


def settings_table() -> str:
    """The Markdown table of docs/settings.md, rendered from the fields above."""
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else f"`{getattr(field.default, 'value', field.default)}`"
        lines.append(f"| `{PREFIX}{name.upper()}` | {default} | {field.description} |")
    return "\n".join(lines) + "\n"
