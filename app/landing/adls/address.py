"""Addresses of landing zones in OneLake and ADLS Gen2, as an operator writes them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote

from app.domain.fabric import split_address
from mirrorgate.errors import Code, Misconfigured

_ONELAKE: Final = re.compile(r"(^|\.)dfs\.fabric\.microsoft\.[a-z]+$|^[\w-]*onelake\.dfs\.")
_GUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_FORMS: Final = (
    "abfss://<workspace>@onelake.dfs.fabric.microsoft.com/<item>/Files/LandingZone, the same as "
    "https://onelake.dfs.fabric.microsoft.com/<workspace>/<item>/Files/LandingZone, "
    "or abfss://<container>@<account>.dfs.core.windows.net/<path>"
)


@dataclass(frozen=True, slots=True)
class StorageAddress:
    """A folder of a DFS service: `file_system` is the workspace or container, `root` the path below it."""

    host: str
    file_system: str
    root: str

    @classmethod
    def parse(cls, url: str) -> "StorageAddress":
        """Parse an address. Raise Misconfigured `landing_zone_unsupported` for any form but OneLake's and ADLS's."""
        parts = split_address(url)
        if parts.scheme not in ("abfss", "https"):
            raise _unsupported(f"its scheme is {parts.scheme}, not abfss or https")
        if parts.query or parts.fragment or parts.password is not None or re.search(r":(?!443$)\d*$", parts.netloc):
            raise _unsupported("it has a query, fragment, password or port: set MIRRORGATE_STORAGE_ENDPOINT or AZURE_…")
        if ".dfs." not in f".{parts.hostname or ''}":
            raise _unsupported("its host is not that of a DFS service")
        path = [unquote(part) for part in parts.path.split("/") if part]
        file_system, root = _file_system(parts, path)
        if not file_system or not root:
            raise _unsupported("it names no folder")
        if any(part in (".", "..") or "/" in part for part in (file_system, *root)):
            raise _unsupported("it has . or .. or an encoded / in its path")
        address = cls(str(parts.hostname), file_system, "/".join(root))
        if address.is_onelake:
            _check_onelake(file_system, root)
        return address

    @property
    def is_onelake(self) -> bool:
        """True if the host is one of OneLake's."""
        return _ONELAKE.search(self.host) is not None

    def path(self, relative: str) -> str:
        """Return a path of the landing zone as the service knows it."""
        return f"{self.root}/{relative}" if relative else self.root


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """The connection to the service. It pickles, so that executors reach it as the driver does.

    `endpoint` replaces the address's host for connections; requests still name the host. `credential` creates the
    credential in each process, by default the Azure SDK's chain.
    """

    endpoint: str | None = None
    api_version: str | None = None
    authority_file: str | None = None
    connect_seconds: float = 10.0
    answer_seconds: float = 60.0
    retry_seconds: float = 60.0
    block_bytes: int = 8 * 2**20
    credential: Callable[[], object] | None = None


def _file_system(parts: SplitResult, path: list[str]) -> tuple[str, list[str]]:
    if parts.scheme == "abfss":
        return unquote(parts.username or ""), path
    if parts.username is not None:
        raise _unsupported("an https address names the workspace or container in its path")
    return (path[0], path[1:]) if path else ("", [])


def _check_onelake(workspace: str, path: list[str]) -> None:
    """Raise Misconfigured for a path that Fabric manages itself, and for a mix of GUIDs and names."""
    if len(path) < 3 or path[1] != "Files":
        raise _unsupported("in OneLake a landing zone is below an item's folder Files")
    if bool(_GUID.fullmatch(workspace)) != bool(_GUID.fullmatch(path[0])):
        raise _unsupported("one of workspace and item is a GUID and one is a name; use GUIDs for both")


def _unsupported(why: str) -> Misconfigured:
    return Misconfigured(
        Code.LANDING_ZONE_UNSUPPORTED,
        f"MIRRORGATE_LANDING_ZONE is not the address of a landing zone: {why}",
        remedy=f"Use a folder, {_FORMS}.",
    )
