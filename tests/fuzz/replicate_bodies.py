"""Random Replicate data messages: three envelopes, all operations, masks, typed values, and what tasks get wrong."""

from collections.abc import Mapping
from typing import Final

from tests.fuzz.bodies import Dice, Pairs, written

TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "S.ONE": {"ID": "INT8"},
    "S.PAIR": {"ID": "INT8", "NAME": "WSTRING"},
    "S.KEYS": {"A": "INT4", "B": "UINT1", "C": "NUMERIC"},
    "S.FOUR": {"ID": "INT8", "AT": "DATETIME", "ON": "DATE", "é": "WSTRING"},
    "S.FILLED": {"ID": "INT8", "NAME": "WSTRING", "N": "INT2"},
    "S.PLAIN": {"ID": "INT8", "NAME": "WSTRING", "OK": "BOOLEAN"},
}
"""Columns by name and Replicate type, by table; no metadata message has described S.PLAIN."""
STYLES: Final = ("enveloped", "bare", "wrapped", "snapshot")
KINDS: Final = tuple(f"{table} {style}" for table in TABLES for style in STYLES)
"""What most bodies have in common: the table, and the envelope of their messages or that they are snapshot rows."""
UNDESCRIBED: Final = "S.PLAIN"
EXTERNAL_ID: Final = "5"
"""The external schema id of S.KEYS."""

VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "INT8": ("1", "2", "3", "-7", "9223372036854775807", '"4"'),
    "INT4": ("1", "2", "3", "-7", "2147483647"),
    "INT2": ("1", "2", "3", "-7", '"8"'),
    "UINT1": ("0", "1", "255", '"7"'),
    "NUMERIC": ("1.50", "-2", "0.00", '"1234567.89"', '"1.5"', "0", "-0", "-0.0", "1e2", "15.000"),
    "DATETIME": ('"2026-01-05 09:30:00"', '"2026-01-05T09:30:00.123456"', '"1970-01-01 00:00:00"'),
    "DATE": ('"2026-01-05"', '"1970-01-01"'),
    "BOOLEAN": ("true", "false", '"true"', "1", "0"),
    "WSTRING": (
        *(
            '"x"',
            '""',
            '"a longer text"',
            '"null"',
            '"é"',
            '"\\u00e9"',
            '"\\n"',
            '"\\""',
            '"\\\\"',
            '"😀"',
            '"\\ud83d\\ude00"',
        ),
        *('"{}"', '":"', "12", "1.0", "true"),
    ),
}
WRONG: Final = (
    *(
        '"x"',
        '""',
        '"1e5"',
        "300",
        "-1",
        "1.5",
        "-0.0",
        "1e400",
        "true",
        "{}",
        "[]",
        '{"a":"1"}',
        '["1"]',
        '"\\u0000"',
        '"\\ud800"',
    ),
    *("9223372036854775808", "123456789012345678901234567890", '" 1"', '"NaN"', "1E-7", "[" * 20 + "]" * 20),
)
OPERATIONS: Final = ("INSERT", "INSERT", "INSERT", "UPDATE", "UPDATE", "UPDATE", "DELETE", "DELETE")
SNAPSHOTS: Final = ("REFRESH", "READ")
OTHERS: Final = ("insert", "Update", "REPLACE", "", "BEFOREIMAGE")
SEQUENCES: Final = ('"20260105093000000000000000000000001"', '"2"', '"3"', "null", '""', "7")
LAST_EVENTS: Final = ("true", "true", "true", "false", '"false"', '"true"', '"FALSE"', "null", "0")
MASKS: Final = ('"00"', '"01"', '"0F"', '"FF"', '"ff"', '""', "null", '"x"', "3", '"1000"')


def schema_id(table: str) -> str:
    """Return the schema id under which a table was described."""
    return f"id of {table}"


