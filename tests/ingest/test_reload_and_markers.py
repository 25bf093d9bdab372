"""Options `reload`, `insert_marker` and `initial_load`: row markers of inserted and snapshot rows."""

import base64
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from app.domain.arrow import schema_from_bytes
from app.domain.loads import LoadId
from app.domain.model.names import TableName
from app.domain.model.table import DropAction, DropPlan
from app.ingest import ArrowLoad, RowOperation
from app.ingest.loads import RowsOfStream
from app.staging.loads import begin_load
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import LoadMode
from tests.support.gateway_parts import next_generation
from tests.support.ingest_harness import IngestHarness
from tests.support.postgres.ledger import chain
from tests.support.rejections import rejected
from tests.support.samples.arrow_streams import stream
from tests.support.samples.messages import Message, arcion, data
from tests.support.samples.schemas import schema_of

ID = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])


def refresh(number: int) -> Message:
    return data("REFRESH", {"id": number, "name": "r"})


def insert(number: int) -> Message:
    return data("INSERT", {"id": number, "name": "i"})


def update(number: int, to: int | None = None) -> Message:
    return data("UPDATE", {"id": number if to is None else to, "name": "u"}, {"id": number})


def test_inserted_and_snapshot_rows_land_as_upserts_where_the_source_repeats_itself(harness: IngestHarness) -> None:
    harness.put("t", ID, insert_marker="upsert")
    harness.replicate(refresh(1), insert(2), update(2), update(2, 3), data("DELETE", {"id": 3}), table="t")
    harness.arcion(arcion("t", None, {"id": "4", "name": "x"}))
    assert harness.landed("t", "id") == [[4, 1], [4, 2], [1, 2], [2, 2], [4, 3], [2, 3], [4, 4]]


def test_a_reload_lands_as_upserts_after_a_rename_that_lands_the_rows_again(harness: IngestHarness) -> None:
    harness.put("t", ID, reload="upsert", row_images="on")
    harness.replicate(refresh(1), insert(2), refresh(1), table="t")
    next_generation(harness.engine, "t", DropPlan(DropAction.RENAME, new_name=TableName.parse("u")))
    harness.replicate(refresh(1), refresh(2), table="u")
    assert harness.landed("u", "id") == [[0, 1], [0, 2], [4, 1], [4, 2]]


@pytest.mark.parametrize(
    "change", [insert(9), update(9), data("DELETE", {"id": 9})], ids=["insert", "update", "delete"]
)
def test_a_reload_is_rejected_or_lands_as_upserts_once_changes_have_come(
    harness: IngestHarness, change: Message
) -> None:
    for table, options in (("t", {}), ("u", {"reload": "upsert"})):
        harness.put(table, ID, **options)
        harness.replicate(refresh(1), refresh(2), table=table)
        harness.replicate(refresh(3), change, table=table)
    with rejected() as rejection:
        harness.replicate(refresh(4), refresh(5), table="t")
    places = [(place[0], place[1]) for place in rejection.places]
    assert places == [(Code.RELOAD_REQUIRES_RECREATE, 0), (Code.RELOAD_REQUIRES_RECREATE, 1)]
    harness.replicate(refresh(1), refresh(4), table="u")
    assert [row[:2] for row in harness.landed("u", "id")[-2:]] == [[4, 1], [4, 4]]
    assert harness.landed("u", "id")[:3] == [[0, 1], [0, 2], [0, 3]]


@pytest.mark.parametrize("options", [{}, {"row_images": "on"}, {"partial_updates": "complete"}], ids=str)
def test_files_without_a_marker_are_upserts_and_take_no_deletes(
    harness: IngestHarness, options: dict[str, str]
) -> None:
    harness.put("t", ID, row_marker="none", reload="upsert", **options)
    assert harness.table("t").schema.landing.bare
    harness.replicate(refresh(1), insert(2), insert(2), update(2), refresh(3), table="t")
    harness.plain_rows("t", {"id": 4, "name": "x"})
    kept = harness.landed("t", "id")
    assert [key for _, key in kept] == [1, 2, 2, 2, 3, 4]
    assert 2 not in [marker for marker, _ in kept]
    for change in (data("DELETE", {"id": 2}), update(2, 3)):
        with rejected(Code.DELETE_NEEDS_MARKER):
            harness.replicate(change, table="t")
    with rejected(Code.DELETE_NEEDS_MARKER):
        body = stream(pa.table({"id": [1], "name": ["a"], "__op__": ["delete"]}))
        harness.accept_load(ArrowLoad(TableName.parse("t"), body, rows=RowsOfStream(RowOperation.UPSERT)))
    assert harness.landed("t", "id") == kept


