"""The sample messages in the documentation of both formats, and the landing rows that each must become."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from demo.workload import DELETE, INSERT, UPDATE, Post, Row

FOLDER: Final = Path(__file__).parent / "samples"

NATION: Final = "tpch_scale_0_01.nation"
REGION: Final = "io_blitzz.region"
EMPLOYEES: Final = "HR.EMPLOYEES"

SAMPLE_TABLES: Final[dict[str, dict[str, Any]]] = {
    NATION: {
        "key_columns": ["n_nationkey"],
        "columns": [
            {"name": "n_nationkey", "type": "int32", "nullable": False},
            {"name": "n_name", "type": "string"},
            {"name": "n_regionkey", "type": "int32"},
            {"name": "n_comment", "type": "string"},
        ],
    },
    REGION: {
        "key_columns": ["r_regionkey"],
        "columns": [
            {"name": "r_regionkey", "type": "int32", "nullable": False},
            {"name": "r_name", "type": "string"},
            {"name": "r_comment", "type": "string"},
        ],
    },
}
"""The tables of the Arcion samples, which have no types. Replicate's metadata message registers its own table."""

_ARCION: Final[list[tuple[str, str, list[Row]]]] = [
    (NATION, "snapshot_insert", [(INSERT, 100, "Testing name", 2, "Testing comment")]),
    (NATION, "snapshot_update", [(UPDATE, 100, "Updating test name", 2, "Testing comment")]),
    (NATION, "snapshot_delete", [(DELETE, 100, None, None, None)]),
    (REGION, "realtime_insert", [(INSERT, 10, "India", "India")]),
    (REGION, "realtime_delete", [(DELETE, 10, None, None)]),
]

_HIRED: Final = date(2024, 2, 29)
_FIRST: Final = datetime(2026, 1, 5, 8, 0, 0, 123456, UTC)
_SECOND: Final = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)

_EMPLOYEES: Final[list[Row]] = [
    (INSERT, 9007199254740993, "Ada", Decimal("81234.50"), _HIRED, _FIRST, b"\x00\xff\x10"),
    (INSERT, 2, "Grace", Decimal("0.01"), None, _SECOND, None),
    (UPDATE, 2, "Grace", Decimal("99999.99"), None, _SECOND, None),
    (DELETE, 2, None, None, None, None, None),
    (INSERT, 3, "Grace", Decimal("99999.99"), None, _SECOND, None),
    (DELETE, 3, None, None, None, None, None),
]

REJECTED: Final[list[tuple[str, bytes, str]]] = [
    # The documented realtime update is partial: landing it would overwrite r_name with NULL.
    ("arcion", (FOLDER / "arcion/realtime_update.json").read_bytes(), "incomplete_update"),
    (
        "arcion",
        (FOLDER / "arcion/snapshot_insert.json").read_bytes().replace(b'"100"', b'"one hundred"'),
        "bad_value",
    ),
]
"""Requests that the gateway must reject, each with its error code."""


def sample_posts() -> Iterator[Post]:
    """Yield the sample messages in the order of the documentation."""
    for table, name, rows in _ARCION:
        yield Post("arcion", table, 1, (FOLDER / f"arcion/{name}.json").read_bytes(), rows)
    conversation = (FOLDER / "replicate/conversation.ndjson").read_bytes()
    yield Post("replicate", EMPLOYEES, conversation.count(b'"DT"'), conversation, _EMPLOYEES)
