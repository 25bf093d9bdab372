"""Renamed, constant and masked columns land alike in every format, and a masked value is stored nowhere."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from msgspec import UNSET

from app.domain.access.rights import Grant, Principal, Right
from app.domain.model.names import TableName
from app.domain.model.table import DropAction, DropPlan
from app.ingest import ReplicateJson, RowOperation, RowsJson
from app.ingest.dry_run import WithheldColumns
from app.staging.tables.registration import RegistrationOutcome
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.support.gateway_parts import next_generation
from tests.support.hashes import hashed
from tests.support.ingest_harness import IngestHarness, open_harness
from tests.support.postgres import sql
from tests.support.rejections import rejected
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
LONG_CONSTANT = {"type": "string", "value": "x" * 4_096}
ROW = {"id": 1, "mail": "ada@example.com", "city": "Ülm am See", "born": "1815-12-10"}
TEXTS = {name: str(value) for name, value in ROW.items()}
LANDED = {"id": 1, "mail": "", "town": "Ül", "born": None, "region": "EU", "site": 7}
ORIGINALS = ("ada@example.com", "lm am See", "1815")


@pytest.fixture
def harness(engine: sa.Engine) -> Iterator[IngestHarness]:
    with open_harness(engine, mask_secret=SECRET) as harness:
        yield harness


def of_table(harness: IngestHarness, table: str, text: str = str(ROW["mail"])) -> str:
    """Return the hash of a text in a table."""
    return hashed(SECRET, f"table:{harness.table(table).table_id}", text)


def landed(mail: str, marker: int, **others: Any) -> dict[str, Any]:
    return LANDED | {"mail": mail, "__rowMarker__": marker} | others


IN_ARROW = pa.schema([("id", pa.int64()), ("mail", pa.string()), ("city", pa.string()), ("born", pa.date32())])


@pytest.mark.parametrize("images", ["off", "on"])
def test_each_format_lands_the_same_row_and_nothing_stores_the_originals(harness: IngestHarness, images: str) -> None:
    for name in "acrdpl":
        harness.put(name, SCHEMA, **OPTIONS, row_images=images)
    for name, marker in harness.in_each_format(ROW, IN_ARROW).items():
        mail = of_table(harness, name)
        assert harness.rows(name) == [landed(mail, marker)], name
    stored = str(sql.rows(harness.engine, "SELECT encode(image, 'escape') FROM mirrorgate.row_images"))
    payloads = str(sql.rows(harness.engine, "SELECT encode(payload, 'escape') FROM mirrorgate.block_payloads"))
    assert not any(original in stored + payloads for original in ORIGINALS)
    assert (mail in stored) is (images == "on")
    assert mail in payloads


def test_a_partial_update_is_completed_with_masked_values_that_are_not_masked_again(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, **OPTIONS, partial_updates="complete")
    harness.arcion(arcion("t", None, TEXTS))
    harness.replicate(data("UPDATE", {"id": 1, "city": "Paris"}), table="t")
    assert harness.rows("t")[1] == landed(of_table(harness, "t"), 1, town="Pa")


def test_a_hashed_key_stays_a_key(harness: IngestHarness) -> None:
    schema = schema_of({"mail": "string", "city": "string"}, ["mail"], ["mail"])
    masks = {"mail": {"method": "hash"}}
    harness.put("t", schema, masks=masks, rename={"mail": "person"}, row_images="on")
    row = {"mail": "a", "city": "Rome"}
    harness.arcion(arcion("t", None, row), arcion("t", row, row | {"mail": "b"}), arcion("t", row | {"mail": "b"}))
    first, second = of_table(harness, "t", "a"), of_table(harness, "t", "b")
    assert harness.landed("t", "person", "city") == [
        [0, first, "Rome"],
        [2, first, None],
        [0, second, "Rome"],
        [2, second, None],
    ]
    assert harness.table("t").schema.landing.key_columns == ("person",)


@pytest.mark.parametrize("options", [{}, {"row_images": "on"}], ids=["no images", "images"])
def test_a_renamed_or_recreated_table_keeps_its_hashes_and_no_other_gets_them(
    harness: IngestHarness, options: dict[str, Any]
) -> None:
    hidden = {**OPTIONS, **options}
    first = of_table(harness, str(harness.put("t", SCHEMA, **hidden).table.name))
    harness.arcion(arcion("t", None, TEXTS))
    next_generation(harness.engine, "t", DropPlan(DropAction.RENAME, new_name=TableName.parse("u")))
    harness.put("t", SCHEMA, **hidden)
    for table in "tu":
        harness.arcion(arcion(table, None, TEXTS | {"id": "2"}))
    assert {row["mail"] for row in harness.rows("u")} == {first}
    assert len(harness.rows("u")) == 1 + len(options)
    assert {row["mail"] for row in harness.rows("t")}.isdisjoint({first})
    next_generation(harness.engine, "u", DropPlan(DropAction.RECREATE))
    harness.arcion(arcion("u", None, TEXTS))
    assert [row["mail"] for row in harness.rows("u")] == [first]


def test_tables_with_equal_options_keep_their_own_hashes_in_one_request(harness: IngestHarness) -> None:
    for name in "ab":
        harness.put(name, SCHEMA, **OPTIONS)
    harness.arcion(*(arcion(name, None, TEXTS) for name in "ab"))
    assert [harness.rows(name)[0]["mail"] for name in "ab"] == [of_table(harness, name) for name in "ab"]


def test_a_rejection_does_not_tell_a_masked_value(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, **OPTIONS)
    with rejected() as rejection:
        harness.arcion(arcion("t", None, TEXTS | {"born": "the secret day", "more": "ada@example.com"}))
    assert "secret day" not in rejection.text
    assert "ada@" not in rejection.text


@pytest.mark.parametrize("options", [{}, {"partial_updates": "complete"}], ids=["alone", "images"])
def test_a_dry_run_shows_masked_values_to_those_who_may_read(harness: IngestHarness, options: dict[str, Any]) -> None:
    harness.put("t", SCHEMA, **OPTIONS, **options)
    harness.arcion(arcion("t", None, TEXTS))
    inserts = RowsJson(json.dumps([ROW, ROW | {"id": 2}]).encode(), TableName.parse("t"), RowOperation.UPSERT)
    update = json.dumps([data("UPDATE", {"id": 1, "city": "Paris"})]).encode()
    partial = ReplicateJson(update, TableName.parse("t")) if options else inserts
    sender = Principal("sender", frozenset({Right.INGEST}), ("*",))
    of_others = Principal("reader", frozenset({Right.INGEST}), ("*",), (Grant(frozenset({Right.READ}), ("u",)),))
    hidden = ["born", "mail", "town"]
    for reader, count in ((inserts, 2), (partial, 1 if options else 2)):
        [shown] = harness.dry_run(reader).tables
        assert {row["mail"] for row in shown.rows} == {of_table(harness, "t")}
        assert shown.withheld is UNSET
        for key in (sender, of_others):
            [table] = harness.dry_run(reader, key).tables
            assert table.withheld == [WithheldColumns(row, hidden) for row in range(count)]
            assert [row.keys() & {*hidden, "region", "id"} for row in table.rows] == [{"region", "id"}] * count


def test_a_group_joins_the_hashes_of_tables_that_otherwise_differ(harness: IngestHarness) -> None:
    grouped = {"masks": {"mail": {"method": "hash", "group": "people"}, "city": {"method": "hash"}}}
    for name in "ab":
        harness.put(name, SCHEMA, **grouped)
        harness.arcion(arcion(name, None, TEXTS))
    [[of_a], [of_b]] = (harness.rows(name) for name in "ab")
    assert of_a["mail"] == of_b["mail"] == hashed(SECRET, "group:people", str(ROW["mail"]))
    assert of_a["city"] != of_b["city"]
    assert harness.put("a", **grouped).outcome is RegistrationOutcome.UNCHANGED


def test_a_process_without_the_secret_stages_nothing(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, **OPTIONS)
    with open_harness(harness.engine) as other, pytest.raises(TemporarilyUnavailable, match=Code.MASK_SECRET_MISSING):
        other.arcion(arcion("t", None, TEXTS))
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
    with rejected(Code.BAD_OPTION):
        harness.put("t", rename={"id": "key"})


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
        ({"constants": {"n": {"type": "string", "value": "€" * 1_366}}}, "/options/constants/n/value"),
        ({"constants": {f"n{at}": LONG_CONSTANT for at in range(17)}}, "/options/constants"),
        ({"masks": {"phone": {"method": "null"}}}, "/options/masks/phone"),
        ({"masks": {"id": {"method": "null"}}}, "/options/masks/id/method"),
        ({"masks": {"id": {"method": "hash"}}}, "/options/masks/id/method"),
        ({"masks": {"mail": {"method": "truncate"}}}, "/options/masks/mail/characters"),
        ({"masks": {"mail": {"method": "hash", "characters": 3}}}, "/options/masks/mail/characters"),
        ({"masks": {"mail": {"method": "hash", "group": ""}}}, "/options/masks/mail/group"),
        ({"masks": {"mail": {"method": "hash", "group": "People"}}}, "/options/masks/mail/group"),
        ({"masks": {"mail": {"method": "hash", "group": "x" * 65}}}, "/options/masks/mail/group"),
        ({"masks": {"born": {"method": "null", "group": "people"}}}, "/options/masks/born/group"),
        ({"masks": {"mail": {"method": "hash"}}, "dead_letters": "accept"}, "/options/dead_letters"),
        ({"audit_columns": {"operation": "town"}, "rename": {"city": "Town"}}, "/options/audit_columns/operation"),
    ],
)
def test_a_wrong_declaration_is_rejected_with_its_place(
    harness: IngestHarness, options: dict[str, Any], pointer: str
) -> None:
    with rejected(places=[(Code.BAD_OPTION, None, pointer, None)]) as rejection:
        harness.put("t", SCHEMA, **options)
    assert "70000" not in rejection.text


def test_constants_may_have_4_kib_each_and_64_kib_together(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, constants={f"n{at}": LONG_CONSTANT for at in range(16)})
    assert len(harness.table("t").options.constants) == 16


def test_masks_cannot_change_while_row_images_have_the_values(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, row_images="on")
    with rejected(places=[(Code.BAD_OPTION, None, "/options/masks", None)]):
        harness.put("t", masks={"mail": {"method": "hash"}}, row_images="on")
    harness.put("t", row_images="off")
    assert harness.put("t", masks={"mail": {"method": "hash"}}).table.options.masks.keys() == {"mail"}
