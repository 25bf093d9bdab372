"""Every column type of Postgres in every mode of the connector for decimals and times, and both for bytes."""

import json
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

from tests.model.gateway import Gateway
from tests.real.counterparts import debezium_version
from tests.real.debezium import PostgresSource, engine, landed, mirrored, pass_fence
from tests.real.report import Report

DECIMALS = ("precise", "double", "string")
TIMES = ("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")
BYTES = ("bytes", "hex")
ROWS = 12
Mode = tuple[str, str, str]
"""One of `DECIMALS`, `TIMES` and `BYTES`."""

COLUMNS: dict[str, tuple[str, list[str]]] = {
    "small": ("smallint", ["-32768", "32767"]),
    "whole": ("int", ["-2147483648", "2147483647"]),
    "large": ("bigint", ["-9223372036854775808", "9223372036854775807", "9007199254740993"]),
    "oid_": ("oid", ["4294967295"]),
    "scaled": ("numeric(12,4)", ["-99999999.9999", "0.0001", "0"]),
    "wide": ("numeric(38,9)", ["12345678901234567890123456789.123456789", "-0.000000001"]),
    "unscaled": ("numeric", ["3.14159265358979323846264338327950288419716939937510582", "-100", "0.10"]),
    "negative": ("numeric(8,-2)", ["123400", "-500"]),
    "small_scale": ("numeric(3,5)", ["0.00123", "-0.00001"]),
    "money_": ("money", ["-92233720368547758.07", "12.34"]),
    "single": ("real", ["3.4028235e38", "-0", "1.17549435e-38", "NaN", "-Infinity"]),
    "float_": ("double precision", ["0.1", "-1.7976931348623157e308", "5e-324", "NaN", "Infinity"]),
    "flag": ("boolean", ["true", "false"]),
    "fixed": ("char(5)", ["ab", "", "abcde"]),
    "varying": ("varchar(10)", ["null", "\u00e9\U0001f600", " x "]),
    "long_text": ("text", ["", 'a"b\\c\n\t\u2028', "__debezium"]),
    "bytes_": ("bytea", ["\\x", "\\x00ff10", "\\xdeadbeef"]),
    "day": ("date", ["0001-01-01", "9999-12-31", "1500-03-01", "2024-02-29"]),
    "clock": ("time", ["00:00:00", "23:59:59.999999", "12:34:56.7"]),
    "clock3": ("time(3)", ["23:59:59.999", "00:00:00.001"]),
    "clock_zone": ("timetz", ["23:59:59.999999+00", "01:02:03.5+14", "04:05:06-08:30"]),
    "moment": ("timestamp", ["2024-02-29 23:59:59.999999", "1969-12-31 23:59:59.5", "1700-01-01 00:00:00.000001"]),
    "moment0": ("timestamp(0)", ["2024-02-29 23:59:59", "1969-12-31 23:59:59"]),
    "moment3": ("timestamp(3)", ["2024-02-29 23:59:59.999", "1969-12-31 23:59:59.001"]),
    "moment_zone": (
        "timestamptz",
        ["2024-02-29 23:59:59.999999+05:30", "0001-01-02 00:00:00+00", "9999-12-31 00:00:00+00"],
    ),
    "moment_zone0": ("timestamptz(0)", ["2024-02-29 23:59:59-03"]),
    "span": ("interval", ["1 year 2 months 3 days 04:05:06.789", "-1 day", "00:00:00"]),
    "uuid_": ("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    "json_": ("json", ['{"b": 1, "a": [1.10, null, "x"]}', "null", "1e400"]),
    "jsonb_": ("jsonb", ['{"b": 12345678901234567890.123, "a": "\u00e9"}', "[]", '"x"']),
    "inet_": ("inet", ["192.168.0.1/24", "::1"]),
    "cidr_": ("cidr", ["10.0.0.0/8"]),
    "mac": ("macaddr", ["08:00:2b:01:02:03"]),
    "mac8": ("macaddr8", ["08:00:2b:01:02:03:04:05"]),
    "one_bit": ("bit(1)", ["1", "0"]),
    "bits": ("bit(11)", ["10000000001", "00000000011"]),
    "more_bits": ("varbit(20)", ["101", "", "11111111111111111111"]),
    "int_range": ("int4range", ["[1,5)", "empty"]),
    "num_range": ("numrange", ["[1.5,)"]),
    "moment_range": ("tsrange", ["[2024-01-01 00:00:00,2024-01-02 00:00:00)"]),
    "zone_range": ("tstzrange", ["[2024-01-01 00:00:00+00,)"]),
    "day_range": ("daterange", ["[2024-01-01,2024-01-03)"]),
    "point_": ("point", ["(1.5,-2)"]),
    "mood": ("mood", ["happy", "it's"]),
    "positive_": ("positive", ["7"]),
    "ints": ("int[]", ["{1,NULL,-3}", "{}"]),
    "texts": ("text[]", ['{a,"b,c",NULL,""}']),
    "numbers": ("numeric(10,2)[]", ["{1.50,-2.25,NULL}"]),
    "days": ("date[]", ["{2024-02-29,0001-01-01}"]),
    "moments": ("timestamp[]", ['{"2024-02-29 23:59:59.999999"}']),
    "flags": ("boolean[]", ["{t,f,NULL}"]),
    "uuids": ("uuid[]", ["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"]),
    "near": ("vector(3)", ["[1,2.5,-3]"]),
    "half": ("halfvec(2)", ["[1,0.5]"]),
    "sparse": ("sparsevec(5)", ["{1:1.5,5:-2}/5"]),
    "words": ("tsvector", ["'a':1 'b':2"]),
}
"""Name, type of Postgres, and values as its text."""


NUMERIC = ("scaled", "wide", "unscaled", "negative", "small_scale", "money_")
MILLISECONDS = {"clock", "moment", "moments"}
"""Columns with digits that `time.precision.mode=connect` cuts off."""


def sql_row(number: int) -> str:
    """Return a row. Those with a number that is a multiple of 3 take values that others do not, the last has none."""
    if number == ROWS - 1:
        return f"({number}{', NULL' * len(COLUMNS)})"
    values = ("'" + samples[number % len(samples)].replace("'", "''") + "'" for _, samples in COLUMNS.values())
    return f"({number}, {', '.join(values)})"


SET_UP = (
    "CREATE EXTENSION vector",
    "CREATE TYPE mood AS ENUM ('happy', 'it''s')",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "SET timezone TO 'UTC'",
)
"""What a database needs before tables of all types."""


def make_types(source: PostgresSource, schema: str) -> None:
    """Make a schema with a table of all types, and every other row."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    source.run(
        f"CREATE SCHEMA {schema}",
        f"CREATE TABLE {schema}.types (id int PRIMARY KEY, {columns})",
        f"INSERT INTO {schema}.types VALUES {', '.join(map(sql_row, range(0, ROWS, 2)))}",
    )


def change_types(source: PostgresSource, schema: str) -> None:
    """Insert the other rows, and give some rows the values of others."""
    assignments, types = ", ".join(f"{name} = new.{name}" for name in COLUMNS), f"{schema}.types"
    source.run(
        f"INSERT INTO {types} VALUES {', '.join(map(sql_row, range(1, ROWS, 2)))}",
        f"UPDATE {types} t SET {assignments} FROM {types} new WHERE t.id % 3 = 0 AND new.id = t.id + 2",
    )


def compare_types(gateway: Gateway, source: PostgresSource, schema: str, mode: Mode, with_z: Sequence[str] = ()) -> int:
    """Compare landing files and Delta mirror of a table of all types with the source; return its rows.

    The values of the columns `with_z` land with a Z, which the source does not print.
    """
    printed = source.rows(f"SELECT id, {', '.join(f'{name}::text' for name in COLUMNS)} FROM {schema}.types", "id")
    wrong = []
    for table in (landed(gateway, f"{schema}.types", "id"), mirrored(gateway, f"{schema}.types", "id")):
        assert table.keys() == printed.keys()
        for (key, row), name in product(printed.items(), COLUMNS):
            value = table[key][name]
            value = value.replace("Z", "") if name in with_z and value else value
            expected, have = wanted(name, row[name], *mode), found(name, value, mode[0])
            if repr(expected) != repr(have) and expected != have:
                wrong.append((mode, name, row[name], expected, have))
    assert not wrong, ({name for _, name, *_ in wrong}, wrong[:20])
    return len(printed)


def wanted(name: str, text: str | None, decimals: str, times: str, binary: str) -> Any:
    """Return what documentation promises for a value that Postgres prints as `text`."""
    if text is None:
        return None
    if name in NUMERIC:
        number = Decimal(text.replace("$", "").replace(",", ""))
        return float(number) if decimals == "double" else number
    if name == "numbers" and decimals != "precise":
        items = [None if item is None else str(item) for item in json.loads("[1.50,-2.25,null]", parse_float=str)]
        return items if decimals == "string" else [item and float(item) for item in items]
    if name == "bytes_":
        return bytes.fromhex(text[2:]) if binary == "bytes" else text[2:]
    if name in MILLISECONDS and times == "connect":
        text = text.replace("999999", "999").replace("000001", "000")
    return READ.get(name, str)(text)


def moment(text: str) -> datetime:
    read = datetime.fromisoformat(text)
    return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)


def clock_zone(text: str) -> time:
    return datetime.fromisoformat(f"2000-01-01 {text}").astimezone(UTC).time()


def little_endian(text: str) -> bytes:
    number = int(text or "0", 2)
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("small", "whole", "large", "oid_", "positive_"), int),
    "float_": float,
    "single": lambda text: struct.unpack("f", struct.pack("f", float(text)))[0],
    "flag": "true".__eq__,
    "one_bit": "1".__eq__,
    "fixed": lambda text: text.ljust(5),
    "day": date.fromisoformat,
    **dict.fromkeys(("clock", "clock3"), time.fromisoformat),
    "clock_zone": clock_zone,
    **dict.fromkeys(("moment", "moment0", "moment3", "moment_zone", "moment_zone0"), moment),
    "span": {"1 year 2 mons 3 days 04:05:06.789": 37091106789000, "-1 days": -86400000000, "00:00:00": 0}.__getitem__,
    "inet_": lambda text: text.removesuffix("/128"),
    **dict.fromkeys(("bits", "more_bits"), little_endian),
    "point_": lambda text: [float(part) for part in text.strip("()").split(",")],
    "ints": lambda text: [] if text == "{}" else [1, None, -3],
    "texts": lambda _: ["a", "b,c", None, ""],
    "numbers": lambda _: [1.5, -2.25, None],
    "days": lambda _: ["2024-02-29", "0001-01-01"],
    "moments": lambda text: [moment(text.strip('{}"'))],
    "flags": lambda _: [True, False, None],
    "uuids": lambda text: [text.strip("{}")],
    **dict.fromkeys(("near", "half"), json.loads),
    "sparse": lambda _: {"dimensions": 5, "vector": [[1, 1.5], [5, -2.0]]},
}
"""What a printed value is; others land as they are printed."""


def found(name: str, value: Any, decimals: str) -> Any:
    """Return a landed value as `wanted` has it, where the text of a number or a time has several forms."""
    if value is None:
        return None
    if name in NUMERIC and decimals != "double":
        return Decimal(value)
    if name in ("clock", "clock3"):
        return time.fromisoformat(value[:15])
    if name == "clock_zone":
        return clock_zone(value)
    if name == "point_":
        return [json.loads(value)[axis] for axis in "xy"]
    if name == "moments":
        return [moment(item[:26]) for item in json.loads(value)]
    if name in ("ints", "texts", "numbers", "days", "flags", "uuids", "near", "half", "sparse"):
        return json.loads(value)
    return value


def test_every_type_lands_as_it_is_in_every_mode_for_decimals_and_times(
    gateway: Gateway, source: PostgresSource, tmp_path: Path, report: Report
) -> None:
    source.run(*SET_UP)
    modes = [(*mode, BYTES[at % 2]) for at, mode in enumerate(product(DECIMALS, TIMES))]
    with engine(gateway, tmp_path) as running:
        for at, (decimals, times, binary) in enumerate(modes):
            make_types(source, f"m{at}")
            source.run(f"CREATE TABLE m{at}.fence (id int PRIMARY KEY)")
            chosen = {
                "decimal.handling.mode": decimals,
                "time.precision.mode": times,
                "binary.handling.mode": binary,
                "include.unknown.datatypes": "true",
                "schema.include.list": f"m{at}",
                "publication.autocreate.mode": "filtered",
            }
            running.add(f"m{at}", source.properties(f"m{at}") | chosen)
        running.start()
        for at in range(len(modes)):
            pass_fence(source, running, f"m{at}.fence")
            change_types(source, f"m{at}")
        for at in range(len(modes)):
            pass_fence(source, running, f"m{at}.fence")
    rows = sum(compare_types(gateway, source, f"m{at}", mode) for at, mode in enumerate(modes))
    report.add(f"Debezium {debezium_version()}, Postgres", rows)
