"""All settings of the gateway: the only reader of the environment.

Each subject has its own module with the fields, their descriptions and their checks; `Settings` joins them. Every field
is one variable: `MIRRORGATE_` and the field's name in capitals. Invariant: settings are read once, at the start, and do
not change afterwards.
"""

from collections.abc import Mapping
from typing import Final, Self

from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.errors import Code, Misconfigured
from app.settings.access import AccessSettings
from app.settings.api import ApiSettings
from app.settings.database import DatabaseSettings
from app.settings.drain import DrainSettings
from app.settings.fabric import FabricSettings
from app.settings.landing_zone import LandingZoneSettings
from app.settings.limits import BacklogLimits, RequestLimits
from app.settings.mirror import MirrorSettings
from app.settings.operation import AlertSettings, OperationSettings
from app.settings.retention import RetentionSettings

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
