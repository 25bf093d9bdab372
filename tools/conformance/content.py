"""The tables and rows that a run publishes: every type, every row marker, and the options that change files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

SCHEMA: Final = "conformance"

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to register: types by column, `!` after the type of a required one."""

    name: str
    columns: Mapping[str, str]
    keys: Sequence[str] = ("id",)
    options: Mapping[str, Any] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """Return the body of its registration."""
        columns = [
            {"name": name, "type": declared.removesuffix("!"), "nullable": not declared.endswith("!")}
            for name, declared in self.columns.items()
        ]
        body = {"key_columns": list(self.keys), "columns": columns}
        return {**body, "options": dict(self.options)} if self.options else body


@dataclass(frozen=True, slots=True)
class Post:
    """Rows of one request, for one table."""

    table: str
    rows: Rows
    op: str = "upsert"


_EVERY_TYPE: Final = {
    "id": "int64!",
    "flag": "boolean",
    "small": "int16",
    "medium": "int32",
    "large": "int64",
    "single": "float32",
    "double": "float64",
    "amount": "decimal(38,10)",
    "whole": "decimal(20,0)",
    "day": "date",
    "at": "timestamp",
    "name": "string",
    "raw": "binary",
    "document": "json",
}
_TYPICAL: Final = {
    "flag": True,
    "small": -7,
    "medium": 70_000,
    "large": 5_000_000_000,
    "single": "1.5",
    "double": "2.25",
    "amount": "12.5000000001",
    "whole": "18446744073709551615",
    "day": "2026-11-22",
    "at": "2026-11-22T10:30:00.123456Z",
    "name": "plain",
    "raw": "00ff10",
    "document": {"a": [1, 2.50, None], "b": "ä"},
}
_NULLS: Final = {**dict.fromkeys(_TYPICAL), "name": "all others are NULL"}
_LOWEST: Final = {
    "flag": False,
    "small": -(2**15),
    "medium": -(2**31),
    "large": -(2**63),
    "single": "-3.4028234e38",
    "double": "-1.7976931348623157e308",
    "amount": "-9999999999999999999999999999.9999999999",
    "whole": "-99999999999999999999",
    "day": "0001-01-01",
    "at": "0001-01-01T00:00:00Z",
    "name": "",
    "raw": "",
    "document": "{}",
}
_HIGHEST: Final = {
    "flag": True,
    "small": 2**15 - 1,
    "medium": 2**31 - 1,
    "large": 2**63 - 1,
    "single": "3.4028234e38",
    "double": "1.7976931348623157e308",
    "amount": "9999999999999999999999999999.9999999999",
    "whole": "99999999999999999999",
    "day": "9999-12-31",
    "at": "9999-12-31T23:59:59.999999Z",
    "name": "\U0001f600 é \t\n\"'\\" + "x" * 100_000,
    "raw": "ff" * 50_000,
    "document": {"long": "y" * 100_000},
}
_NO_NUMBERS: Final = {**_NULLS, "single": "NaN", "double": "-Infinity"}
_ID_NOTE: Final = {"id": "int64!", "note": "string"}
_IMAGES: Final = {"partial_updates": "complete"}

BEFORE_START: Final = (
    NewTable(f"{SCHEMA}.every_type", _EVERY_TYPE),
    NewTable(f"{SCHEMA}.extremes", _EVERY_TYPE),
    NewTable(f"{SCHEMA}.markers", _ID_NOTE),
    NewTable(f"{SCHEMA}.partial_updates", {"id": "int64!", "a": "string", "b": "string"}, options=_IMAGES),
    NewTable(f"{SCHEMA}.append_only", {"id": "int64", "note": "string"}, keys=()),
    NewTable(f"{SCHEMA}.empty", _ID_NOTE),
    NewTable(
        f"{SCHEMA}.four_keys",
        {"a": "string!", "b": "int32!", "c": "date!", "d": "decimal(9,2)!", "note": "string"},
        keys=("a", "b", "c", "d"),
    ),
    NewTable(f"{SCHEMA}.Überschrift", {"id": "int64!", "order": "string", "Größe (cm)": "float64"}),
    NewTable("conformance_without_schema", _ID_NOTE),
    NewTable(f"{SCHEMA}.evolving", _ID_NOTE),
    NewTable(f"{SCHEMA}.repaired", _ID_NOTE),
    NewTable(f"{SCHEMA}.renamed_later", _ID_NOTE, options=_IMAGES),
    NewTable(f"{SCHEMA}.dropped_later", _ID_NOTE),
    NewTable(f"{SCHEMA}.recreated_later", _ID_NOTE),
)
"""Tables that are registered before mirroring starts."""

