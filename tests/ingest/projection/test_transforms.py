"""Renamed, constant and masked columns land alike in every format, and a masked value is stored nowhere."""

import hmac
import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.errors import Code, TemporarilyUnavailable
from app.formats.arcion.csv import CsvLayout, CsvMode
from app.ingest import ArrowLoad, RowOperation, rows_json
from tests.support.ingest_harness import IngestHarness, open_harness
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.samples.debezium import event
from tests.support.samples.messages import arcion, data
from tests.support.samples.schemas import schema_of

SECRET = b"a secret only for tests of masked values"
SCHEMA = schema_of({"id": "int64", "mail": "string", "city": "string", "born": "date"}, ["id"], ["id"])
OPTIONS: dict[str, Any] = {
    "rename": {"city": "town"},
    "constants": {"region": {"type": "string", "value": "EU"}, "site": {"type": "int32", "value": "7"}},
    "masks": {
        "mail": {"method": "hash"},
        "city": {"method": "truncate", "characters": 2},
        "born": {"method": "null"},
    },
}
ROW = {"id": 1, "mail": "ada@example.com", "city": "Ülm am See", "born": "1815-12-10"}
TEXTS = {name: str(value) for name, value in ROW.items()}
LANDED = {"id": 1, "mail": "", "town": "Ül", "born": None, "region": "EU", "site": 7}
ORIGINALS = ("ada@example.com", "lm am See", "1815")


@pytest.fixture
def harness(engine: sa.Engine) -> Iterator[IngestHarness]:
    with open_harness(engine, mask_secret=SECRET) as harness:
        yield harness


def hashed(text: str) -> str:
    return hmac.digest(SECRET, text.encode(), sha256).hex()


def landed(marker: int, **others: Any) -> dict[str, Any]:
    return LANDED | {"mail": hashed(ROW["mail"]), "__rowMarker__": marker} | others


def stream(rows: list[dict[str, Any]]) -> bytes:
    columns = pa.schema([("id", pa.int64()), ("mail", pa.string()), ("city", pa.string()), ("born", pa.string())])
    table = pa.Table.from_pylist(rows, columns)
    born = table.column("born").cast(pa.date32())
    table = table.set_column(3, "born", born)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def send_each_format(harness: IngestHarness) -> dict[str, int]:
    """Send the row in each format to a table of its own; return the marker that it has there."""
    harness.arcion(arcion("a", None, TEXTS))
    record = ",".join(f"{value},NULL,1" for value in TEXTS.values())
    harness.csv(f"{record},I,{{}},{{}}\n", "c", CsvLayout(CsvMode.REALTIME, tuple(ROW)))
    harness.replicate(data("INSERT", ROW), table="r")
    harness.debezium(event("c", "d", None, ROW), table="d")
    harness.plain_rows("p", ROW)
    harness.accept_load(ArrowLoad(TableName.parse("l"), stream([ROW])))
    return {"a": 0, "c": 0, "r": 0, "d": 0, "p": 4, "l": 0}


@pytest.mark.parametrize("images", ["off", "on"])
def test_each_format_lands_the_same_row_and_nothing_stores_the_originals(harness: IngestHarness, images: str) -> None:
    for name in "acrdpl":
        harness.put(name, SCHEMA, **OPTIONS, row_images=images)
    for name, marker in send_each_format(harness).items():
        assert harness.rows(name) == [landed(marker)], name
    stored = str(sql.rows(harness.engine, "SELECT encode(image, 'escape') FROM mirrorgate.row_images"))
    payloads = str(sql.rows(harness.engine, "SELECT encode(payload, 'escape') FROM mirrorgate.block_payloads"))
    assert not any(original in stored + payloads for original in ORIGINALS)
    assert (hashed(ROW["mail"]) in stored) is (images == "on")
    assert hashed(ROW["mail"]) in payloads


def test_a_partial_update_is_completed_with_masked_values_that_are_not_masked_again(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, **OPTIONS, partial_updates="complete")
    harness.arcion(arcion("t", None, TEXTS))
    harness.replicate(data("UPDATE", {"id": 1, "city": "Paris"}), table="t")
    assert harness.rows("t")[1] == landed(1, town="Pa")


