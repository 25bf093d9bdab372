"""Check that the packages of an extra are installed. The base installation is the client."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final, NamedTuple

from mirrorgate.errors import Code, Misconfigured

_SERVER: Final = (
    "alembic",
    "numpy",
    "prometheus_client",
    "psycopg",
    "pyarrow",
    "pydantic_settings",
    "sqlalchemy",
    "structlog",
)

_API: Final = (*_SERVER, "fastapi", "fastavro", "httptools", "jwt", "uvicorn", "uvloop")


class Distribution(NamedTuple):
    """A distribution, and the modules that each of its extras installs."""

    name: str
    modules: Mapping[str, tuple[str, ...]]


_MODULES: Final = {
    "server": _SERVER,
    "api": _API,
    "drain": (*_SERVER, "pyspark"),
    "embedded": (*_API, "pyspark"),
    "mirror": (*_SERVER, "deltalake", "duckdb", "pyspark"),
    "rows": (*_SERVER, "deltalake"),
    "onelake": ("azure.identity", "azure.storage.filedatalake"),
}
"""The code that starts Postgres and Java for `embedded` looks for them; another database or Java may replace them."""

GATEWAY: Final = Distribution("mirrorgate-gateway", _MODULES)


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing more than the packages around it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package around it is missing
        return False


def require_extras(command: str, *extras: str, of: Distribution = GATEWAY) -> None:
    """Raise Misconfigured `extra_missing` unless the packages of `extras` are installed, without importing them.

    The remedy installs all that is missing at once.
    """
    missing = {extra: [module for module in of.modules[extra] if not is_installed(module)] for extra in extras}
    modules = dict.fromkeys(module for extra in extras for module in missing[extra])
    if modules:
        names = [extra for extra in extras if missing[extra]]
        raise Misconfigured(
            Code.EXTRA_MISSING,
            f"`mirrorgate {command}` needs packages that are not installed: {', '.join(modules)}",
            remedy=f"Install the extra{'s' if len(names) > 1 else ''} `{of.name}[{','.join(names)}]`.",
        )
