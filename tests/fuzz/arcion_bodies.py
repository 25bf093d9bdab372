"""Random Arcion messages: all operations, flags, NULL texts, escapes, and what producers get wrong."""

from collections.abc import Mapping
from typing import Final

from tests.fuzz.bodies import Dice, Pairs, written

TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "one": {"id": "int64"},
    "pair": {"id": "int64", "name": "string"},
    "keys": {"a": "int32", "b": "int64", "c": "decimal(9,2)"},
    "four": {"id": "int64", "at": "timestamp", "on": "date", "é": "string"},
    "loose": {"name": "string", "flag": "boolean"},
    "filled": {"id": "int64", "name": "string", "n": "int16"},
}
"""Columns by name and type, by table; `tests.fuzz.differential` knows their keys and options."""

TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "int64": ("1", "2", "3", "-7", "9223372036854775807", "+4", "007"),
    "int32": ("1", "2", "3", "-7", "2147483647"),
    "int16": ("1", "2", "3", "-7"),
    "decimal(9,2)": ("1.50", "-2", "0.00", "1234567.89", "1.5"),
    "timestamp": ("2026-01-05 09:30:00", "2026-01-05T09:30:00.123456", "1970-01-01 00:00:00"),
    "date": ("2026-01-05", "1970-01-01"),
    "boolean": ("true", "false", "1", "0"),
    "string": (
        "x",
        "",
        "a longer text",
        "NULL",
        "Null",
        "é",
        "\\u00e9",
        "\\n",
        '\\"',
        "\\\\",
        "😀",
        "\\ud83d\\ude00",
        "{}",
        ":",
    ),
}
WRONG: Final = (
    *(
        '"x"',
        '""',
        '"1e5"',
        "1",
        "1.5",
        "-0",
        "-0.0",
        "1e5",
        "true",
        "null",
        "{}",
        "[]",
        '{"a":"1"}',
        '["1"]',
        '"\\u0000"',
    ),
    *(
        '"\\ud800"',
        '"9223372036854775808"',
        "123456789012345678901234567890",
        '" 1"',
        '"NaN"',
        '"null "',
        '"\\u006eull"',
    ),
)
FLAGS: Final = ("-0", '"0"', '"1"', '"2"', '"3"', "0", "1", "2", "3", '"4"', "null", "1.0", '""', "true")
CURSORS: Final = (
    *(
        '"{\\"position\\":1}"',
        '"p1"',
        '"p2"',
        '"p2"',
        '""',
        "null",
        '{"position":7}',
        '{"position":-0.0,"a":1.50}',
        "5",
        "[1]",
    ),
    *('{"a":{"b":[1,"x"]}}', '{"a":1,"a":2}', '"é"', '"\\u0000"'),
)
COUNTS: Final = ('{"insertCount":1}', '"{\\"insertCount\\":1}"', "null", "{}", "1", '{"a":1,"a":1}')
OPERATIONS: Final = ('"I"', '"I"', '"I"', '"U"', '"U"', '"U"', '"D"', '"D"', '"R"')


def arcion_message(table: str, dice: Dice) -> str:
    """Return one message; most of them are what a producer would send."""
    columns = TABLES[table]
    operation = '"X"' if dice.chance(0.005) else dice.of(OPERATIONS)
    if table == "loose" and dice.chance(0.95):  # without a key, only inserts can land
        operation = '"I"'
    is_complete = table != "filled" and dice.chance(0.95)
    flags = _flags(operation, columns, dice, is_complete=is_complete)
    before, after = _image(columns, dice), _image(columns, dice)
    if operation == '"U"' and dice.chance(0.97):  # the same key: all tables have theirs in front
        keep = 2 if table == "keys" else 1
        before[:keep] = after[:keep]
    if operation in {'"I"', '"R"'} and dice.chance(0.6):
        before = [(name, '"null"') for name in columns] if dice.chance(0.7) else []
    if operation == '"D"' and dice.chance(0.6):
        after = [(name, '"null"') for name in columns] if dice.chance(0.5) else []
    pairs: Pairs = [
        ("tableName", _address(table, dice)),
        ("opType", operation),
        ("cursor", dice.of(CURSORS) if dice.chance(0.15) else CURSORS[0]),
        ("before", _optional(before, dice)),
        ("after", _optional(after, dice)),
        ("exists", written(flags, dice)),
        ("operationcount", dice.of(COUNTS) if dice.chance(0.1) else COUNTS[0]),
    ]
    if dice.chance(0.1):
        del pairs[dice.of((2, 3, 6))]
    return written(pairs, dice)


