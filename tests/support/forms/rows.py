"""Plain rows with `__op__`: JSON, NDJSON, CSV and Arrow columns; and Arrow columns of an initial load."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from tests.support.forms.arcion import quoted
from tests.support.forms.form import ARROW, CSV, ENCODER, JSON, NAMES, Change, Form, Request, Source
from tests.support.forms.replicate import image
from tests.support.forms.values import Column
from tests.support.samples.arrow_streams import stream


def _columns_of(source: Source, changes: Sequence[Change]) -> list[Column]:
    """Return the columns that all rows of a request give."""
    given = next((change.given for change in changes if change.given is not None), None)
    return [column for column in source.table.sent if given is None or column.name in given]


def _operation(source: Source, change: Change) -> str:
    name = NAMES[change.operation]
    return source.rng.choice((name, name.upper(), change.operation))


def _json(source: Source, changes: Sequence[Change], *, lines: bool) -> Request:
    written = []
    for change in changes:
        row, table = change.new or change.old or {}, source.table
        columns = table.given(change) if change.new is not None else table.key_columns
        written.append((image(source, row, columns) or {}) | {"__op__": _operation(source, change)})
        change.tell(None, None)
    body = b"\n".join(map(ENCODER.encode, written)) if lines else ENCODER.encode(written)
    return Request("rows", {"table": source.table.name}, "application/x-ndjson" if lines else JSON, body)


def _csv(source: Source, changes: Sequence[Change]) -> Request:
    delimiter = source.rng.choice((",", ";", "\t"))
    columns = _columns_of(source, changes)
    header = ['"' + column.name.replace('"', '""') + '"' for column in columns]
    lines = [delimiter.join([*header, "__op__"])]
    for change in changes:
        row = change.new or change.old or {}
        values = [(source.value(row, column), column) for column in columns]
        fields = [source.rng.choice(("", "NULL")) if value is None else quoted(value, c, source) for value, c in values]
        lines.append(delimiter.join([*fields, _operation(source, change)]))
        change.tell(None, None)
    return Request("rows", {"table": source.table.name, "delimiter": delimiter}, CSV, "\n".join(lines).encode())


def _arrays(source: Source, changes: Sequence[Change], columns: Sequence[Column]) -> dict[str, pa.Array]:
    rows = [change.new or change.old or {} for change in changes]
    kept = [column for column in columns if column not in source.table.excluded]
    return {column.name: pa.array([row.get(column.name) for row in rows], _encoded(column, source)) for column in kept}


def _encoded(column: Column, source: Source) -> pa.DataType:
    """Return the type of a column as one of the libraries for data frames writes it."""
    if not (pa.types.is_string(column.arrow) or pa.types.is_binary(column.arrow)):
        return column.arrow
    view = pa.string_view() if pa.types.is_string(column.arrow) else pa.binary_view()
    return source.rng.choice((column.arrow, view, pa.dictionary(pa.int32(), column.arrow)))


def _changed_columns(source: Source, changes: Sequence[Change]) -> Request:
    columns = _arrays(source, changes, _columns_of(source, changes))
    columns["__op__"] = pa.array([_operation(source, change) for change in changes])
    for change in changes:
        change.tell(None, None)
    return Request("rows", {"table": source.table.name}, ARROW, stream(pa.table(columns)))


def _loaded_columns(source: Source, changes: Sequence[Change]) -> Request:
    for change in changes:
        change.tell(None, None)
    body = stream(pa.table(_arrays(source, changes, source.table.columns)))
    return Request("arrow", {"table": source.table.name}, ARROW, body)


FORMS: Final = (
    Form("rows json", partial(_json, lines=False), "IUDR", partial="URI"),
    Form("rows ndjson", partial(_json, lines=True), "IUDR", partial="URI"),
    Form("rows csv", _csv, "IUDR", partial="*"),
    Form("rows arrow", _changed_columns, "IUDR", partial="*", is_text=False),
    Form("arrow", _loaded_columns, "S", is_text=False),
)
