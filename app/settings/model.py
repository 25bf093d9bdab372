"""All settings of the gateway: the only reader of the environment.

Each subject has its own module with the fields, their descriptions and their checks; `Settings` joins them. Every field
is one variable: `MIRRORGATE_` and the field's name in capitals. Invariant: settings are read once, at the start, and do
not change afterwards.

Settings of the connection to Postgres.

Settings that say how long the gateway keeps what it no longer needs for publication.

Warnings about environment variables that are not settings.
"""

import difflib
from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import BaseModel, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.errors import Code, Misconfigured
from app.settings.access import AccessSettings
from app.settings.api import ApiSettings, BacklogLimits, RequestLimits
from app.settings.drain import DrainSettings, MirrorSettings
from app.settings.landing_zone import FabricSettings, LandingZoneSettings
from app.settings.operation import AlertSettings, OperationSettings


class DatabaseSettings(BaseModel, use_attribute_docstrings=True):
    """Where Postgres is, and how long to wait for it."""

    database_url: SecretStr | None = None
    """Address of Postgres 15 or newer: `postgresql://user:password@host/database`."""
    database_seconds: Annotated[float, Field(ge=1)] = 10.0
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
    """How long payloads, the ledger and the audit are kept."""

    retention_days: Annotated[float, Field(gt=0)] = 7.0
    """Days to keep payloads of published files, ledger entries and receipts."""
    retention_bytes: Annotated[int, Field(ge=2**20)] = 64 * 2**30
    """Payload bytes in Postgres beyond which payloads of published files are deleted earlier, oldest first."""
    history_days: Annotated[float, Field(gt=0, le=31)] = 2.0
    """Days to keep the history of rates and lag that the console plots."""
    load_idle_hours: Annotated[float, Field(gt=0)] = 24.0
    """Hours after its last request at which a load session expires."""
    audit_days: Annotated[float, Field(gt=0)] = 90.0
    """Days to keep audit events: operations on keys, registrations and rejections."""


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
"""The settings by subject, in the order of docs/settings.md."""


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

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True, allow_inf_nan=False)

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
            raise Misconfigured(
                Code.BAD_SETTING, wrong, remedy="Correct the value, or unset the variable to use its default."
            ) from None


_FOREIGN: Final = frozenset({"MIRRORGATE_URL", "MIRRORGATE_API_KEY"})
"""Variables of the client commands (app/cli/options.py), which are not settings of the gateway."""


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a sentence for each `MIRRORGATE_*` variable that is not a setting. It names the closest setting."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | _FOREIGN
    sentences = []
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1)
            sentences.append(f"{name} is not a setting" + (f"; did you mean {close[0]}?" if close else ""))
    return sentences
