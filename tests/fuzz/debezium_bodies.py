"""Random Debezium envelopes: with and without schema and key, all operations, semantic types, and what is wrong."""

import json
from collections.abc import Mapping
from typing import Any, Final

from benchmarks.loads.debezium import envelope_schema
from tests.fuzz.bodies import Dice, Pairs, written

_NAMED: Final[Mapping[str, dict[str, Any]]] = {
    "decimal": {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "9"},
    },
    "date": {"type": "int32", "name": "io.debezium.time.Date"},
    "millis": {"type": "int64", "name": "io.debezium.time.Timestamp"},
    "micros": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    "nanos": {"type": "int64", "name": "io.debezium.time.NanoTimestamp"},
    "zoned": {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
    "time": {"type": "int64", "name": "io.debezium.time.MicroTime"},
    "json": {"type": "string", "name": "io.debezium.data.Json"},
}
"""Connect fields by kind; other kinds are types of Connect."""

TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "s.one": {"id": "int64"},
    "s.pair": {"id": "int64", "name": "string"},
    "s.keys": {"a": "int32", "b": "int64", "c": "decimal"},
    "s.times": {"id": "int64", "on": "date", "ms": "millis", "at": "micros", "ns": "nanos", "seen": "zoned"},
    "s.kinds": {"id": "int32", "flag": "boolean", "x": "double", "blob": "bytes", "doc": "json", "é": "time"},
    "s.filled": {"id": "int64", "name": "string", "n": "int16"},
    "s.odd": {"id": "int64", "schema": "string", "payload": "json", "key": "string", "value": "string"},
}
"""Columns by name and kind, by table."""
STYLES: Final = (
    "schema",
    "keyed schema",
    "bare",
    "keyed bare",
    "flat schema",
    "keyed flat schema",
    "flat",
    "keyed flat",
)
KINDS: Final = tuple(f"{table} {style}" for table in TABLES for style in STYLES)
"""What most bodies have in common: the table, and the form of their elements."""

_PLACEHOLDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "bytes": ('"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="',),
    "json": ('"__debezium_unavailable_value"',),
    "string": ('"__debezium_unavailable_value"', '"\\u005f_debezium_unavailable_value"', '"\\/dbz"'),
}
VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "int64": ("1", "2", "3", "-7", "9223372036854775807"),
    "int32": ("1", "2", "3", "-7", "2147483647"),
    "int16": ("1", "2", "3", "-7"),
    "decimal": ('"AA=="', '"Aci="', '"/zg="', '"ADE="', "1.50", '"1.5"', '"f/////////////8="'),
    "date": ("0", "20458", "-719162", "1", "20459"),
    "millis": ("0", "1767605400000", "1767605400123", "-1", "-62135596800001"),
    "micros": ("0", "1767605400000000", "1767605400123456", "-1", "1", "9223372036854775807"),
    "nanos": ("0", "1767605400000000000", "1767605400123456000", "-1000"),
    "zoned": ('"2026-01-05T09:30:00Z"', '"2026-01-05T09:30:00.123456Z"', '"2026-01-05T09:30:00+01:00"'),
    "time": ("0", "34200000000", "34200123456"),
    "boolean": ("true", "false", "1", "0"),
    "double": ("1.5", "0.0", "-0.0", "2", "1e5", '"NaN"'),
    "bytes": ('"AQI="', '""', '"/w=="'),
    "json": ('"{}"', '"{\\"a\\":1}"', '"[1, 2]"', '"null"'),
    "string": (
        *('"x"', '""', '"a longer text"', '"null"', '"é"', '"\\u00e9"', '"\\n"', '"\\""', '"\\\\"', '"😀"'),
        '"\\"schema\\":{"',
    ),
}
WRONG: Final = (
    *('"x"', '""', "1.5", "-0", "-0.0", "1e400", "true", "{}", "[]", '{"a":"1"}', '["1"]', '"\\u0000"', '"\\ud800"'),
    *("9223372036854775808", "123456789012345678901234567890", '" 1"', '"AA"', '{"schema":{"type":"int32"}}', "null"),
    *('{"scale":2,"value":"ADE="}', "[" * 20 + "]" * 20),
)
OPERATIONS: Final = ('"c"', '"c"', '"c"', '"r"', '"u"', '"u"', '"u"', '"d"', '"d"')
SOURCES: Final = (
    *('"lsn":24023128,"xmin":null', '"gtid":null,"file":"bin.3","pos":154,"row":0', '"scn":"12","snapshot":"last"'),
    *('"lsn":0', '"lsn":-0', '"snapshot":true', '"sequence":"[\\"1\\",\\"2\\"]"', '"lsn":1,"lsn":2', '"unknown":1'),
    *('"lsn":7,"xmin":null', '"lsn7":24023128,"xmin":null', '"lsn":24023128,"xmin":null,"db1":"s"'),
    *(
        '"lsn":1.0',
        '"file":"\\u0000"',
        '"lsn":{}',
        '"schema":{"a":1}',
        '"connector":"mongodb"',
        '"connector":"mongodb1"',
    ),
)


def columns_of(table: str) -> Mapping[str, dict[str, Any]]:
    """Return the Connect fields of a table; the first column is required."""
    fields = {name: _NAMED.get(kind, {"type": kind}) for name, kind in TABLES[table].items()}
    return {name: {**of, "optional": at > 0} for at, (name, of) in enumerate(fields.items())}


