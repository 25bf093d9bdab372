"""A table that changes between typing and staging: the request is typed again for the changed table."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import count

import pytest
import sqlalchemy as sa

from app.ingest.reader_thread import UnreadBody
from app.staging.writer.group_commit import GroupCommit
from app.staging.writer.request_queue import WaitingRequest
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.support.ingest_harness import IngestHarness
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.samples.debezium import event, with_schema
from tests.support.samples.messages import arcion, data, metadata
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
ADA = {"id": "1", "name": "Ada"}


@dataclass
class Interrupted:
    """A group commit before which something happens, as often as there are actions."""

    inner: GroupCommit
    read_bodies: Callable[[Sequence[UnreadBody]], list[WaitingRequest]]
    actions: list[Callable[[], object]]
    submitted: int = 0

    def stage(self, *requests: WaitingRequest) -> None:
        self._interrupt()
        self.inner.stage(*requests)

    def read(self, bodies: Sequence[UnreadBody]) -> list[WaitingRequest]:
        """Read in the staging thread, which then stages what is read."""
        read = self.read_bodies(bodies)
        if read:
            self._interrupt()
        return read

    def _interrupt(self) -> None:
        self.submitted += 1
        if self.actions:
            with ThreadPoolExecutor(1) as pool:  # what happens may run its own event loop
                pool.submit(self.actions.pop(0)).result()


def interrupt(harness: IngestHarness, *actions: Callable[[], object]) -> Interrupted:
    reader = harness.ingest._columnar_reader
    interrupted = Interrupted(harness.ingest.group_commit, reader.read, list(actions))
    harness.ingest.group_commit = interrupted  # type: ignore[assignment]
    reader.read = interrupted.read  # type: ignore[method-assign]
    return interrupted


@pytest.mark.parametrize(
    ("option", "landed"),
    [
        ({"exclude": ["name"]}, [0, 1, None]),
        ({"insert_marker": "upsert"}, [4, 1, "Ada"]),
        ({"partial_updates": "complete"}, [0, 1, "Ada"]),
    ],
)
def test_an_option_that_changes_meanwhile_counts_for_the_request(
    harness: IngestHarness, option: dict[str, object], landed: list[object]
) -> None:
    harness.put("t", SCHEMA)
    writer = interrupt(harness, lambda: harness.other.put("t", **option))
    harness.arcion(arcion("t", None, ADA))
    assert (writer.submitted, harness.landed("t", "id", "name")) == (2, [landed])


def test_the_bytes_of_an_event_are_read_again_if_their_encoding_changes_meanwhile(harness: IngestHarness) -> None:
    harness.put("shop.t", schema_of({"id": "int32", "seal": "binary"}, ["id"], ["id"]))
    turns = [partial(harness.other.put, "shop.t", binary_encoding=encoding) for encoding in ("hex", "base64")]
    writer = interrupt(harness, *turns)
    row = event("c", "shop.t", None, {"id": 1, "seal": "3q2+7w=="})
    harness.debezium(with_schema(row, {"id": "int32", "seal": "bytes"}), key_columns=("id",))
    assert (writer.submitted, harness.landed("shop.t", "seal")) == (3, [[0, bytes.fromhex("deadbeef")]])


def test_an_event_is_read_again_if_its_table_changes_before_it_is_typed(harness: IngestHarness) -> None:
    harness.put("shop.t", schema_of({"id": "int32", "seal": "binary"}, ["id"], ["id"]), binary_encoding="hex")
    cache, begin, begun = harness.ingest.table_cache, harness.ingest.table_cache.begin, count(1)

    def begin_after_a_change() -> AbstractContextManager[sa.Connection]:
        if next(begun) == 2:
            harness.other.put("shop.t", binary_encoding="base64")
        return begin()

    cache.begin = begin_after_a_change
    row = event("c", "shop.t", None, {"id": 1, "seal": "3q2+7w=="}, unusual=1)
    harness.debezium(with_schema(row, {"id": "int32", "seal": "bytes"}), key_columns=("id",))
    assert (next(begun) > 2, harness.landed("shop.t", "seal")) == (True, [[0, bytes.fromhex("deadbeef")]])


def test_metadata_that_is_read_again_for_a_moved_table_is_not_told_as_a_repeat(harness: IngestHarness) -> None:
    writer = interrupt(harness, lambda: harness.other.put("s.t", reload="upsert"))
    answer = harness.replicate(metadata("s.t", {"id": "INT8"}), data("INSERT", {"id": 1}, table="s.t"))
    assert (writer.submitted, answer.ignored, harness.landed("s.t", "id")) == (2, 0, [[0, 1]])


def test_options_that_only_look_again_do_not_type_again(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, reload="upsert")
    writer = interrupt(harness, lambda: harness.other.put("t", SCHEMA, reload="upsert"))
    harness.arcion(arcion("t", None, ADA))
    assert writer.submitted == 1


def test_a_request_that_no_longer_fits_is_rejected(harness: IngestHarness) -> None:
    wide = schema_of({"id": "int64", "name": "string", "fax": "string"}, ["id"], ["id"])
    harness.put("t", wide, exclude=["fax"])
    interrupt(harness, lambda: harness.other.put("t", wide, exclude=[]))
    with rejected(Code.UNKNOWN_COLUMN):
        harness.arcion(arcion("t", ADA, ADA | {"odd": "x"}))


def test_new_columns_that_are_no_longer_wanted_are_not_added(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, new_columns="add_as_string")
    harness.arcion(arcion("t", None, ADA))
    harness.other.put("t", new_columns="reject")
    with rejected(places=[(Code.UNKNOWN_COLUMN, 0, "/after/note", "note")]):
        harness.arcion(arcion("t", None, ADA | {"note": "x"}))
    assert harness.table("t").schema == SCHEMA


def test_a_column_that_another_process_has_typed_meanwhile_is_taken_as_typed(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, new_columns="add_as_string")
    harness.arcion(arcion("t", None, ADA))
    harness.other.put("t", schema_of({"id": "int64", "name": "string", "n": "int64"}, ["id"], ["id"]))
    harness.arcion(arcion("t", None, ADA | {"n": "7"}))
    assert harness.landed("t", "n")[-1] == [0, 7]


def test_a_bare_table_that_gets_its_marker_meanwhile_takes_the_insert_with_it(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, initial_load="without_marker")
    change = data("DELETE", {"id": 5})
    writer = interrupt(harness, lambda: harness.other.replicate(change, table="t"))
    harness.arcion(arcion("t", None, ADA))
    assert (writer.submitted, harness.landed("t", "id")) == (2, [[2, 5], [0, 1]])
    versions = sql.rows(harness.engine, "SELECT schema_version FROM mirrorgate.staged_blocks ORDER BY first_sequence")
    assert versions == [(2,), (2,)]


def test_a_source_that_is_led_elsewhere_meanwhile_lands_there(harness: IngestHarness) -> None:
    harness.put("s.t", SCHEMA)
    harness.put("other", SCHEMA)
    interrupt(harness, lambda: harness.other.put("other", sources=["c.s.t"]))
    [receipt] = harness.arcion(arcion("s.t", None, ADA, catalog="c")).receipts
    assert receipt.table == "other"


def test_a_table_that_never_rests_asks_to_come_again(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA)
    turns = [{"reload": "upsert"}, {"reload": "reject"}] * 3
    interrupt(harness, *(lambda turn=turn: harness.other.put("t", **turn) for turn in turns))
    with pytest.raises(TemporarilyUnavailable, match=Code.TABLE_BUSY):
        harness.arcion(arcion("t", None, ADA))
    assert harness.rows("t") == []
