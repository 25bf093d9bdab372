"""Definition of a mirrored database that open mirroring feeds: `mirroring.json` and `.platform`.

A change keeps every member that it is not about, because Fabric replaces the definition as a whole. Source: Microsoft
Learn, "Mirrored database item definition", "Fabric mirroring public REST API" and "Delta change data feed in
mirroring".
"""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

SOURCE_TYPE: Final = "GenericMirror"
RETENTION_DAYS: Final = (1, 30)
"""The days that Fabric keeps old versions of mirrored data: least and most."""
_PLATFORM_SCHEMA: Final = (
    "https://developer.microsoft.com/json-schemas/fabric/gitIntegration/platformProperties/2.0.0/schema.json"
)

_NO_ID: Final = "00000000-0000-0000-0000-000000000000"
"""The logical id of an item that is in no Git repository."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The content of `mirroring.json`. None: the member is not there, and Fabric uses its default."""

    source_type: str | None = SOURCE_TYPE
    default_schema: str | None = None
    retention_days: int | None = None
    change_data_feed: bool | None = None

    @property
    def is_open_mirroring(self) -> bool:
        """True if the database reads a landing zone."""
        return self.source_type == SOURCE_TYPE

    @property
    def target(self) -> dict[str, object]:
        """Description of the Delta tables in Fabric's words, without what it leaves open."""
        members = {
            "defaultSchema": self.default_schema,
            "retentionInDays": self.retention_days,
            "enableDeltaChangeDataFeed": self.change_data_feed,
        }
        return {name: value for name, value in members.items() if value is not None}


def definition_parts(name: str, description: str, definition: Definition) -> dict[str, object]:
    """Return the member `definition` of a request that creates a mirrored database."""
    mirroring: dict[str, object] = {
        "properties": {
            "source": {"type": definition.source_type, "typeProperties": {}},
            "target": {"type": "MountedRelationalDatabase", "typeProperties": {"format": "Delta", **definition.target}},
        }
    }
    platform = _platform(name, description, _NO_ID)
    return {"parts": [_part("mirroring.json", mirroring), _part(".platform", platform)]}


def item_files(answer: Mapping[str, Any], name: str, identity: str) -> dict[str, bytes]:
    """Return the files of an answer of getDefinition by path, with a `.platform` that identifies the item.

    Git and deployment tools tell items apart by the logical id; an item that was never in Git has none, and gets its
    own id. Raises ValueError for an answer without a readable `mirroring.json`.
    """
    parts = answer.get("definition", {}).get("parts", [])
    if next(_payloads(parts), None) is None:
        raise ValueError("there is no mirroring.json")
    files = {str(part["path"]): base64.b64decode(part.get("payload", "")) for part in parts}
    platform = json.loads(files.get(".platform") or json.dumps(_platform(name, "", _NO_ID)))
    config = platform.setdefault("config", {"version": "2.0"})
    if config.get("logicalId") in (None, _NO_ID):
        config["logicalId"] = identity
    mirroring = json.loads(files["mirroring.json"])
    return {
        **files,
        ".platform": json.dumps(platform, indent=2).encode() + b"\n",
        "mirroring.json": json.dumps(mirroring, indent=2).encode() + b"\n",
    }


def _platform(name: str, description: str, logical_id: str) -> dict[str, object]:
    return {
        "$schema": _PLATFORM_SCHEMA,
        "metadata": {"type": "MirroredDatabase", "displayName": name, "description": description},
        "config": {"version": "2.0", "logicalId": logical_id},
    }


def changed_parts(answer: Mapping[str, Any], change: Definition) -> dict[str, object] | None:
    """Return the member `definition` of a request that changes a definition which getDefinition answered.

    It has what `change` says of the target, and everything else as it is; None if it says nothing new. Raises
    ValueError for an answer without a readable `mirroring.json`.
    """
    parts = answer.get("definition", {}).get("parts", [])
    mirroring = next(_payloads(parts), None)
    if mirroring is None:
        raise ValueError("there is no mirroring.json")
    target = mirroring.setdefault("properties", {}).setdefault("target", {}).setdefault("typeProperties", {})
    if target | change.target == target:
        return None
    target.update(change.target)
    others = [part for part in parts if part.get("path") not in ("mirroring.json", ".platform")]
    return {"parts": [_part("mirroring.json", mirroring), *others]}


def parse_definition(answer: Mapping[str, Any]) -> Definition | None:
    """Read an answer of getDefinition; None if it has no readable `mirroring.json`."""
    parts = answer.get("definition", {}).get("parts", [])
    payload = next(_payloads(parts), None)
    if payload is None:
        return None
    properties = payload.get("properties", {})
    target = properties.get("target", {}).get("typeProperties") or {}
    days, feed = target.get("retentionInDays"), target.get("enableDeltaChangeDataFeed")
    return Definition(
        properties.get("source", {}).get("type"),
        target.get("defaultSchema"),
        days if isinstance(days, int) else None,
        feed if isinstance(feed, bool) else None,
    )


def _payloads(parts: Iterable[Mapping[str, str]]) -> Iterator[dict[str, Any]]:
    for part in parts:
        if part.get("path") == "mirroring.json":
            try:
                decoded = json.loads(base64.b64decode(part.get("payload", "")))
            except (ValueError, binascii.Error):
                continue
            if isinstance(decoded, dict):
                yield decoded


def _part(path: str, content: Mapping[str, object]) -> dict[str, str]:
    payload = base64.b64encode(json.dumps(content).encode()).decode()
    return {"path": path, "payload": payload, "payloadType": "InlineBase64"}
