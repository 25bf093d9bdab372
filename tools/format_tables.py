"""The tables about formats: query parameters, from the contract, and the column types of the types of sources."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from app.domain.model.table_schema import TypeName
from app.formats.debezium.connect_schema import BY_KIND, BY_MEANING, DECIMAL
from app.formats.replicate.metadata import STRING_TYPES, TYPES

CONTRACT: Final = Path(__file__).resolve().parents[1] / "openapi" / "mirrorgate.v1.yaml"

OF_EVERY_FORMAT: Final = frozenset({"dry_run", "on_reject", "key_id"})
"""Query parameters that the pages about sending describe."""

_CONNECT: Final = DECIMAL.rpartition(".")[0]


def parameters_table(name: str) -> str:
    """Return the query parameters of `POST /v1/changes/<name>` as a Markdown table."""
    lines = ["| parameter | meaning |", "|---|---|"]
    for one in _contract()["paths"][f"/v1/changes/{name}"]["post"]["parameters"]:
        if one["in"] == "query" and one["name"] not in OF_EVERY_FORMAT:
            values = ", ".join(f"`{value}`" for value in one["schema"].get("enum", ()))
            meaning = " ".join(one["description"].split())
            lines.append(f"| `{one['name']}` | {meaning}{values and f' One of {values}.'} |")
    return "\n".join(lines) + "\n"


@cache
def _contract() -> Any:
    return yaml.load(CONTRACT.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def types_tables() -> str:
    """Return the types of Qlik Replicate and of Kafka Connect as Markdown: a row for each column type."""
    of_replicate = [*TYPES.items(), ("UINT8", "decimal(20,0)"), ("NUMERIC", "decimal(p,s)")]
    of_replicate += [(name, TypeName.STRING) for name in (*sorted(STRING_TYPES), "any other")]
    of_connect: list[tuple[str, str]] = [(f"`{kind}`", column_type) for kind, column_type in BY_KIND.items()]
    of_connect += [("Connect `Decimal`", "decimal(p,s)")]
    of_connect += [(_short_name(meaning), column_type) for meaning, column_type in BY_MEANING.items()]
    return "\n\n".join(
        [
            "## Qlik Replicate",
            _types_table("types of Replicate", of_replicate),
            "## Debezium and Kafka Connect",
            _types_table("types of Connect, and semantic types", of_connect),
            "A semantic type that is not in the table has the column type of its Connect type.\n",
        ]
    )


def _short_name(meaning: str) -> str:
    package, _, name = meaning.rpartition(".")
    return f"Connect `{name}`" if package == _CONNECT else f"`{name}`"


def _types_table(title: str, types: Sequence[tuple[str, str]]) -> str:
    names: dict[str, list[str]] = {}
    for name, column_type in types:
        names.setdefault(column_type, []).append(name)
    rows = [f"| `{column_type}` | {', '.join(found)} |" for column_type, found in names.items()]
    return "\n".join([f"| column type | {title} |", "|---|---|", *rows])