def test_a_hashed_key_stays_a_key(harness: IngestHarness) -> None:
    schema = schema_of({"mail": "string", "city": "string"}, ["mail"], ["mail"])
    masks = {"mail": {"method": "hash"}}
    harness.put("t", schema, masks=masks, rename={"mail": "person"}, row_images="on")
    row = {"mail": "a", "city": "Rome"}
    harness.arcion(arcion("t", None, row), arcion("t", row, row | {"mail": "b"}), arcion("t", row | {"mail": "b"}))
    assert harness.landed("t", "person", "city") == [
        [0, hashed("a"), "Rome"],
        [2, hashed("a"), None],
        [0, hashed("b"), "Rome"],
        [2, hashed("b"), None],
    ]
    assert harness.table("t").schema.landing.key_columns == ("person",)


def test_a_rejection_does_not_tell_a_masked_value(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, **OPTIONS)
    with rejected() as rejection:
        harness.arcion(arcion("t", None, TEXTS | {"born": "the secret day", "more": "ada@example.com"}))
    assert "secret day" not in rejection.text
    assert "ada@" not in rejection.text


def test_a_dry_run_shows_masked_values_and_withholds_renamed_ones(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, **OPTIONS, partial_updates="complete")
    name = TableName.parse("t")
    [table] = harness.dry_run(rows_json(json.dumps(ROW).encode(), name, RowOperation.INSERT)).tables
    assert (table.rows[0]["mail"], table.rows[0]["town"]) == (hashed(ROW["mail"]), "Ül")


def test_a_process_without_the_secret_stages_nothing(engine: sa.Engine, harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, **OPTIONS)
    with open_harness(engine) as other, pytest.raises(TemporarilyUnavailable) as raised:
        other.arcion(arcion("t", None, TEXTS))
    assert raised.value.code is Code.MASK_SECRET_MISSING
    assert harness.rows("t") == []


def test_columns_of_existing_files_keep_their_names_and_types(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA)
    harness.arcion(arcion("t", None, TEXTS))
    harness.put("t", **{**OPTIONS, "masks": {}})
    harness.arcion(arcion("t", TEXTS, TEXTS))
    assert harness.landed("t", "city", "town", "region") == [
        [0, ROW["city"], None, None],
        [1, None, ROW["city"], "EU"],
    ]
    with rejected() as rejection:
        harness.put("t", rename={"id": "key"})
    assert rejection.code is Code.BAD_OPTION


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"rename": {"town": "city"}}, "/options/rename/town"),
        ({"rename": {"city": "MAIL"}}, "/options/rename/city"),
        ({"rename": {"city": "__rowMarker__"}}, "/options/rename/city"),
        ({"constants": {"mail": {"type": "string", "value": "x"}}}, "/options/constants/mail"),
        ({"constants": {"n": {"type": "int", "value": "1"}}}, "/options/constants/n/type"),
        ({"constants": {"n": {"type": "int16", "value": "70000"}}}, "/options/constants/n/value"),
        ({"constants": {"n": {"type": "int16", "value": "1", "nullable": True}}}, "/options/constants/n"),
        ({"masks": {"phone": {"method": "null"}}}, "/options/masks/phone"),
        ({"masks": {"id": {"method": "null"}}}, "/options/masks/id/method"),
        ({"masks": {"id": {"method": "hash"}}}, "/options/masks/id/method"),
        ({"masks": {"mail": {"method": "truncate"}}}, "/options/masks/mail/characters"),
        ({"masks": {"mail": {"method": "hash", "characters": 3}}}, "/options/masks/mail/characters"),
        ({"masks": {"mail": {"method": "hash"}}, "dead_letters": "accept"}, "/options/dead_letters"),
        ({"audit_columns": {"operation": "town"}, "rename": {"city": "Town"}}, "/options/audit_columns/operation"),
    ],
)
def test_a_wrong_declaration_is_rejected_with_its_place(
    harness: IngestHarness, options: dict[str, Any], pointer: str
) -> None:
    with rejected() as rejection:
        harness.put("t", SCHEMA, **options)
    assert rejection.places == [(Code.BAD_OPTION, None, pointer, None)]
    assert "70000" not in rejection.text


def test_masks_cannot_change_while_row_images_have_the_values(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, row_images="on")
    with rejected() as rejection:
        harness.put("t", masks={"mail": {"method": "hash"}}, row_images="on")
    assert rejection.places == [(Code.BAD_OPTION, None, "/options/masks", None)]
    harness.put("t", row_images="off")
    assert harness.put("t", masks={"mail": {"method": "hash"}}).table.options.masks.keys() == {"mail"}
