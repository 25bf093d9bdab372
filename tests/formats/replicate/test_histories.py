"""Replicate messages applied in order give the source, also data that comes late."""

import itertools
import json
import random
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.formats.replicate.tables_in_memory import Row, Tables
from tests.support.samples.messages import data, metadata

UTC_TEXT = "+00:00"
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "INT1": st.integers(-(2**7), 2**7 - 1),
    "UINT2": st.integers(0, 2**16 - 1),
    "INT8": st.integers(-(2**63), 2**63 - 1),
    "UINT8": st.integers(0, 2**64 - 1).map(str),
    "REAL8": st.floats(-1e300, 1e300).map(lambda number: number + 0.0),
    "NUMERIC": st.decimals(-(10**8), 10**8, places=3).map(str),
    "DATE": st.dates().map(date.isoformat),
    "DATETIME": st.datetimes().map(datetime.isoformat),
    "WSTRING": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5) | st.just("null"),
    "NCLOB": st.text(max_size=2).map(lambda text: text.replace("\0", "")),
    "BYTES": st.binary(max_size=4).map(lambda data: data.hex().upper()),
}
KEY_TYPES = ("INT1", "INT8", "WSTRING", "NUMERIC", "DATE", "BYTES")

Values = dict[str, Any]


@dataclass
class Source:
    """A source table: its columns in order with their types, keys first, and its rows by key."""

    columns: dict[str, str]
    key_size: int
    version: int = 1
    rows: dict[tuple[Any, ...], Values] = field(default_factory=dict)
    sequence: int = 0
    refreshed: int = 0

    def key(self, row: Values) -> tuple[Any, ...]:
        return tuple(row[name] for name in list(self.columns)[: self.key_size])

    def ordinals(self) -> dict[str, int]:
        """Return ordinals that differ from the order of the keys, always the same ones for a version."""
        numbers = list(range(1, len(self.columns) + 1))
        random.Random(self.version).shuffle(numbers)
        return dict(zip(self.columns, numbers, strict=True))

    def metadata(self) -> Values:
        ordinals = self.ordinals()
        columns = {
            name: {"ordinal": ordinals[name], "type": kind, "precision": 12, "scale": 3}
            for name, kind in self.columns.items()
        }
        keys = tuple(self.columns)[: self.key_size]
        return metadata("t", columns, keys, schema_id=f"v{self.version}", version=self.version)

    def mask(self, names: set[str]) -> str:
        ordinals = self.ordinals()
        return f"{sum(1 << (ordinals[name] - 1) for name in names):X}"


@st.composite
def messages(draw: st.DrawFn, source: Source, operation: str, old: Values | None, new: Values | None) -> Values:
    """Draw one change in any spelling that Replicate has or that is accepted."""
    source.sequence += 1
    headers: Values = {"operation": draw(st.sampled_from([operation, operation.lower()]))}
    headers["changeSequence"] = f"{source.sequence:035d}"
    everything = set(source.columns)
    headers["columnMask"] = draw(st.sampled_from([None, "", source.mask(everything), f"0{source.mask(everything)}"]))
    data, before = new, old
    if operation == "DELETE":
        data, before = draw(st.sampled_from([(old, None), (None, old), (old, old)]))
    elif operation == "UPDATE" and old is not None and new is not None:
        changed = {name for name in source.columns if old[name] != new[name] and source.columns[name] != "NCLOB"}
        headers["changeMask"] = draw(st.sampled_from([None, source.mask(changed)]))
        keys = list(source.columns)[: source.key_size]
        if source.key(old) == source.key(new):
            before = draw(st.sampled_from([old, None, {name: old[name] for name in keys}]))
    body: Values = {"data": data, "beforeData": before}
    if draw(st.booleans()):
        body |= {f"headers_{name}": value for name, value in headers.items()}
    else:
        body["headers"] = headers
    if draw(st.booleans()):
        return {"magic": "atMSG", "type": "DT", "messageSchemaId": f"v{source.version}", "message": body}
    body["table"] = "t"
    return draw(st.sampled_from([body, {"message": body}]))


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[list[Values]], Source]:
    """Draw the requests of a source table's life, and its final rows."""
    key_size = draw(st.integers(1, 2))
    kinds = [*draw(st.lists(st.sampled_from(KEY_TYPES), min_size=key_size, max_size=key_size))]
    kinds += draw(st.lists(st.sampled_from(sorted(TYPES)), max_size=4))
    source = Source({f"c{place}": kind for place, kind in enumerate(kinds)}, key_size)
    stream = [source.metadata()]

    def new_row() -> Values:
        return {
            name: draw(TYPES[kind] if place < key_size else st.none() | TYPES[kind])
            for place, (name, kind) in enumerate(source.columns.items())
        }

    for _ in range(draw(st.integers(0, 10))):
        kind = draw(st.sampled_from(["REFRESH", "INSERT", "UPDATE", "DELETE", "ADD", "REMOVE", "MD"]))
        row = new_row()
        old = draw(st.sampled_from(list(source.rows.values()))) if source.rows else None
        if kind in {"ADD", "REMOVE"}:
            removable = list(source.columns)[key_size:]
            source.version += 1
            if kind == "ADD":
                source.columns[f"v{source.version}"] = draw(st.sampled_from(sorted(TYPES)))
            elif removable:
                del source.columns[draw(st.sampled_from(removable))]
            names = source.columns
            source.rows = {key: {name: old_row.get(name) for name in names} for key, old_row in source.rows.items()}
            stream.append(source.metadata())
        elif kind == "MD":
            stream.append(source.metadata())
        elif kind in {"REFRESH", "INSERT"} and source.key(row) not in source.rows:
            loading = source.sequence == source.refreshed
            source.refreshed += kind == "REFRESH" and loading
            stream.append(draw(messages(source, kind if loading else "INSERT", None, row)))
            source.rows[source.key(row)] = row
        elif kind == "UPDATE" and old is not None:
            if draw(st.booleans()) or source.key(row) in source.rows:
                row |= dict(zip(source.columns, source.key(old), strict=False))
            stream.append(draw(messages(source, kind, old, row)))
            del source.rows[source.key(old)]
            source.rows[source.key(row)] = row
        elif kind == "DELETE" and old is not None:
            stream.append(draw(messages(source, kind, old, None)))
            del source.rows[source.key(old)]
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=3)))
    edges = [0, *cuts, len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(edges) if a < b], source