@pytest.mark.parametrize(
    "options",
    [
        {"initial_load": "without_marker"},
        {"history": "append_only"},
        {"row_images": "on", "deletes": "flag", "audit_columns": {"deleted": "gone"}},
        {"filter": {"column": "id", "op": ">", "value": "1"}},
    ],
    ids=lambda options: [*options][-1],
)
def test_options_that_need_other_rows_than_upserts_do_not_go_with_files_without_a_marker(
    harness: IngestHarness, options: dict[str, Any]
) -> None:
    with rejected() as rejection:
        harness.put("t", ID, row_marker="none", **options)
    assert (rejection.code, "row_marker=none" in rejection.detail) == (Code.BAD_OPTION, True)


def test_a_table_keeps_its_row_marker_or_its_lack_of_one(harness: IngestHarness) -> None:
    for table, given, other in (("t", "none", "column"), ("u", "column", "none")):
        harness.put(table, ID, row_marker=given)
        with rejected(Code.BAD_OPTION):
            harness.put(table, row_marker=other)
    with rejected(Code.BAD_OPTION):
        harness.put("keyless", schema_of({"id": "int64"}, []), row_marker="none")


def test_a_full_load_of_files_without_a_marker_is_rejected_when_it_begins(harness: IngestHarness) -> None:
    harness.put("t", ID, row_marker="none", row_images="on")
    with harness.engine.begin() as connection:
        load = LoadId(str(uuid4()))
        with rejected(Code.DELETE_NEEDS_MARKER):
            begin_load(connection, TableName.parse("t"), load, LoadMode.FULL, 60, "test")
        assert begin_load(connection, TableName.parse("t"), load, LoadMode.APPEND, 60, "test")[1]


def test_a_process_that_has_not_seen_the_changes_rejects_the_reload_too(harness: IngestHarness) -> None:
    harness.put("t", ID)
    harness.other.replicate(refresh(1), table="t")
    harness.replicate(insert(2), table="t")
    with rejected(Code.RELOAD_REQUIRES_RECREATE):
        harness.other.replicate(refresh(3), table="t")


def test_snapshot_rows_and_changes_that_race_never_land_a_snapshot_row_after_a_change(harness: IngestHarness) -> None:
    harness.put("t", ID)

    def reload(number: int) -> bool:
        try:
            return bool(harness.other.replicate(refresh(number), table="t").receipts)
        except RejectedInput as error:
            assert error.code is Code.RELOAD_REQUIRES_RECREATE
            return False

    with ThreadPoolExecutor(4) as pool:
        reloads = [pool.submit(reload, number) for number in range(6)]
        change = pool.submit(harness.replicate, insert(100), table="t")
        loaded = sum(post.result() for post in reloads)
        change.result()
    numbers = [number for _, number in harness.landed("t", "id")]
    assert (numbers.index(100), len(numbers)) == (loaded, loaded + 1)


def files_have_marker(harness: IngestHarness, table: str = "t") -> list[bool]:
    """Per SetDataSchema of the chain, whether files have the row marker."""
    events = [block.event for block in chain(harness.engine, harness.table(table))]
    schemas = [schema_from_bytes(base64.b64decode(e["schema"])) for e in events if e["kind"] == "SetDataSchema"]
    return ["__rowMarker__" in schema.names for schema in schemas]


@pytest.mark.parametrize(
    "last",
    [[update(1)], [data("DELETE", {"id": 1})], [insert(7), refresh(8)], [refresh(8)]],
    ids=["update", "delete", "reload within", "reload"],
)
def test_a_bare_table_gets_its_marker_with_the_first_change_that_is_no_insert(
    harness: IngestHarness, last: list[Message]
) -> None:
    harness.put("t", ID, initial_load="without_marker", reload="upsert")
    harness.replicate(refresh(1), refresh(2), insert(3), table="t")
    table = harness.table("t")
    assert (table.schema.bare, table.schema_version, files_have_marker(harness)) == (True, 1, [False])
    harness.replicate(*last, table="t")
    assert (harness.table("t").schema.bare, harness.table("t").schema_version) == (False, 2)
    harness.replicate(insert(4), table="t")
    assert (harness.table("t").schema_version, files_have_marker(harness)) == (2, [False, True])


@pytest.mark.parametrize("ids", [[1, 7], ["x", "7"]], ids=["accepted", "rejected"])
def test_a_reload_by_an_arrow_stream_gives_a_bare_table_its_marker(harness: IngestHarness, ids: list[Any]) -> None:
    harness.put("t", ID, initial_load="without_marker", reload="upsert")
    harness.replicate(insert(1), table="t")
    load = ArrowLoad(TableName.parse("t"), stream(pa.table({"id": ids, "name": ["a", "b"]})))
    if ids == [1, 7]:
        harness.accept_load(load)
        assert [row["__rowMarker__"] for row in harness.rows("t")] == [0, 4, 4]
        assert files_have_marker(harness) == [False, True]
    else:
        with rejected():
            harness.accept_load(load)
        assert files_have_marker(harness) == [False]


