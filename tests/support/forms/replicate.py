"""Replicate: its envelope with masks, bare messages with their headers in several places, records, and a layout."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from tests.support.forms.form import ENCODER, JSON, Change, Form, Request, Source
from tests.support.forms.values import Column, Row, as_json
from tests.support.samples import messages

_OPERATIONS: Final = {"I": "INSERT", "U": "UPDATE", "D": "DELETE", "S": "REFRESH"}
_TYPES: Final[Mapping[str, str]] = {
    "boolean": "BOOLEAN", "int16": "INT2", "int32": "INT4", "int64": "INT8", "float32": "REAL4", "float64": "REAL8",
    "decimal": "NUMERIC", "date": "DATE", "timestamp": "DATETIME", "string": "WSTRING", "binary": "BYTES",
    "json": "NCLOB",
}  # fmt: skip
LAYOUT: Final = {
    "data": "row",
    "before_data": "/old",
    "operation": "meta_op",
    "change_sequence": "meta_scn",
    "operations": {"I": "insert", "U": "update", "D": "delete"},
}
"""The layout of the last form, which no gateway knows before it is stored there."""


def image(source: Source, row: Row | None, columns: Sequence[Column]) -> dict[str, Any] | None:
    """Return a row as JSON values by column."""
    if row is None:
        return None
    return {c.name: as_json(source.value(row, c), c, source.rng) if c not in source.table.excluded else "secret"
            for c in columns}  # fmt: skip


def _headers(source: Source, change: Change) -> dict[str, Any]:
    headers: dict[str, Any] = {"operation": _OPERATIONS[change.operation]}
    sequence = f"{source.next_position():035d}"
    if change.operation == "S":
        change.tell(None, None)
        return headers | {"changeSequence": "", "timestamp": ""}
    moment = source.moment()
    change.tell(moment, sequence)
    return headers | {"changeSequence": sequence, "timestamp": moment.replace(tzinfo=None).isoformat()}


def _messages(source: Source, changes: Sequence[Change], *, form: str) -> Request:
    table, rng = source.table, source.rng
    schema, _, name = table.name.rpartition(".")
    written: list[Any] = [metadata(source)] if form == "enveloped" and source.described != table.names else []
    for change in changes:
        headers = _headers(source, change)
        new = image(source, change.new, table.given(change))
        keys = table.key_columns
        old = image(source, change.old, table.sent if change.known else keys)
        if change.operation == "D":
            data, before = (old, None) if rng.random() < 0.5 else (None, old)
        else:
            data, before = new, old
            if change.operation == "U" and not change.statement and rng.random() < 0.4:
                before = None if form == "enveloped" else before
        if form == "enveloped" and change.operation == "U":
            given, (one, other) = change.given or table.names, (change.old or {}, change.new or {})
            changed = [title for title in given if one.get(title) != other.get(title)]
            headers |= {"columnMask": _mask(source, given), "changeMask": rng.choice((None, _mask(source, changed)))}
        message: dict[str, Any] = {"data": data, "beforeData": before}
        if form == "flattened":
            message |= {f"headers_{key}": value for key, value in headers.items()}
        elif form == "plain":
            message |= headers
        else:
            message["headers"] = headers
        if form == "keyed":
            shown = change.new or change.old or {}
            if change.operation == "D" and rng.random() < 0.6:
                message["data"] = message["beforeData"] = None
            written.append({"key": image(source, shown, keys), "value": {"message": message}})
        elif form == "layout":
            shown, has_row = change.new or change.old or {}, change.new is not None
            told = {"meta_op": change.operation, "meta_scn": headers["changeSequence"]}
            images = {"row": new, "old": old if has_row else None}  # the key alone tells which row is deleted
            written.append({"key": image(source, shown, keys), "value": images | told})
        elif form == "enveloped":
            schema_id = f"{table.name}-{source.table_version}"
            written.append({"magic": "atMSG", "type": "DT", "messageSchemaId": schema_id, "message": message})
        elif form == "routed":
            written.append(message | {"schema": schema, "table": name})
        else:
            written.append(message)
    parameters = {} if form in ("enveloped", "routed") else {"table": table.name}
    if form == "layout":
        parameters["layout"] = form
    return Request("replicate", parameters, JSON, ENCODER.encode(written))


def _mask(source: Source, names: Collection[str]) -> str:
    return f"{sum(1 << at for at, name in enumerate(source.described) if name in names):04X}"


def metadata(source: Source) -> dict[str, Any]:
    """Describe the table as it is now."""
    source.table_version, source.described = source.table_version + 1, source.table.names
    columns: dict[str, Any] = {}
    for column in source.table.sent:
        columns[column.name] = {"type": _TYPES[column.kind], "nullable": column.nullable}
        if column.kind == "decimal":
            columns[column.name] |= dict(zip(("precision", "scale"), column.precision, strict=True))
    version = source.table_version
    return messages.metadata(source.table.name, columns, tuple(source.table.keys), version=version)


FORMS: Final = (
    Form("replicate enveloped", partial(_messages, form="enveloped"), "IUDS", partial="U", moves=True),
    *(
        Form(f"replicate {name}", partial(_messages, form=form), "IUDS", partial="UI", moves=True)
        for name, form in (("bare", "bare"), ("flattened", "flattened"), ("plain headers", "plain"))
    ),
    Form("replicate keyed", partial(_messages, form="keyed"), "IUD", partial="UI", moves=True),
    Form("replicate routed", partial(_messages, form="routed"), "IUDS", partial="UI", moves=True),
)
WITH_LAYOUT: Final = Form("replicate layout", partial(_messages, form="layout"), moves=True)
