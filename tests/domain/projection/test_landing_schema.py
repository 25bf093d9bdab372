"""The files of a table: their schema, masked columns, audit columns and flags, and the times of a source."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from app.domain.access.mask_secret import SALT_BYTES, MaskSecret
from app.domain.model.change import Change, Operation
from app.domain.model.names import TableName
from app.domain.model.projection import AuditValue, Mask, MaskMethod
from app.domain.model.table import Generation, Table, TableId, TableState, with_landing
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import SchemaVersion, TableSchema, evolve
from app.domain.rows.landing_rows import landing_rows, landing_rows_of_shaped
from app.domain.rows.row_facts import carried, source_times
from app.domain.rows.row_rules import ChangeFacts, Masking, RowRules
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.support.hashes import hashed
from tests.support.rejections import rejected
from tests.support.samples.changes import change, delete, insert, shaped, update, upsert
from tests.support.samples.schemas import schema_of

SOURCE = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
WIDER = schema_of({"id": "int64", "name": "string", "city": "string"}, ["id"], ["id"])
AUDITED = TableOptions.parse({"audit_columns": {"operation": "_op", "accepted_at": "_at"}})
HISTORY = TableOptions.parse({"history": "append_only"})


def test_a_table_without_such_options_lands_as_it_is() -> None:
    assert with_landing(SOURCE, TableOptions()) is not None
    assert with_landing(SOURCE, TableOptions()).lands_as is None
    assert with_landing(SOURCE, TableOptions()).landing == SOURCE


def test_audit_columns_follow_those_of_the_source_and_newer_columns_follow_them() -> None:
    first = with_landing(SOURCE, AUDITED)
    assert first.names == SOURCE.names
    assert first.landing.names == ("id", "name", "_op", "_at")
    later = with_landing(evolve(first, WIDER), AUDITED, first)
    assert later.landing.names == ("id", "name", "_op", "_at", "city")
    assert with_landing(evolve(later, WIDER), AUDITED, later) == later


def test_a_column_that_the_options_no_longer_name_stays_in_the_files() -> None:
    first = with_landing(SOURCE, AUDITED)
    without = with_landing(evolve(first, SOURCE), TableOptions(), first)
    assert without.landing.names == first.landing.names
    renamed = TableOptions.parse({"audit_columns": {"operation": "_operation"}})
    with_both = with_landing(evolve(first, SOURCE), renamed, first)
    assert with_both.landing.names == ("id", "name", "_op", "_at", "_operation")


def test_files_of_a_history_have_neither_keys_nor_a_row_marker() -> None:
    landing = with_landing(SOURCE, HISTORY).landing
    assert (landing.key_columns, landing.bare) == ((), True)
    assert with_landing(SOURCE, HISTORY).key_columns == ("id",)


def test_a_generation_with_a_history_stays_one() -> None:
    for present, options in ((TableOptions(), HISTORY), (HISTORY, TableOptions())):
        with rejected(places=[(Code.BAD_OPTION, None, "/options/history", None)]):
            options.check_change(present)


def test_an_audit_column_cannot_take_the_name_of_a_column_that_the_files_have_with_another_type() -> None:
    first = with_landing(SOURCE, AUDITED)
    swapped = TableOptions.parse({"audit_columns": {"operation": "_at"}})
    with rejected(Code.BAD_OPTION) as rejection:
        with_landing(evolve(first, SOURCE), swapped, first)
    assert "files of this generation" in rejection.detail


def test_a_stored_schema_is_read_as_it_was() -> None:
    for options in (TableOptions(), AUDITED, HISTORY):
        schema = with_landing(SOURCE, options)
        assert TableSchema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"audit_columns": {"operation": "NAME"}}, "/options/audit_columns/operation"),
        ({"audit_columns": {"operation": "_op", "accepted_at": "_OP"}}, "/options/audit_columns/accepted_at"),
        ({"audit_columns": {"operation": "__rowMarker__"}}, "/options/audit_columns/operation"),
        ({"audit_columns": {"deleted": "_deleted"}}, "/options/audit_columns/deleted"),
        ({"audit_columns": {"operator": "_op"}}, "/options/audit_columns"),
    ],
)
def test_an_audit_column_that_cannot_be_is_rejected_with_its_place(options: dict[str, object], pointer: str) -> None:
    with rejected(places=[(Code.BAD_OPTION, None, pointer, None)]):
        TableOptions.parse(options).check(SOURCE)


def test_a_history_needs_keys() -> None:
    with rejected(Code.BAD_OPTION):
        HISTORY.check(schema_of({"id": "int64"}, []))


NAMES = ["id", "name", "note", "gone"]
MASKS = {"name": Mask(MaskMethod.HASH), "note": Mask(MaskMethod.TRUNCATE, 2), "gone": Mask(MaskMethod.NULL)}
SECRET = MaskSecret(b"secret")
TABLE = Table(
    TableId(7),
    TableName.parse("sales.people"),
    Generation(1),
    TableState.ACTIVE,
    SchemaVersion(1),
    schema_of(dict.fromkeys(NAMES, "string")),
    TableOptions(masks=MASKS),
    mask_fingerprint=SECRET.fingerprint(bytes(SALT_BYTES)),
)
MASKING = Masking(TABLE, SECRET)
ADA = hashed(b"secret", "table:7", "Adä")
BATCH = pa.RecordBatch.from_pydict(
    {
        "id": pa.array([1, 2, 3]),
        "name": pa.array(["Adä", None, "Adä"]),
        "note": pa.array(["äöü", None, "x"]),
        "gone": pa.array([1.5, None, 2.5]),
        "marker": pa.array([0, 1, 2], pa.int32()),
    }
)


def test_hashes_are_keyed_null_stays_null_and_other_columns_stay_as_they_are() -> None:
    masked = MASKING.batch(BATCH, NAMES)
    assert masked.schema.equals(BATCH.schema)
    assert masked.to_pydict() == {
        "id": [1, 2, 3],
        "name": [ADA, None, ADA],
        "note": ["äö", None, "x"],
        "gone": [None, None, None],
        "marker": [0, 1, 2],
    }
    assert ADA == "cd50d7427fda963fcc7b01a171c328b97da9933a01655eb1d961168942736001"


def name_hashed(group: str | None = None, secret: MaskSecret = SECRET, **of_table: Any) -> str:
    options = TableOptions(masks={"name": Mask(MaskMethod.HASH, group=group)})
    fingerprint = secret.fingerprint(bytes(SALT_BYTES))
    table = replace(TABLE, options=options, mask_fingerprint=fingerprint, **of_table)
    first: str = Masking(table, secret).batch(BATCH, NAMES).column("name")[0].as_py()
    return first


def test_a_hash_is_of_one_table_or_one_group_under_one_secret() -> None:
    other = {"table_id": TableId(8), "name": TableName.parse("sales.people")}
    assert name_hashed() == name_hashed(name=TableName.parse("renamed"), generation=Generation(2)) == ADA
    assert name_hashed("people") == name_hashed("people", **other) == hashed(b"secret", "group:people", "Adä")
    distinct = [
        name_hashed(),
        name_hashed(**other),
        name_hashed("people"),
        name_hashed("7"),
        name_hashed(secret=MaskSecret(b"another secret")),
    ]
    assert len(set(distinct)) == len(distinct)


def test_rows_for_images_have_the_masked_values_in_their_places() -> None:
    masked = MASKING.arrays(BATCH.columns, NAMES)
    rows = [(number, "Adä", "äöü", 1.5) for number in (1, 2, 3)]
    assert [*MASKING.rows(rows, masked, NAMES)] == [(1, ADA, "äö", None), (2, None, None, None), (3, ADA, "x", None)]
    assert [*Masking(replace(TABLE, options=TableOptions())).rows(rows, BATCH.columns, NAMES)] == rows


@pytest.mark.parametrize(
    ("secret", "code", "detail"),
    [
        (None, Code.MASK_SECRET_MISSING, "table sales.people has a hashed column, and this process has no secret"),
        (
            MaskSecret(b"another secret"),
            Code.MASK_SECRET_DIFFERS,
            "table sales.people is hashed under another secret than that of this process",
        ),
    ],
)
def test_a_hash_needs_the_secret_of_the_table(secret: MaskSecret | None, code: Code, detail: str) -> None:
    masking = replace(MASKING, secret=secret)
    with pytest.raises(TemporarilyUnavailable) as error:
        masking.batch(BATCH, NAMES)
    assert (error.value.code, error.value.detail) == (code, detail)
    without = TableOptions(masks={name: mask for name, mask in MASKS.items() if name != "name"})
    unhashed = replace(masking, table=replace(TABLE, options=without)).batch(BATCH, NAMES)
    assert unhashed.column("name").to_pylist() == ["Adä", None, "Adä"]


def test_a_table_without_a_fingerprint_is_hashed_under_no_secret() -> None:
    with pytest.raises(TemporarilyUnavailable, match=Code.MASK_SECRET_DIFFERS):
        replace(MASKING, table=replace(TABLE, mask_fingerprint=None)).batch(BATCH, NAMES)


SCHEMA = schema_of({"id": "int64", "name": "string"}, ["id"], required=["id"])
ADA_IMAGE = {"id": 1, "name": "Ada"}
CHANGES = [
    insert(ADA_IMAGE),
    update(ADA_IMAGE, {"id": 2, "name": "Ada"}),
    update({"id": 2}, {"id": 2, "name": "Eve"}),
    delete({"id": 2}),
    upsert(ADA_IMAGE),
    change(Operation.MERGE, None, ADA_IMAGE),
]
OPERATIONS = ["insert", "delete", "insert", "update", "delete", "upsert", "upsert"]


def rules_with(**audit: str) -> RowRules:
    options = TableOptions.parse({"audit_columns": audit})
    return RowRules(with_landing(SCHEMA, options), options)


def facts(batch: Any, value: AuditValue) -> list[Any]:
    found: list[Any] = batch.column(carried(value)).to_pylist()
    return found


def test_a_changed_key_is_a_delete_and_an_insert_and_a_merge_is_an_upsert() -> None:
    rules = rules_with(operation="op")
    exact = landing_rows(CHANGES, rules)
    assert facts(exact.batch, AuditValue.OPERATION) == OPERATIONS
    together = landing_rows_of_shaped([shaped(CHANGES, SCHEMA)], rules)
    assert together is not None
    assert together[0].batch.equals(exact.batch)
    assert facts(landing_rows([insert(ADA_IMAGE)] * 2, rules).batch, AuditValue.OPERATION) == ["insert"] * 2


def test_both_rows_of_a_changed_key_have_the_position_and_the_time_of_their_change() -> None:
    rules = rules_with(source_position="pos", source_timestamp="at")
    positions = [None, "p1", "p2", None, "p4", "p5"]
    times = [1_767_600_000, None, "2026-01-05T08:00:00", 0, None, "x"]
    changes = [
        msgspec.structs.replace(one, source_position=position, source_time=time)
        for one, position, time in zip(CHANGES, positions, times, strict=True)
    ]
    moment = datetime(2026, 1, 5, 8, tzinfo=UTC)
    batch = landing_rows(changes, rules).batch
    assert batch.schema.names == ["id", "name", "\0source_timestamp", "\0source_position", "__rowMarker__"]
    assert facts(batch, AuditValue.SOURCE_POSITION) == [None, "p1", "p1", "p2", None, "p4", "p5"]
    assert facts(batch, AuditValue.SOURCE_TIMESTAMP) == [moment, None, None, moment, None, None, None]
    request = replace(shaped(changes, SCHEMA), origins=lambda: ChangeFacts(positions, times))
    together = landing_rows_of_shaped([request], rules)
    assert together is not None
    assert together[0].batch.equals(batch)


def test_a_reader_that_cannot_tell_the_facts_leaves_them_to_the_exact_path() -> None:
    unknown = replace(shaped(CHANGES, SCHEMA), origins=lambda: None)
    assert landing_rows_of_shaped([unknown], rules_with(source_position="pos")) is None
    without_facts: list[Change] = [insert(ADA_IMAGE)]
    told = landing_rows_of_shaped([shaped(without_facts, SCHEMA)], rules_with(source_position="pos"))
    assert told is not None
    assert facts(told[0].batch, AuditValue.SOURCE_POSITION) == [None]
    assert landing_rows(CHANGES, RowRules(SCHEMA)).batch.schema.names == ["id", "name", "__rowMarker__"]


MOMENT = datetime(2026, 1, 5, 8, 0, 0, 250_000, UTC)


@pytest.mark.parametrize(
    "written",
    [
        [1_767_600_000_250, 1_767_600_000_250_000, 1_767_600_000_250_000_000],
        ["2026-01-05T08:00:00.25", "2026-01-05 09:00:00.250+01:00", "2026-01-05T08:00:00.2500009Z"],
        ["1767600000250", 1_767_600_000_250],
        ["1767600000250000000", 1_767_600_000_250_000_000, "2026-01-05T08:00:00.25"],
    ],
)
def test_texts_and_numbers_of_any_unit_are_the_same_moment(written: list[Any]) -> None:
    assert source_times(written).to_pylist() == [MOMENT] * len(written)


def test_a_number_of_seconds_is_a_moment_too() -> None:
    assert source_times([1_767_600_000]).to_pylist() == [MOMENT.replace(microsecond=0)]


def test_a_moment_before_1970_is_one_beside_texts_too() -> None:
    before = datetime(1938, 4, 24, 22, 13, 20, tzinfo=UTC)
    written = [-1_000_000_000, "-1000000000000", "-1000000000000000000", "1938-04-24T22:13:20"]
    assert source_times(written).to_pylist() == [before] * len(written)


def test_what_is_no_time_is_null_and_hides_no_other() -> None:
    written = [None, "", 0, "yesterday", "2026-13-05T00:00:00", "9" * 30, 10**30, "2026-01-05T08:00:00.25"]
    assert source_times(written).to_pylist() == [*[None] * 7, MOMENT]
    assert source_times([]).to_pylist() == []