SCHEMAS: Final = {
    table: json.dumps(envelope_schema(table, columns_of(table)), separators=(",", ":")) for table in TABLES
}
ADDED: Final = {"__op": "string", "__deleted": "string", "__schema": "string", "__table": "string", "__lsn": "int64"}
"""Fields that the transformation adds to a flattened row."""

FLAT_SCHEMAS: Final = {
    table: json.dumps(
        {
            "type": "struct",
            "fields": [
                *({**of, "field": name} for name, of in columns_of(table).items()),
                *({"type": kind, "optional": True, "field": name} for name, kind in ADDED.items()),
            ],
            "name": "srv.Value",
        },
        separators=(",", ":"),
    )
    for table in TABLES
}
OTHER_SCHEMAS: Final = ("null", "0", "-0", "1", "{}", '{"type":"string"}', '{"type":"struct","type":"struct"}')


def debezium_message(kind: str, dice: Dice) -> str:
    """Return one element; most of them are what a connector writes."""
    table, _, style = kind.partition(" ")
    if dice.chance(0.01):
        return dice.of(("null", "{}", '{"ts_ms":1}', '{"schema":null,"payload":null}', '{"key":null,"value":null}'))
    if dice.chance(0.02):
        style = dice.of(STYLES)
    after = _image(table, dice)
    message = _flattened(table, after, dice) if "flat" in style else _event(table, after, dice)
    if "schema" in style:
        own = (FLAT_SCHEMAS if "flat" in style else SCHEMAS)[table]
        schema = dice.of(OTHER_SCHEMAS) if dice.chance(0.01) else own
        message = written([("schema", schema), ("payload", message)], dice)
    return _record(table, style, after, message, dice) if "keyed" in style else message


def _record(table: str, style: str, after: Pairs, message: str, dice: Dice) -> str:
    keys = after[: 2 if table == "s.keys" else 1]
    key = written(keys if dice.chance(0.97) else _image(table, dice), dice)
    if "schema" in style:
        fields = [{**columns_of(table)[name], "field": name} for name, _ in keys]
        schema = json.dumps({"type": "struct", "fields": fields, "optional": False, "name": f"{table}.Key"})
        key = written([("schema", schema), ("payload", key)], dice)
    if dice.chance(0.02):
        key = dice.of(("null", '"1"', "1", '{"__dbz__physicalTableIdentifier":"x"}', "{}", "[]"))
    return written([("key", key), ("value", "null" if dice.chance(0.02) else message)], dice)


def _flattened(table: str, row: Pairs, dice: Dice) -> str:
    schema, _, name = table.partition(".")
    added: Pairs = [
        ("__op", dice.of(('"t"', "1", "null")) if dice.chance(0.01) else dice.of(OPERATIONS)),
        ("__deleted", dice.of(("true", "1", "null", '"x"')) if dice.chance(0.03) else '"false"'),
        ("__schema", f'"{schema}"'),
        ("__table", f'"{name}"'),
        ("__lsn", dice.of(("-0", "0", "1.0", "{}")) if dice.chance(0.01) else "24023128"),
    ]
    if dice.chance(0.05):
        del added[dice.of((0, 1, 2, 3, 4))]
    if dice.chance(0.02):
        added.append(dice.of((("__source_table", '"t"'), ("__op", '"c"'), ("__unknown", "1"), ("__source_ts_ms", "5"))))
    return written([*row, *added], dice)


def _event(table: str, after: Pairs, dice: Dice) -> str:
    operation = dice.of(('"t"', '"m"', '"x"', "null")) if dice.chance(0.005) else dice.of(OPERATIONS)
    before = _image(table, dice)
    if dice.chance(0.95):  # the same key: all tables have theirs in front
        keep = 2 if table == "s.keys" else 1
        before[:keep] = after[:keep]
    shown_before = written(before, dice) if operation in {'"u"', '"d"'} and dice.chance(0.9) else _nothing(dice)
    shown_after = _nothing(dice) if operation == '"d"' else written(after, dice)
    pairs: Pairs = [
        ("before", shown_before),
        ("after", shown_after),
        ("source", _source(table, dice)),
        ("transaction", '{"id":"571:1","total_order":1,"data_collection_order":1}' if dice.chance(0.05) else "null"),
        ("op", operation),
        ("ts_ms", dice.of(("1767605400215", "1767605400215", "null", "-0", '"x"'))),
    ]
    if dice.chance(0.05):
        del pairs[dice.of((0, 3, 5))]
    return written(pairs, dice)


def _nothing(dice: Dice) -> str:
    return "{}" if dice.chance(0.1) else "null"


def _source(table: str, dice: Dice) -> str:
    schema, _, name = table.partition(".")
    if dice.chance(0.02):
        name = dice.of((name.upper(), "", "a.b", "unknown", f"{name}1"))
    named = f'"ts_ms":1767605400000,"db":"{schema}","schema":"{schema}","table":"{name}"'
    position = dice.of(SOURCES) if dice.chance(0.06) else SOURCES[0]
    connector = "" if position.startswith('"connector"') else '"connector":"postgresql",'
    return "{" + connector + named + "," + position + "}"


def _image(table: str, dice: Dice) -> Pairs:
    return [(name, _value(kind, dice, at)) for at, (name, kind) in enumerate(TABLES[table].items())]


def _value(kind: str, dice: Dice, at: int) -> str:
    chosen = dice.random()
    if chosen < 0.006:
        return dice.of(WRONG)
    if chosen < 0.02 and kind in _PLACEHOLDERS:
        return dice.of(_PLACEHOLDERS[kind])
    return "null" if chosen < 0.1 and at > 1 else dice.of(VALUES[kind])