def native_message(table: str, dice: Dice) -> str:
    """Return one message without `exists`, as Replicant writes it with `replication-format: NATIVE`."""
    columns = TABLES[table]
    operation = '"I"' if table == "loose" and dice.chance(0.95) else dice.of(OPERATIONS)
    before, after = _image(columns, dice), _image(columns, dice)
    keep = 2 if table == "keys" else 1
    if operation == '"U"':
        if dice.chance(0.9):
            before[:keep] = after[:keep]
        if dice.chance(0.5):
            before = before[:keep]
        if dice.chance(0.3):
            after = [pair for pair in after if dice.chance(0.6)]
    if operation in {'"I"', '"R"'} and dice.chance(0.98):
        before = []
    if operation == '"D"':
        after = [] if dice.chance(0.98) else after
        before = before[:keep] if dice.chance(0.5) else before
    pairs: Pairs = [
        ("tableName", _address(table, dice)),
        ("opType", operation),
        ("cursor", dice.of(CURSORS) if dice.chance(0.15) else CURSORS[7]),
        ("before", _optional(_with_json_nulls(before, dice), dice)),
        ("after", _optional(_with_json_nulls(after, dice), dice)),
    ]
    if dice.chance(0.05):
        pairs.append(("exists", "null"))
    return written(pairs, dice)


def _with_json_nulls(image: Pairs, dice: Dice) -> Pairs:
    is_json = dice.chance(0.3)
    return [(name, "null" if is_json and value == '"null"' else value) for name, value in image]


def _flags(operation: str, columns: Mapping[str, str], dice: Dice, *, is_complete: bool) -> Pairs:
    usual = {'"U"': '"3"', '"D"': '"2"'}.get(operation, '"1"')
    if dice.chance(0.01):
        return [(name, dice.of(FLAGS)) for name in columns]
    if dice.chance(0.1):
        usual = usual.strip('"')
    if operation == '"U"' and dice.chance(0.5):
        others = ('"3"', '"2"') if is_complete else ('"3"', '"2"', '"0"', '"1"')
        return [(name, usual if at == 0 else dice.of(others)) for at, name in enumerate(columns)]
    return [(name, usual) for name in columns]


def _image(columns: Mapping[str, str], dice: Dice) -> Pairs:
    return [(name, _value(kind, dice)) for name, kind in columns.items()]


def _value(kind: str, dice: Dice) -> str:
    chosen = dice.random()
    if chosen < 0.008:
        return dice.of(WRONG)
    return '"null"' if chosen < 0.1 and kind not in {"int64", "int32"} else f'"{dice.of(TEXTS[kind])}"'


def _optional(image: Pairs, dice: Dice) -> str:
    return "null" if not image and dice.chance(0.5) else written(image, dice)


def _address(table: str, dice: Dice) -> str:
    if dice.chance(0.96):
        return f'{{"namespace":{{"catalog":"shop","schema":"default_schema"}},"name":"{table}"}}'
    space = dice.of(
        (
            '{"catalog":"shop","schema":null}',
            '{"catalog":"shop"}',
            '{"hash":1,"catalog":"shop"}',
            "null",
            "{}",
            '{"schema":"shop"}',
        )
    )
    pairs: Pairs = [("namespace", space), ("name", f'"{dice.of((table, table, table.upper(), "", "a.b"))}"')]
    return written([*pairs, ("hash", dice.of(("1", "-5", "-0", "null")))] if dice.chance(0.3) else pairs, dice)
