"""Which packages a command needs beyond the base installation."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from app.errors import Code, Misconfigured

_MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "api": ("fastapi", "httptools", "uvicorn", "uvloop"),
    "drain": ("pyspark",),
}
"""By extra: modules that its packages bring."""


def require_extras(command: str, *extras: str) -> None:
    """Raise Misconfigured `extra_missing` unless the packages of `extras` are installed; imports none of them."""
    for extra in extras:
        missing = [module for module in _MODULES[extra] if find_spec(module) is None]
        if missing:
            raise Misconfigured(
                Code.EXTRA_MISSING,
                f"`mirrorgate {command}` needs packages that are not installed: {', '.join(missing)}",
                remedy=f"Install the extra `mirrorgate[{extra}]`.",
            )
