"""Data that arrives after newer metadata, with each row in its own order, as from a partitioned topic."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.formats.replicate.tables_in_memory import Tables

Values = dict[str, Any]


def md(version: int) -> Values:
    """Return a metadata message; each version adds a column at the second ordinal and moves all others."""
    names = ["id", *(f"c{number}" for number in range(version, 0, -1))]
    columns = {
        name: {"ordinal": place, "type": "INT4", "primaryKeyPosition": int(name == "id")}
        for place, name in enumerate(names, 1)
    }
    lineage = {"table": "t", "server": "s", "task": "k", "tableVersion": version}
    return {"schemaId": f"v{version}", "lineage": lineage, "tableStructure": {"tableColumns": columns}}


def dt(operation: str, version: int, row: Values) -> Values:
    headers = {"operation": operation, "columnMask": f"{2 ** (version + 1) - 1:X}"}
    message = {"data": row, "beforeData": None, "headers": headers}
    return {"magic": "atMSG", "type": "DT", "messageSchemaId": f"v{version}", "message": message}


@st.composite
def partitions(draw: st.DrawFn) -> list[list[Values]]:
    """Draw the data messages of each row, in its order, the versions ascending."""
    rows = []
    for key in range(draw(st.integers(1, 3))):
        versions = sorted(draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)))
        rows.append(
            [
                dt(
                    "UPDATE" if place else "INSERT",
                    version,
                    {"id": key, **{f"c{number}": draw(st.integers(0, 99)) for number in range(1, version + 1)}},
                )
                for place, version in enumerate(versions)
            ]
        )
    return rows


@given(partitions(), st.data())
def test_data_in_the_order_of_each_row_gives_the_source_however_early_metadata_comes(
    rows: list[list[Values]], data: st.DataObject
) -> None:
    tables = Tables()
    metadata = [md(version) for version in range(1, 5)]
    mirror: dict[int, dict[str, Any]] = {}
    queues = [list(messages) for messages in rows]
    for version in range(data.draw(st.integers(1, 4))):
        tables.post(json.dumps(metadata[version]).encode())
        metadata[version]["sent"] = True
    while any(queues):
        queue = data.draw(st.sampled_from([queue for queue in queues if queue]))
        message = queue.pop(0)
        needed = int(message["messageSchemaId"][1:])
        request = [md(number) for number in range(1, needed + 1) if "sent" not in metadata[number - 1]]
        for number in range(needed):
            metadata[number]["sent"] = True
        for _, *values in tables.post(json.dumps([*request, message]).encode())[0]["t"]:
            row = dict(zip(tables.schemas["t"].names, values, strict=True))
            mirror[row["id"]] = row
    expected = {messages[-1]["message"]["data"]["id"]: messages[-1]["message"]["data"] for messages in rows}
    assert {
        key: {name: value for name, value in row.items() if value is not None} for key, row in mirror.items()
    } == expected