def landed(tables: Tables, requests: list[list[Values]]) -> dict[tuple[Any, ...], Values]:
    """Return the mirror after these requests: each landing row applied in order."""
    state: dict[tuple[Any, ...], Values] = {}
    for request in requests:
        rows: list[Row] = tables.post(json.dumps(request).encode())[0].get("t", [])
        schema = tables.schemas["t"]
        for marker, *values in rows:
            row = dict(zip(schema.names, values, strict=True))
            key = tuple(row[name] for name in schema.key_columns)
            if marker == 2:
                del state[key]
            else:
                assert (key in state) == (marker == 1)
                state[key] = row
    return state


def comparable(kind: str, value: Any) -> Any:
    """Return a value in a form that is equal for both sides, whatever its text."""
    if value is None or kind in {"WSTRING", "NCLOB", "DATE", "BOOLEAN", "REAL8"}:
        return value
    if kind == "DATETIME":
        return datetime.fromisoformat(value.removesuffix(UTC_TEXT))
    return value.upper() if kind == "BYTES" else Decimal(value)


@given(conversations())
def test_landing_rows_applied_in_order_give_the_source(life: tuple[list[list[Values]], Source]) -> None:
    requests, source = life
    mirror = landed(Tables(), requests)
    kinds = source.columns

    def present(rows: list[Values]) -> list[Values]:
        """Return the columns that the source still has; a row from before a new column holds NULL there."""
        found = [{name: comparable(kind, row.get(name)) for name, kind in kinds.items()} for row in rows]
        return sorted(found, key=repr)

    assert present(list(mirror.values())) == present(list(source.rows.values()))


def md(version: int) -> Values:
    """Return a metadata message; each version adds a column at the second ordinal and moves all others."""
    names = ["id", *(f"c{number}" for number in range(version, 0, -1))]
    return metadata("t", dict.fromkeys(names, "INT4"), schema_id=f"v{version}", version=version)


@st.composite
def partitions(draw: st.DrawFn) -> list[list[Values]]:
    """Draw the data messages of each row, in its order, the versions ascending."""
    rows = []
    for key in range(draw(st.integers(1, 3))):
        versions = sorted(draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)))
        messages = []
        for place, version in enumerate(versions):
            row = {"id": key} | {f"c{number}": draw(st.integers(0, 99)) for number in range(1, version + 1)}
            facts = {"schema_id": f"v{version}", "columnMask": f"{2 ** (version + 1) - 1:X}"}
            messages.append(data("UPDATE" if place else "INSERT", row, **facts))
        rows.append(messages)
    return rows


@given(partitions(), st.data())
def test_data_in_the_order_of_each_row_gives_the_source_however_early_metadata_comes(
    rows: list[list[Values]], draw: st.DataObject
) -> None:
    tables = Tables()
    described = [md(version) for version in range(1, 5)]
    mirror: dict[int, dict[str, Any]] = {}
    queues = [list(messages) for messages in rows]
    for version in range(draw.draw(st.integers(1, 4))):
        tables.post(json.dumps(described[version]).encode())
        described[version]["sent"] = True
    while any(queues):
        queue = draw.draw(st.sampled_from([queue for queue in queues if queue]))
        message = queue.pop(0)
        needed = int(message["messageSchemaId"][1:])
        request = [md(number) for number in range(1, needed + 1) if "sent" not in described[number - 1]]
        for number in range(needed):
            described[number]["sent"] = True
        for _, *values in tables.post(json.dumps([*request, message]).encode())[0]["t"]:
            row = dict(zip(tables.schemas["t"].names, values, strict=True))
            mirror[row["id"]] = row
    expected = {messages[-1]["message"]["data"]["id"]: messages[-1]["message"]["data"] for messages in rows}
    assert {
        key: {name: value for name, value in row.items() if value is not None} for key, row in mirror.items()
    } == expected
