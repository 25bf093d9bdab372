"""Arcion: its JSON with `exists` and in NATIVE's form, and its CSV of changes and of snapshots."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tests.support.forms.form import CSV, ENCODER, JSON, Change, Form, Request, Source, SourceTable
from tests.support.forms.values import Column, Row, as_text


def _image(source: Source, row: Row | None, columns: Sequence[Column]) -> dict[str, Any]:
    rng = source.rng
    image: dict[str, Any] = {}
    for column in columns if row is not None else ():
        value = source.value(row or {}, column)
        if value is None:
            image[column.name] = rng.choice((None, "null"))
        elif column in source.table.excluded or rng.random() < 0.9:
            image[column.name] = as_text(value, column, rng) if not isinstance(value, str) else value
        else:
            image[column.name] = value if isinstance(value, bool | int | str) else as_text(value, column, rng)
    return image


def _names(table: SourceTable) -> dict[str, Any]:
    schema, _, name = table.name.rpartition(".")
    return {"namespace": {"catalog": None, "schema": schema}, "name": name}


def _messages(source: Source, changes: Sequence[Change], *, native: bool) -> Request:
    table, rng, written = source.table, source.rng, []
    keys = table.key_columns
    for change in changes:
        given = table.given(change)
        may_lack_key = change.operation == "U" and change.given is not None and not change.statement
        if may_lack_key and rng.random() < 0.5:
            given = [column for column in given if column.name not in table.keys]
        before = table.sent if rng.random() < 0.5 or change.statement or change.given is None else keys
        old = _image(source, change.old, before if change.known else keys)
        new = _image(source, change.new, given)
        if change.operation == "R":
            old = {}
        position = {"log": "bin.1", "position": source.next_position()}
        position |= {"timestamp": int(source.moment().timestamp() * 1000)} if rng.random() < 0.7 else {}
        change.tell(source.moment() if "timestamp" in position else None, json.dumps(position, separators=(",", ":")))
        message = {"tableName": _names(table), "opType": change.operation, "cursor": position,
                   "before": old or None, "after": new or None}  # fmt: skip
        if not native:
            message = _with_exists(source, message, change, old, new)
        written.append(message)
    lines = rng.random() < 0.3
    body = b"\n".join(map(ENCODER.encode, written)) if lines else ENCODER.encode(written)
    return Request("arcion", {"table": table.name} if rng.random() < 0.5 else {}, JSON, body)


def _with_exists(source: Source, message: dict[str, Any], change: Change, old: Row, new: Row) -> dict[str, Any]:
    """Add `exists`; give columns without a value a placeholder sometimes."""
    exists = {c.name: (c.name in new) + 2 * (c.name in old) for c in source.table.sent}
    placeholders = source.rng.random() < 0.5
    for image, present in (("before", old), ("after", new)):
        if placeholders and message[image] is not None:
            message[image] = {c.name: present.get(c.name, "null") for c in source.table.sent}
    if not placeholders:
        exists = {name: flag for name, flag in exists.items() if flag}
    as_number = source.rng.random() < 0.3
    return message | {"exists": {name: flag if as_number else str(flag) for name, flag in exists.items()}}


def quoted(value: Any, column: Column, source: Source) -> str:
    """Return a CSV field; NULL is the only one without quotes."""
    if value is None:
        return "NULL"
    text = str(value) if column in source.table.excluded else as_text(value, column, source.rng)
    return '"' + text.replace('"', '""') + '"'


def _csv_parameters(source: Source, **parameters: str) -> dict[str, str]:
    names = ['"' + column.name.replace('"', '""') + '"' for column in source.table.sent]
    delimiter = source.rng.choice((",", ",", ";", "|", "\t"))
    return {"table": source.table.name, "columns": ",".join(names), "delimiter": delimiter, **parameters}


def _realtime_csv(source: Source, changes: Sequence[Change]) -> Request:
    table, rng, lines = source.table, source.rng, []
    parameters = _csv_parameters(source, mode="realtime")
    for change in changes:
        given = {column.name for column in table.given(change)} if change.new is not None else set()
        has_old = change.old is not None and change.operation != "R"
        old_names = {c.name for c in table.sent} if change.known else {*table.keys}
        fields = []
        for column in table.sent:
            is_new, is_old = column.name in given, has_old and column.name in old_names
            new, old = source.value(change.new or {}, column), source.value(change.old or {}, column)
            fields += [
                quoted(new, column, source) if is_new else "NULL",
                quoted(old, column, source) if is_old else "NULL",
            ]
            fields.append(str(is_new + 2 * is_old))
        position = {"log": "bin.1", "v": source.next_position(), "timestamp": int(source.moment().timestamp() * 1000)}
        cursor = json.dumps(position, separators=(",", ":"))
        change.tell(source.moment(), cursor)
        fields += [change.operation, '"' + cursor.replace('"', '""') + '"', '"{}"']
        lines.append(parameters["delimiter"].join(fields))
    return Request("arcion", parameters, CSV, rng.choice(("\n", "\r\n")).join(lines).encode())


def _snapshot_csv(source: Source, changes: Sequence[Change]) -> Request:
    parameters = _csv_parameters(source, mode="snapshot")
    lines = []
    for change in changes:
        row = change.new or {}
        fields = [quoted(source.value(row, column), column, source) for column in source.table.sent]
        lines.append(parameters["delimiter"].join(fields))
        change.tell(None, None)
    return Request("arcion", parameters, CSV, "\n".join(lines).encode())


def _snapshot_rows(source: Source, changes: Sequence[Change]) -> Request:
    rows = [_image(source, change.new, source.table.sent) for change in changes]
    for change in changes:
        change.tell(None, None)
    parameters = {"table": source.table.name, "mode": "snapshot"}
    return Request("arcion", parameters, JSON, b"\n".join(map(ENCODER.encode, rows)))


FORMS: Final = (
    Form("arcion json", partial(_messages, native=False), "IUDR", partial="UI", moves=True),
    Form("arcion native", partial(_messages, native=True), "IUDR", partial="UI", moves=True),
    Form("arcion csv", _realtime_csv, "IUDR", partial="UI", moves=True),
    Form("arcion csv snapshot", _snapshot_csv, "S"),
    Form("arcion native snapshot", _snapshot_rows, "S"),
)