REPAIRED: Final = f"{SCHEMA}.repaired"
RENAMED: Final = (f"{SCHEMA}.renamed_later", f"{SCHEMA}.renamed")
DROPPED: Final = f"{SCHEMA}.dropped_later"
RECREATED: Final = NewTable(f"{SCHEMA}.recreated_later", {"id": "string!", "note": "int64"})
"""The table with other types, which only another generation can have."""

EVOLVED: Final = NewTable(f"{SCHEMA}.evolving", {**_ID_NOTE, "added": "decimal(9,2)"})


def _notes(*ids: int, text: str = "first") -> list[dict[str, Any]]:
    return [{"id": number, "note": f"{text} {number}"} for number in ids]


FIRST_POSTS: Final = (
    Post(f"{SCHEMA}.every_type", [{"id": 1, **_TYPICAL}, {"id": 2, **_NULLS}]),
    Post(f"{SCHEMA}.extremes", [{"id": 1, **_LOWEST}, {"id": 2, **_HIGHEST}, {"id": 3, **_NO_NUMBERS}]),
    Post(f"{SCHEMA}.markers", _notes(1, 2, 3), op="insert"),
    Post(f"{SCHEMA}.markers", _notes(3, 4, text="upserted")),
    Post(f"{SCHEMA}.partial_updates", [{"id": 1, "a": "a1", "b": "b1"}, {"id": 2, "a": "a2", "b": "b2"}]),
    Post(f"{SCHEMA}.append_only", [*_notes(1, 2), *_notes(1)], op="insert"),
    Post(
        f"{SCHEMA}.four_keys",
        [{"a": "x", "b": number, "c": "2026-11-22", "d": "1.50", "note": "first"} for number in range(3)],
    ),
    Post(f"{SCHEMA}.Überschrift", [{"id": 1, "order": "first", "Größe (cm)": "1.25"}]),
    Post("conformance_without_schema", _notes(1, 2)),
    Post(f"{SCHEMA}.evolving", _notes(1, 2)),
    Post(REPAIRED, _notes(1, 2)),
    Post(RENAMED[0], _notes(1, 2)),
    Post(DROPPED, _notes(1)),
    Post(RECREATED.name, _notes(1)),
)
"""Posts before mirroring starts."""

LATER_POSTS: Final = (
    Post(f"{SCHEMA}.every_type", [{"id": 2, **_TYPICAL}, {"id": 3, **_TYPICAL, "name": "third"}]),
    Post(f"{SCHEMA}.markers", [{"id": 1, "note": "updated", "__op__": "update"}, {"id": 2, "__op__": "delete"}]),
    Post(f"{SCHEMA}.markers", [{"id": 2, "note": "inserted again", "__op__": "insert"}, {"id": 4, "__op__": "delete"}]),
    Post(f"{SCHEMA}.partial_updates", [{"id": 1, "b": "b1 changed"}, {"id": 3, "a": "a3"}]),
    Post(f"{SCHEMA}.append_only", _notes(2, 3), op="insert"),
    Post(
        f"{SCHEMA}.four_keys",
        [
            {"a": "x", "b": 1, "c": "2026-11-22", "d": "1.50", "note": "changed"},
            {"a": "x", "b": 2, "c": "2026-11-22", "d": "1.50", "__op__": "delete"},
        ],
    ),
    Post("conformance_without_schema", [{"id": 1, "__op__": "delete"}]),
    Post(EVOLVED.name, [{"id": 2, "note": "changed", "added": "2.50"}, {"id": 3, "note": "new", "added": None}]),
    Post(RENAMED[1], _notes(2, text="changed")),
    Post(RECREATED.name, [{"id": "one", "note": 1}, {"id": "two", "note": None}]),
)
"""Posts while Fabric mirrors, after the tables were changed."""