def replicate_message(kind: str, dice: Dice) -> str:
    """Return one data message; most of them are what a task would send."""
    table, style = kind.split(" ")
    columns = TABLES[table]
    operation = dice.of(SNAPSHOTS if (style == "snapshot") is dice.chance(0.99) else OPERATIONS)
    if dice.chance(0.01):
        operation = dice.of(OTHERS)
    given = _given(table, operation, columns, dice)
    data, before = [[(name, _value(columns[name], dice)) for name in given] for _ in range(2)]
    if dice.chance(0.97):  # the same key; all tables have theirs in front
        keep = 2 if table == "S.KEYS" else 1
        before[:keep] = data[:keep]
    body: Pairs = [
        ("data", _image(data, dice)),
        ("beforeData", _image(before, dice) if operation == "UPDATE" and dice.chance(0.7) else "null"),
        ("headers", written(_headers(table, operation, given, dice), dice)),
    ]
    if dice.chance(0.03):
        body.append(("headers_operation", '"INSERT"'))
    if table == UNDESCRIBED or style == "bare" or dice.chance(0.1):
        schema, name = table.split(".")
        body += [("schema", f'"{schema}"'), ("table", f'"{name if dice.chance(0.99) else name.lower()}"')]
    if style == "bare":
        return written(body, dice)
    told = "null" if table == UNDESCRIBED or dice.chance(0.02) else f'"{schema_id(table)}"'
    if dice.chance(0.01):
        told = f'"{schema_id(dice.of([*TABLES]))}"'
    envelope: Pairs = [("messageSchemaId", told), ("message", written(body, dice))]
    if style != "wrapped":
        kind_of = '"DT"' if dice.chance(0.99) else dice.of(('"MD"', "null", '"dt"'))
        envelope = [("magic", '"atMSG"'), ("type", kind_of), ("headers", "null"), *envelope]
        if dice.chance(0.9):
            envelope.append(("messageSchema", "null" if dice.chance(0.97) else '{"a":1}'))
    return written(envelope, dice)


def _given(table: str, operation: str, columns: Mapping[str, str], dice: Dice) -> list[str]:
    """Return the columns that the images have: all of them, except in some updates and deletes."""
    names = [*columns]
    share = 0.3 if operation == "DELETE" or (table == "S.FILLED" and operation == "UPDATE") else 0.03
    if not dice.chance(share):
        return names
    keep = 2 if table == "S.KEYS" else 1
    return [name for at, name in enumerate(names) if at < keep or dice.chance(0.5)]


def _headers(table: str, operation: str, given: list[str], dice: Dice) -> Pairs:
    bits = sum(1 << at for at, name in enumerate(TABLES[table]) if name in given)
    full = (1 << len(TABLES[table])) - 1
    column_mask = f'"{bits:02X}"' if dice.chance(0.5) or bits != full else "null"
    pairs: Pairs = [
        ("operation", f'"{operation}"'),
        ("changeSequence", dice.of(SEQUENCES[:3]) if dice.chance(0.95) else dice.of(SEQUENCES)),
        ("timestamp", '"2026-01-05T09:30:00.000"'),
        ("streamPosition", '"00000017.0a1b2c3d.00000001"'),
        (
            "transactionId",
            '"00000000000000000000000A0B0C0D0E"' if dice.chance(0.97) else dice.of(("null", "7", '{"a":1}')),
        ),
        ("changeMask", f'"{full & ~1 & bits:X}"' if dice.chance(0.3) and operation == "UPDATE" else "null"),
        ("columnMask", column_mask),
        ("transactionEventCounter", "1"),
        ("transactionLastEvent", dice.of(LAST_EVENTS[:4]) if dice.chance(0.9) else dice.of(LAST_EVENTS)),
    ]
    if dice.chance(0.03):
        pairs[dice.of((5, 6))] = (dice.of(("changeMask", "columnMask")), dice.of(MASKS))
    if table == "S.KEYS" or dice.chance(0.02):
        pairs.append(
            ("externalSchemaId", f'"{EXTERNAL_ID}"' if dice.chance(0.97) else dice.of((EXTERNAL_ID, '"6"', "null")))
        )
    if dice.chance(0.1):
        del pairs[dice.of((1, 2, 4, 7, 8))]
    return pairs


def _value(kind: str, dice: Dice) -> str:
    chosen = dice.random()
    if chosen < 0.008:
        return dice.of(WRONG)
    return "null" if chosen < 0.1 and kind not in {"INT8", "INT4", "UINT1"} else dice.of(VALUES[kind])


def _image(image: Pairs, dice: Dice) -> str:
    return dice.of(("null", "[]", "{}", '"x"')) if dice.chance(0.005) else written(image, dice)
