"""A transaction of a source table as each tool writes it, decoded to changes."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from app.domain.model.change import Change
from app.domain.model.table_schema import TableSchema
from app.formats.arcion.csv import CsvLayout, CsvMode, decode_arcion_csv
from app.formats.arcion.messages import decode_arcion
from app.formats.replicate.messages import decode_replicate
from app.formats.replicate.versions import VersionResolver
from tests.support.samples.messages import Message, arcion, data, metadata
from tests.support.samples.schemas import schema_of
from tests.support.samples.source_histories import TYPES, Event, Row, SourceTable, as_json, as_text

Rendering = Callable[[SourceTable, Sequence[Event]], Sequence[Change]]
"""Writes a transaction as a tool does, and decodes it."""


def schema(table: SourceTable) -> TableSchema:
    keys = [*table.types][: table.keys]
    return schema_of(table.types, keys, keys)


def described(table: SourceTable) -> Message:
    columns = {name: TYPES[of] for name, of in table.types.items()}
    return metadata("S.T", columns, tuple([*table.types][: table.keys]))


def arcion_image(table: SourceTable, row: Row | None) -> dict[str, str] | None:
    if row is None:
        return None
    return {name: "null" if value is None else as_text(value) for name, value in zip(table.types, row, strict=True)}


def changes_of(messages: Iterable[Message]) -> list[Change]:
    return [entry.change for entry in decode_arcion(json.dumps([*messages]).encode())]


def arcion_full(table: SourceTable, events: Sequence[Event]) -> Sequence[Change]:
    images = ((arcion_image(table, event.old), arcion_image(table, event.new)) for event in events)
    return changes_of(arcion("S.T", before, after) for before, after in images)


def arcion_partial(table: SourceTable, events: Sequence[Event]) -> Sequence[Change]:
    """Before images hold the key only, after images what the statement set; all other columns hold `null`."""
    messages = []
    for event in events:
        before, after = arcion_image(table, event.old), arcion_image(table, event.new)
        message = arcion("S.T", before, after)
        if before is not None:
            keys = [*table.types][: table.keys]
            given = [name for name in after or {} if before[name] != (after or {})[name]]
            exists = {name: 2 * (name in keys) + (name in given) for name in before}
            message["exists"] = {name: str(flag) for name, flag in exists.items()}
            message["before"] = {name: value if exists[name] & 2 else "null" for name, value in before.items()}
            message["after"] = after and {name: after[name] if exists[name] & 1 else "null" for name in after}
        messages.append(message)
    return changes_of(messages)


def arcion_csv(table: SourceTable, events: Sequence[Event]) -> Sequence[Change]:
    lines = []
    for event in events:
        flag = str((event.new is not None) + 2 * (event.old is not None))
        nothing: Row = (None,) * len(table.types)
        pairs = zip(event.new or nothing, event.old or nothing, strict=True)
        fields = [field for new, old in pairs for field in (quoted(new), quoted(old), flag)]
        operation = "U" if flag == "3" else "I" if flag == "1" else "D"
        lines.append(",".join([*fields, operation, quoted('{"log": "1"}'), quoted("{}")]))
    layout = CsvLayout(CsvMode.REALTIME, tuple(table.types))
    trimmed = frozenset(name for name, of in table.types.items() if of != "string")
    return decode_arcion_csv("\n".join(lines).encode(), layout, trimmed).changes


def quoted(value: Any) -> str:
    return "NULL" if value is None else '"' + as_text(value).replace('"', '""') + '"'


def replicate(table: SourceTable, events: Sequence[Event]) -> Sequence[Change]:
    def image(row: Row | None) -> dict[str, Any] | None:
        return None if row is None else dict(zip(table.types, map(as_json, row), strict=True))

    messages = [described(table)]
    for event in events:
        old, new = image(event.old), image(event.new)
        operation = "UPDATE" if old and new else "INSERT" if new else "DELETE"
        messages.append(data(operation, new or old, old if new else None, schema_id="S.T-1"))
    request = decode_replicate(json.dumps(messages).encode())
    resolver = VersionResolver(None, request.metadata)
    return [resolver.resolve(message)[0] for message in request.changes]
