"""All settings of the gateway: the only reader of the environment.

Each subject has a class with the fields, their descriptions and their checks; `Settings` joins them. Those of the
database, retention, callers, drain and mirror are here, the others beside it. Every field is one variable:
`MIRRORGATE_` and the field's name in capitals. Invariant: settings are read once, at the start, and do not change
afterwards.
"""

import difflib
import json
import re
from collections.abc import Mapping
from datetime import time
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.domain.access.rights import ApiKey
from app.domain.mirror_report import Upkeep
from app.settings.api import ApiSettings, BacklogLimits, RequestLimits
from app.settings.landing_zone import FabricSettings, LandingZoneSettings
from app.settings.operation import AlertSettings, OperationSettings
from mirrorgate.errors import Code, Misconfigured, RejectedInput


class DatabaseSettings(BaseModel, use_attribute_docstrings=True):
    """Address of Postgres, and the time to wait for it."""

    database_url: SecretStr | None = None
    """Address of Postgres 15 or newer: `postgresql://user:password@host/database`."""
    database_seconds: Annotated[float, Field(ge=1, le=86_400)] = 10.0
    """Maximum time to wait for an answer from Postgres, in seconds. After it, the connection is closed and replaced,
    and requests that needed it get 503. A group of change requests has half of this time."""

    @field_validator("database_url")
    @classmethod
    def _postgres_only(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("must start with postgresql://")
        return value

    def require_database_url(self) -> str:
        """Return the address of Postgres. Raise Misconfigured `bad_setting` if none is set."""
        if self.database_url is None:
            raise Misconfigured(
                Code.BAD_SETTING,
                "MIRRORGATE_DATABASE_URL is not set",
                remedy="Set it to a Postgres database, or run `mirrorgate up`, which starts a private one.",
            )
        return self.database_url.get_secret_value()


class RetentionSettings(BaseModel, use_attribute_docstrings=True):
    """The retention of payloads, the ledger and the audit."""

    retention_days: Annotated[float, Field(gt=0, le=36_525)] = 7.0
    """Days to keep payloads of published files, ledger entries and receipts."""
    retention_bytes: Annotated[int, Field(ge=2**20)] = 64 * 2**30
    """Payload bytes in Postgres beyond which payloads of published files are deleted earlier, oldest first."""
    history_days: Annotated[float, Field(gt=0, le=31)] = 2.0
    """Days to keep the history of rates and lag that the console plots."""
    load_idle_hours: Annotated[float, Field(gt=0, le=876_600)] = 24.0
    """Hours after its last request at which a load session expires."""
    audit_days: Annotated[float, Field(gt=0, le=36_525)] = 90.0
    """Days to keep audit events: operations on keys, registrations and rejections."""


class GrantedRights(BaseModel, use_attribute_docstrings=True):
    """The grant of a token's role or scope: rights, and the patterns of the tables that they apply to."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rights: Annotated[list[Literal["ingest", "read", "register", "admin"]], Field(min_length=1)]
    tables: Annotated[list[Annotated[str, Field(pattern=r"^\S(.*\S)?$")]], Field(min_length=1)]


class AccessSettings(BaseModel, use_attribute_docstrings=True):
    """Callers of the API, and their limits."""

    admin_key: SecretStr | None = None
    """An API key `mg_<id>_<secret>` with every right on every table, in addition to stored keys."""
    signing_key: Annotated[SecretStr | None, Field(min_length=32)] = None
    """Secret of at least 32 characters from which the signing secrets of keys are derived. The same for all API
    processes; without it, no key can sign."""
    mask_secret: Annotated[SecretStr | None, Field(min_length=32)] = None
    """Secret of at least 32 characters for the hashes of masked columns. The same for all API processes, which compare
    it with the database. To change it, drop all tables with hashed columns first, and register and load them again.
    Without it, no table can have such a mask."""
    oidc_issuer: str | None = None
    """Issuer of OpenID Connect access tokens that the API accepts, exactly as in `iss`."""
    oidc_audience: Annotated[str | None, Field(min_length=1)] = None
    """Required `aud` of access tokens."""
    oidc_rights: dict[str, GrantedRights] = {}
    """Rights by role or scope of an access token, as JSON: `{"<role or scope>": {"rights": ["ingest"], "tables":
    ["sales.*"]}}`."""
    oidc_client_id: Annotated[str | None, Field(min_length=1)] = None
    """Client id of the console at the issuer. With it, people can sign in to the console with their accounts."""
    oidc_client_secret: Annotated[SecretStr | None, Field(min_length=1)] = None
    """Client secret of the console at the issuer. Unset for a public client, which PKCE protects."""
    oidc_redirect_url: str | None = None
    """Address to which the issuer sends browsers back, as registered there:
    `https://<this gateway>/console/oidc/callback`."""
    key_requests_per_second: Annotated[float | None, Field(ge=0.001)] = None
    """Requests per second that an API process accepts from a key without its own limit. Unset: no limit."""
    key_bytes_per_second: Annotated[int | None, Field(gt=0)] = None
    """Bytes of request bodies per second, as sent, that an API process accepts from a key without its own limit. Unset:
    no limit."""

    @property
    def mask_secret_bytes(self) -> bytes | None:
        """The secret of masked columns as bytes."""
        return None if self.mask_secret is None else self.mask_secret.get_secret_value().encode()

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


_MIN_RETENTION_HOURS: Final = 168
"""Below it, a vacuum can delete files that a Direct Lake model or a slow reader still needs."""


class MirrorSettings(BaseModel, use_attribute_docstrings=True):
    """Target of the mirror's Delta tables, and the interval between checks for new landing files."""

    mirror_target: str | None = None
    """Target of the mirror's Delta tables: a folder, which is created if it is missing, or an address that
    `deltalake` can write, such as `abfss://…` or `s3://…`. Unset: no mirror is configured."""
    mirror_storage_options: dict[str, SecretStr] = {}
    """Options of `deltalake` for the target, as JSON: `{"aws_region": "eu-west-1"}`. Variables of the cloud, such as
    `AWS_…` and `AZURE_…`, apply without it."""
    mirror_poll_seconds: Annotated[float | None, Field(gt=0, le=86_400)] = None
    """Seconds between two checks of the landing zone by the mirror. Unset: 0.5 for a folder, 15 for OneLake and
    ADLS Gen2."""
    mirror_files_per_version: Annotated[int, Field(ge=1)] = 64
    """Largest number of landing files that the mirror applies in one Delta version when it is behind. 1: every file has
    a version, which takes longer."""
    mirror_compact_files: Annotated[int, Field(ge=0)] = 64
    """Number of data files below 128 MiB from which the mirror compacts a table, as `mirrorgate mirror optimize` does.
    0: never."""
    mirror_retention_hours: Annotated[int, Field(ge=0, le=876_600)] = 168
    """The mirror vacuums each table once a day, and keeps what versions of so many hours need, and pinned versions. At
    least 168. 0: it never vacuums."""
    mirror_upkeep_window: Annotated[str | None, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$")] = (
        None
    )
    """The time of day, in UTC, in which the mirror compacts and vacuums: `01:00-04:30`. Unset: any time."""
    mirror_metrics_port: Annotated[int | None, Field(ge=0, le=65535)] = None
    """Port where the mirror serves its own `/metrics`, on the address `MIRRORGATE_METRICS_HOST`. 0: any free port,
    which the log names. Unset: none."""

    @field_validator("mirror_retention_hours")
    @classmethod
    def _safe_retention(cls, value: int) -> int:
        if 0 < value < _MIN_RETENTION_HOURS:
            raise ValueError(f"must be 0 or at least {_MIN_RETENTION_HOURS}")
        return value

    @property
    def mirror_upkeep(self) -> Upkeep:
        """Conditions under which the mirror compacts and vacuums by itself."""
        window = self.mirror_upkeep_window
        times = None if window is None else [time.fromisoformat(text) for text in window.split("-")]
        return Upkeep(
            self.mirror_compact_files, self.mirror_retention_hours, None if times is None else (times[0], times[1])
        )

    @property
    def mirror_options(self) -> dict[str, str]:
        """`mirror_storage_options` in clear text, as `deltalake` takes them."""
        return {name: value.get_secret_value() for name, value in self.mirror_storage_options.items()}

    def require_mirror_target(self) -> str:
        """Return the target's address, or its absolute folder. Raise Misconfigured `bad_setting` if unset."""
        if not self.mirror_target:
            raise Misconfigured(
                Code.BAD_SETTING,
                "MIRRORGATE_MIRROR_TARGET is not set",
                remedy="Set it to the folder or address of the Delta tables, or give --to.",
            )
        return self.mirror_target if "://" in self.mirror_target else str(Path(self.mirror_target).absolute())


_SPARK_MASTER: Final = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|(spark|k8s)://.+|yarn")


class DrainSettings(BaseModel, use_attribute_docstrings=True):
    """Claims, builds and Fabric's status in the drain."""

    lease_seconds: Annotated[float, Field(gt=0, le=86_400)] = 15.0
    """A drain that has not renewed its lease for this many seconds loses its tables."""
    spark_master: str | None = None
    """Spark master of the drain. Unset: the one that spark-submit sets, else `local[*]`."""
    drain_slots: Annotated[int | None, Field(ge=1)] = None
    """Number of worker slots: each builds and publishes a share of the tables, with one Spark job at a time. Unset:
    Spark's default parallelism, at most 32."""
    spark_job_min_bytes: Annotated[int | None, Field(ge=0)] = None
    """The drain itself builds a few files whose staged payloads are smaller than this together, because that takes less
    time than a Spark job. 0: Spark builds all files. Unset: 33554432 (32 MiB) if Spark runs in the drain's process tree
    (`local[…]`), 262144 (256 KiB) on a cluster."""
    spark_stuck_seconds: Annotated[float, Field(ge=0)] = 300.0
    """The drain exits, so that a supervisor restarts it, if a running Spark job makes no progress for this many
    seconds. 0: never; use it for a cluster that may be without executors for long."""
    drain_metrics_port: Annotated[int | None, Field(ge=0, le=65535)] = None
    """Port where a drain serves its own `/metrics`, on the address `MIRRORGATE_METRICS_HOST`. 0: any free port, which
    the log names. Unset: none."""
    monitoring_seconds: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """Minimum time between two reads of Fabric's replication status (`Monitoring/tables.json` beside the landing zone)
    by all drains together, in seconds. 0: never read it."""
    drop_wait_seconds: Annotated[float, Field(ge=0)] = 600.0
    """Maximum time to wait, after a dropped table's folder is deleted, until Fabric no longer lists the table, in
    seconds. It applies if Fabric's list is readable."""

    @field_validator("spark_master")
    @classmethod
    def _a_master(cls, value: str | None) -> str | None:
        if value and not _SPARK_MASTER.fullmatch(value):
            raise ValueError("must be local[*], spark://host:port, k8s://…, or yarn")
        return value


PREFIX: Final = "MIRRORGATE_"

SUBJECTS: Final[Mapping[str, type[BaseModel]]] = {
    "Database": DatabaseSettings,
    "Landing zone": LandingZoneSettings,
    "Fabric": FabricSettings,
    "API": ApiSettings,
    "Callers": AccessSettings,
    "Requests": RequestLimits,
    "Backlog": BacklogLimits,
    "Drain": DrainSettings,
    "Mirror": MirrorSettings,
    "Retention": RetentionSettings,
    "Alerts": AlertSettings,
    "Logs and start": OperationSettings,
}
"""The settings by subject, in the order of docs/reference/settings.md."""


class Settings(
    BaseSettings,
    OperationSettings,
    AlertSettings,
    RetentionSettings,
    MirrorSettings,
    DrainSettings,
    BacklogLimits,
    RequestLimits,
    AccessSettings,
    ApiSettings,
    FabricSettings,
    LandingZoneSettings,
    DatabaseSettings,
):
    """Settings of the gateway, read from the environment when it starts."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="ignore", frozen=True, allow_inf_nan=False, enable_decoding=False
    )

    @field_validator("source_information", "oidc_rights", "mirror_storage_options", mode="before")
    @classmethod
    def _json_object(cls, value: object) -> object:
        try:
            return json.loads(value or "{}") if isinstance(value, str) else value
        except (ValueError, RecursionError):
            raise ValueError("must be a JSON object") from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources in order of precedence: arguments, variables."""
        return init_settings, env_settings

    @classmethod
    def from_environment(cls, **overrides: object) -> Self:
        """Read the settings. `overrides` come from the command line and win. Raise Misconfigured `bad_setting`."""
        given = {name: value for name, value in overrides.items() if value is not None}
        try:
            return cls.model_validate(cls().model_dump() | given) if given else cls()
        except ValidationError as error:
            wrong = "; ".join(
                f"{PREFIX}{'.'.join(str(part) for part in issue['loc']).upper()}: "
                + issue["msg"].removeprefix("Value error, ")
                for issue in error.errors(include_input=False)
            )
            remedy = "Correct the value, or leave the variable or option out to use its default."
            raise Misconfigured(Code.BAD_SETTING, wrong, remedy=remedy) from None


_FOREIGN: Final = frozenset({"MIRRORGATE_URL", "MIRRORGATE_API_KEY", "MIRRORGATE_SOURCE"})
"""Variables of the client commands (`mirrorgate.cli.options`), which are not settings of the gateway."""


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a sentence for each `MIRRORGATE_*` variable that is not a setting. It names the closest setting."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | _FOREIGN
    sentences = []
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1)
            sentences.append(f"{name} is not a setting" + (f"; did you mean {close[0]}?" if close else ""))
    return sentences
