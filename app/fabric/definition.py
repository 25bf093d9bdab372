"""Definition of a mirrored database that open mirroring feeds: `mirroring.json` and `.platform`.

Source: Microsoft Learn, "Mirrored database item definition" and "Fabric mirroring public REST API".
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


@dataclass(frozen=True, slots=True)
class Definition:
    """What `mirroring.json` says. None: the member is not there, and Fabric uses its default."""

    source_type: str | None = SOURCE_TYPE
    default_schema: str | None = None
    retention_days: int | None = None

    @property
    def is_open_mirroring(self) -> bool:
        """Whether the database reads a landing zone."""
        return self.source_type == SOURCE_TYPE


def definition_parts(name: str, description: str, definition: Definition) -> dict[str, object]:
    """Return the member `definition` of a request that creates a mirrored database."""
    target: dict[str, object] = {"format": "Delta"}
    if definition.default_schema is not None:
        target["defaultSchema"] = definition.default_schema
    if definition.retention_days is not None:
        target["retentionInDays"] = definition.retention_days
    mirroring = {
        "properties": {
            "source": {"type": definition.source_type, "typeProperties": {}},
            "target": {"type": "MountedRelationalDatabase", "typeProperties": target},
        }
    }
    platform = {
        "$schema": _PLATFORM_SCHEMA,
        "metadata": {"type": "MirroredDatabase", "displayName": name, "description": description},
        "config": {"version": "2.0", "logicalId": "00000000-0000-0000-0000-000000000000"},
    }
    return {"parts": [_part("mirroring.json", mirroring), _part(".platform", platform)]}


def parse_definition(answer: Mapping[str, Any]) -> Definition | None:
    """Read an answer of getDefinition; None if it has no readable `mirroring.json`."""
    parts = answer.get("definition", {}).get("parts", [])
    payload = next(_payloads(parts), None)
    if payload is None:
        return None
    properties = payload.get("properties", {})
    target = properties.get("target", {}).get("typeProperties") or {}
    days = target.get("retentionInDays")
    return Definition(
        properties.get("source", {}).get("type"), target.get("defaultSchema"), days if isinstance(days, int) else None
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
