"""Warnings about environment variables that are not settings."""

import difflib
from collections.abc import Mapping
from typing import Final

from app.settings.model import PREFIX, Settings

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