@pytest.mark.parametrize("way", ["changes", "one request", "stream", "rows of a stream"])
def test_a_bare_table_whose_images_know_a_repeated_insert_gets_its_marker(harness: IngestHarness, way: str) -> None:
    harness.put("t", ID, initial_load="without_marker", partial_updates="complete")
    load = ArrowLoad(TableName.parse("t"), stream(pa.table({"id": [1, 2], "name": ["a", "b"]})))
    harness.accept_load(load)
    harness.replicate(refresh(3), table="t")
    assert files_have_marker(harness) == [False]
    if way == "changes":
        harness.replicate(insert(1), insert(4), table="t")
    elif way == "one request":
        harness.replicate(insert(4), insert(4), table="t")
    elif way == "rows of a stream":
        harness.accept_load(replace(load, rows=RowsOfStream(RowOperation.INSERT)))
    else:
        harness.replicate(insert(9), table="t")
        harness.put("t", reload="upsert", partial_updates="complete", initial_load="without_marker")
        harness.accept_load(load)
    assert files_have_marker(harness) == [False, True]
    last = {key: marker for marker, key in harness.landed("t", "id")}
    repeated = {"changes": {1}, "one request": {4}, "stream": {1, 2}, "rows of a stream": {1, 2}}[way]
    assert {key for key, marker in last.items() if marker == 4} == repeated


def test_a_new_column_keeps_a_table_bare_and_a_rejected_change_too(harness: IngestHarness) -> None:
    harness.put("t", ID, initial_load="without_marker", new_columns="add_as_string")
    harness.replicate(data("INSERT", {"id": 1, "name": "a", "note": "x"}), table="t")
    with rejected():
        harness.replicate(update(1), data("INSERT", {"id": "x", "name": "a"}), table="t")
    wider = schema_of({"id": "int64", "name": "string", "n": "int64"}, ["id"], ["id"])
    assert harness.put("t", wider).table.schema.bare
    assert (harness.table("t").schema_version, files_have_marker(harness)) == (3, [False] * 3)


def test_a_table_is_bare_from_its_first_registration_or_never(harness: IngestHarness) -> None:
    harness.put("t", ID)
    with rejected(places=[(Code.BAD_OPTION, None, "/options/initial_load", None)]):
        harness.put("t", initial_load="without_marker")
    harness.put("u", ID, initial_load="without_marker")
    assert not harness.put("u", initial_load="with_marker").table.schema.bare
    with rejected(places=[(Code.BAD_OPTION, None, "/options/initial_load", None)]):
        harness.put("v", ID, initial_load="without_marker", insert_marker="upsert")


@pytest.mark.parametrize(
    "option",
    [{"insert_marker": "upsert"}, {"reload": "upsert"}, {"partial_updates": "complete"}, {"row_images": "on"}],
)
def test_what_needs_keys_is_rejected_without_them(harness: IngestHarness, option: dict[str, str]) -> None:
    with rejected(places=[(Code.BAD_OPTION, None, f"/options/{next(iter(option))}", None)]):
        harness.put("t", schema_of({"id": "int64"}), **option)


@pytest.mark.parametrize("is_columnar", [True, False])
def test_messages_of_snapshot_mode_are_rows_of_a_snapshot(harness: IngestHarness, is_columnar: bool) -> None:
    """arcion-24: "In snapshot mode", messages have an `opType` too."""
    harness.put("t", ID, reload="upsert", source_order="enforce", audit_columns={"operation": "_op"})
    members = {"cursor": '{"log": "bin.000001", "position": 4}'} | ({} if is_columnar else {"other": 1})
    rows = [arcion("t", after={"id": str(key)}, **members) for key in (1, 2)]
    for _ in range(2):
        assert harness.arcion(*rows, snapshot_rows=True).duplicates == 0
    harness.arcion(arcion("t", {"id": "1"}, None, **members))
    harness.arcion(*rows, snapshot_rows=True)
    assert harness.landed("t", "id", "_op") == [
        *([0, key, "snapshot"] for key in (1, 2, 1, 2)),
        [2, 1, "delete"],
        *([4, key, "snapshot"] for key in (1, 2)),
    ]


def test_inserts_of_native_beside_snapshot_rows_stay_inserts(harness: IngestHarness) -> None:
    harness.put("t", ID, audit_columns={"operation": "_op"})
    native = {name: value for name, value in arcion("t", after={"id": "1"}).items() if name != "exists"}
    harness.arcion({"id": "7"}, native, table="t", snapshot_rows=True)
    assert harness.landed("t", "id", "_op") == [[0, 7, "snapshot"], [0, 1, "insert"]]
