"""Workspaces, capacities and mirrored databases as Fabric's API shows them.

Source: the definitions `Workspace`, `Capacity` and `MirroredDatabase` of Fabric's REST API specification, version v1.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

_GUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ITEM_TYPE: Final = ".MirroredDatabase"
PUBLIC_ONELAKE: Final = "onelake.dfs.fabric.microsoft.com"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace. Without a capacity no mirrored database in it runs."""

    id: str
    name: str
    capacity_id: str | None


@dataclass(frozen=True, slots=True)
class MirroredDatabase:
    """A mirrored database. `tables_path` and the SQL endpoint are known once Fabric has provisioned it."""

    id: str
    name: str
    workspace_id: str
    tables_path: str | None = None
    default_schema: str | None = None
    sql_endpoint: str | None = None
    sql_provisioning: str | None = None

    @property
    def landing_zone(self) -> str:
        """The landing zone's address by GUIDs, as `MIRRORGATE_LANDING_ZONE` takes it."""
        host = urlsplit(self.tables_path or "").hostname or PUBLIC_ONELAKE
        return f"abfss://{self.workspace_id}@{host}/{self.id}/Files/LandingZone"

    @property
    def tables_address(self) -> str:
        """The address of the Delta tables that Fabric writes, as `mirrorgate verify --against` takes it."""
        return self.landing_zone.removesuffix("Files/LandingZone") + "Tables"


def is_id(text: str) -> bool:
    """Return whether a text is an id and not a name."""
    return _GUID.fullmatch(text) is not None


def item_name(text: str) -> str:
    """Return the display name of a name as OneLake's addresses have it: without the item's type."""
    return text.removesuffix(_ITEM_TYPE)


def names_in_address(landing_zone: str) -> tuple[str, str] | None:
    """Return workspace and database, ids or names, of a landing zone's address in OneLake; None for any other.

    The landing zone itself is checked where it is opened; this reads no more than both names.
    """
    parts = urlsplit(landing_zone)
    path = [unquote(part) for part in parts.path.split("/") if part]
    if "onelake" not in (parts.hostname or ""):
        return None
    if parts.scheme == "abfss" and parts.username:
        path.insert(0, unquote(parts.username))
    return (path[0], item_name(path[1])) if len(path) > 1 else None


def parse_workspace(entry: Mapping[str, object]) -> Workspace:
    """Read a workspace."""
    return Workspace(str(entry["id"]), str(entry.get("displayName") or ""), _text(entry.get("capacityId")))


def parse_database(entry: Mapping[str, object]) -> MirroredDatabase:
    """Read a mirrored database, of a list or alone."""
    found = entry.get("properties")
    properties: Mapping[str, object] = found if isinstance(found, Mapping) else {}
    sql = properties.get("sqlEndpointProperties")
    endpoint: Mapping[str, object] = sql if isinstance(sql, Mapping) else {}
    return MirroredDatabase(
        id=str(entry["id"]),
        name=str(entry.get("displayName") or ""),
        workspace_id=str(entry.get("workspaceId") or ""),
        tables_path=_text(properties.get("oneLakeTablesPath")),
        default_schema=_text(properties.get("defaultSchema")),
        sql_endpoint=_text(endpoint.get("connectionString")),
        sql_provisioning=_text(endpoint.get("provisioningStatus")),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
