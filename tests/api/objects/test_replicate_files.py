"""Data files of Replicate with their metadata files: the table is registered, evolved, loaded and changed."""

import gzip
import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from mirrorgate_bridge.objects.settings import BatchSettings
from tests.api.calls import Gateway
from tests.api.commands import staged
from tests.api.objects.bridging import bridge_of, write
from tests.support.gateway_parts import current

COLUMNS = [("ID", "INT8", 1), ("NAME", "WSTRING", 0), ("AMOUNT", "NUMERIC", 0), ("AT", "DATETIME", 0)]
HEADERS = [("header__change_seq", "STRING", 0), ("header__change_oper", "STRING", 0)]


def metadata(
    columns: list[tuple[str, str, int]],
    content: str = "data",
    form: str = "delimited",
    version: int = 1,
    **options: str,
) -> bytes:
    """Return a metadata file as Replicate writes it."""
    described = [
        {
            "ordinal": ordinal, "name": name, "type": of, "length": 0, "precision": 12 if of == "NUMERIC" else 0,
            "scale": 2 if of == "NUMERIC" else 0, "primaryKeyPos": key,
        }
        for ordinal, (name, of, key) in enumerate(columns, 1)
    ]  # fmt: skip
    signs = {"fieldDelimiter": ",", "recordDelimiter": "\n", "nullValue": "", "quoteChar": '"', "escapeChar": ""}
    document: dict[str, Any] = {
        "dfmVersion": "1.1",
        "taskInfo": {
            "name": "orders", "sourceEndpoint": "s", "sourceEndpointType": "Oracle", "sourceEndpointUser": "u",
            "replicationServer": "host", "operation": "dataProduced",
        },
        "fileInfo": {
            "name": "f", "extension": "csv", "location": "l", "startWriteTimestamp": "2026-11-22T10:00:00.000",
            "endWriteTimestamp": "2026-11-22T10:00:00.000", "firstTransactionTimestamp": None,
            "lastTransactionTimestamp": None, "content": content, "recordCount": 1, "errorCount": 0,
        },
        "formatInfo": {"format": form, **({"options": signs | options} if form == "delimited" else {})},
        "dataInfo": {
            "sourceSchema": "S", "sourceTable": "T", "targetSchema": "S", "targetTable": "T", "tableVersion": version,
            "columns": described,
        },
    }  # fmt: skip
    return json.dumps(document, indent=4).encode()


def seq(number: int) -> str:
    return f"2026112210000000{number:019d}"


def plain(engine: sa.Engine) -> list[tuple[Any, ...]]:
    return [(row[0], row[1], None if row[2] is None else str(row[2]), *row[4:]) for row in staged(engine, "S.T")]


def test_a_load_and_its_changes_register_the_table_and_follow_the_keys(gateway: Gateway, tmp_path: Path) -> None:
    load = b'1,"Ada, ""A""",1.50,2026-01-01 10:00:00\n2,,,\n3,"",2.00,2026-01-01 10:00:00.123456\n5,NULL,,\n'
    write(tmp_path, {"S.T/LOAD00000001.csv.gz": gzip.compress(load), "S.T/LOAD00000001.dfm": metadata(COLUMNS)})
    names = ",".join(name for name, _, _ in [*HEADERS, *COLUMNS]).encode() + b"\n"
    changes = "".join(
        [
            f'{seq(1)},I,4,"line\none",4.00,2026-01-02 10:00:00\n',
            f"{seq(2)},B,2,,,\n{seq(2)},U,20,Bo,,\n",
            f"{seq(3)},B,4,,,\n{seq(3)},U,4,Cy,4.00,2026-01-02 10:00:00\n",
            f"{seq(4)},D,1,,,\n",
        ]
    )
    write(tmp_path, {"S.T__ct/20261122-100000000.csv": names + changes.encode()})
    templates = ("{schema}.{table}__ct/…", "{schema}.{table}/…")
    bridge = bridge_of(gateway.address, tmp_path, "replicate-files", *templates, order="load-first")
    bridge.batch = BatchSettings(max_messages=2)
    write(tmp_path, {"S.T__ct/20261122-100000000.dfm": metadata([*HEADERS, *COLUMNS], "changes")})
    assert bridge.run()["S.T"].stop is None
    assert gateway.status("S.T")["key_columns"] == ["ID"]
    types = ["int64", "string", "decimal128(12, 2)", "timestamp[us, tz=UTC]"]
    assert [str(of) for of in current(gateway.engine, "S.T").schema.arrow.types[:4]] == types
    assert plain(gateway.engine) == [
        (1, 'Ada, "A"', "1.50"), (2, None, None), (3, "", "2.00"), (5, "NULL", None), (4, "line\none", "4.00"),
        (2, None, None), (20, "Bo", None), (4, "Cy", "4.00"), (1, None, None),
    ]  # fmt: skip
    assert bridge.run()["S.T"].requests == 0


def test_json_files_keep_exact_numbers_and_a_new_column_is_added(gateway: Gateway, tmp_path: Path) -> None:
    wider = [*COLUMNS, ("NOTE", "WSTRING", 0)]
    first = b'{ "ID": 9007199254740993, "NAME": null, "AMOUNT": "0.10", "AT": "2026-01-01 10:00:00" }\n\n'
    second = b'{"ID": 2, "NAME": "x", "AMOUNT": null, "AT": null, "NOTE": "n"}'
    bridge = bridge_of(gateway.address, tmp_path, "replicate-files", table="S.T")
    write(tmp_path, {"LOAD00000001.json": first, "LOAD00000001.dfm": metadata(COLUMNS, form="json")})
    assert bridge.run()["S.T"].stop is None
    assert plain(gateway.engine) == [(9007199254740993, None, "0.10")]
    write(tmp_path, {"LOAD00000002.json": second, "LOAD00000002.dfm": metadata(wider, form="json", version=2)})
    assert bridge.run()["S.T"].stop is None
    assert current(gateway.engine, "S.T").schema.arrow.names[:5] == [name for name, _, _ in wider]


def test_what_the_metadata_does_not_say_is_a_clear_stop(gateway: Gateway, tmp_path: Path) -> None:
    cases = {
        "a": (b"1,x,,\n", metadata(COLUMNS, "changes"), "no column for their operation"),
        "b": (b"1,x\n", metadata(COLUMNS), "record 0 has 2 fields, and its metadata 4 columns"),
        "c": (b"1,x,,\n", b"{}", "is not a metadata file of Replicate"),
        "d": (b"PAR1", metadata(COLUMNS, form="parquet"), "the format 'parquet' is not read"),
        "e": (b"1,x,,\x01\n", metadata(COLUMNS, recordDelimiter="0x01"), "do not end with a line end"),
    }
    for name, (data, described, _) in cases.items():
        write(tmp_path, {f"{name}/1.csv": data, f"{name}/1.dfm": described})
    tables = bridge_of(gateway.address, tmp_path, "replicate-files", "{table}/…").run()
    for name, (_, _, said) in cases.items():
        stop = tables[name].stop
        assert stop is not None
        assert said in stop.error.detail
