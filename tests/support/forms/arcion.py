"""Arcion: its JSON with full and partial images, its NATIVE form, and its CSV."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from app.domain.model.change import Change
from app.formats.arcion.csv import decode_arcion_csv
from app.formats.arcion.messages import decode_arcion
from app.ingest.columnar import Asked, ColumnarBody
from app.ingest.readers import ArcionJson
from mirrorgate.parameters import CsvLayout, CsvMode
from tests.support.forms.form import ANYONE, NAME, Events, Form, key_columns
from tests.support.forms.source_histories import Event, Row, SourceTable, as_text
from tests.support.samples.messages import Message, arcion

Image = Mapping[str, str]

_NATIVE_CURSOR: Final = {"extractorId": 0, "log": "log-bin.000010", "position": 7461, "v": 2}


def image(table: SourceTable, row: Row | None) -> Image | None:
    """Return a row as texts, NULL as the text `null`."""
    if row is None:
        return None
    return {name: "null" if value is None else as_text(value) for name, value in zip(table.types, row, strict=True)}


def _full(table: SourceTable, event: Event) -> Message:
    return arcion(str(NAME), image(table, event.old), image(table, event.new))


def _partial(table: SourceTable, event: Event) -> Message:
    """Write the key before an update and what its statement set after it; all other columns hold `null`."""
    message, given = _full(table, event), _given(table, event)
    if given is None:
        return message
    keys, before, after = key_columns(table), message["before"], message["after"]
    exists = {name: 2 * (name in keys) + (name in given) for name in table.types}
    return message | {
        "exists": {name: str(flag) for name, flag in exists.items()},
        "before": {name: value if exists[name] & 2 else "null" for name, value in before.items()},
        "after": after and {name: value if exists[name] & 1 else "null" for name, value in after.items()},
    }


def _native(table: SourceTable, event: Event) -> Message:
    """Write full images without `exists` and `operationcount`, as Replicant's `replication-format: NATIVE` does."""
    message = _full(table, event)
    del message["exists"]
    return message | {"cursor": _NATIVE_CURSOR}


def _native_partial(table: SourceTable, event: Event) -> Message:
    """Write only the key before an update, and only what its statement set after it."""
    message, given = _native(table, event), _given(table, event)
    if given is None:
        return message
    before, after = message["before"], message["after"]
    return message | {
        "before": {name: before[name] for name in key_columns(table)},
        "after": after and {name: after[name] for name in given},
    }


def _given(table: SourceTable, event: Event) -> list[str] | None:
    """Return the columns that an update sets, none for a delete; None for an insert."""
    if event.old is None:
        return None
    pairs = zip(table.types, event.old, event.new or event.old, strict=True)
    return [name for name, old, new in pairs if old != new]


def _writer(message: Callable[[SourceTable, Event], Message]) -> Callable[[SourceTable, Events], bytes]:
    def write(table: SourceTable, events: Events) -> bytes:
        return json.dumps([_cursor(at) | message(table, event) for at, event in enumerate(events)]).encode()

    return write


def _cursor(position: int) -> Message:
    return {"cursor": {"log": "1", "position": position, "timestamp": 1_767_600_000_000 + position}}


def _read(_: SourceTable, body: bytes) -> Sequence[Change]:
    return [entry.change for entry in decode_arcion(body)]


def _request(body: bytes) -> Asked[ColumnarBody]:
    return Asked(ArcionJson(body), ANYONE)


def quoted(value: Any) -> str:
    """Return a CSV field; NULL is the only one without quotes."""
    return "NULL" if value is None else '"' + as_text(value).replace('"', '""') + '"'


def _write_csv(table: SourceTable, events: Events) -> bytes:
    return "\n".join(_csv_records(table, events)).encode()


def _csv_records(table: SourceTable, events: Events) -> Iterable[str]:
    for event in events:
        flag = str((event.new is not None) + 2 * (event.old is not None))
        nothing: Row = (None,) * len(table.types)
        pairs = zip(event.new or nothing, event.old or nothing, strict=True)
        fields = [field for new, old in pairs for field in (quoted(new), quoted(old), flag)]
        operation = "U" if flag == "3" else "I" if flag == "1" else "D"
        yield ",".join([*fields, operation, quoted('{"log": "1"}'), quoted("{}")])


def _read_csv(table: SourceTable, body: bytes) -> Sequence[Change]:
    layout = CsvLayout(CsvMode.REALTIME, tuple(table.types))
    return decode_arcion_csv(body, layout, trimmed_columns(table)).changes


def trimmed_columns(table: SourceTable) -> frozenset[str]:
    """Return the columns in which blanks around a CSV value do not count."""
    return frozenset(name for name, of in table.types.items() if of not in {"string", "json"})


FULL: Final = Form(_writer(_full), _read, _request)
PARTIAL: Final = Form(_writer(_partial), _read, _request, is_partial=True)
NATIVE: Final = Form(_writer(_native), _read, _request)
NATIVE_PARTIAL: Final = Form(_writer(_native_partial), _read, _request, is_partial=True)
CSV: Final = Form(_write_csv, _read_csv)
