"""Names of the environment variables: their prefix, and the renamed ones whose old name is still accepted."""

import os
from collections.abc import Mapping
from typing import Any, Final

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

PREFIX: Final = "MIRRORGATE_"

RENAMED: Final[Mapping[str, str]] = {f"{PREFIX}DRAIN_BINS": f"{PREFIX}DRAIN_SLOTS"}
"""The present name of each variable by its old name, which 0.3 stops accepting."""


class RenamedVariables(PydanticBaseSettingsSource):
    """Read settings from variables under their old names. A variable under its present name takes precedence."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the value of the field's old variable, or None; the field's name; that the value is not JSON."""
        return self().get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return the values of old variables, by the name of their field."""
        return {new.removeprefix(PREFIX).lower(): os.environ[old] for old, new in RENAMED.items() if old in os.environ}
