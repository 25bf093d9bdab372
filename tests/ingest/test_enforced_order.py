"""Option `source_order=enforce`: each change of a source task lands once, however often and by whomever it is sent."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app.domain.model.names import TableName
from app.domain.model.table import DropAction, DropPlan
from app.ingest import DebeziumJson, ReplicateJson
from app.observability.api_metrics import DUPLICATE_CHANGES
from mirrorgate.errors import Code
from mirrorgate.parameters import CsvLayout, CsvMode
from tests.support.gateway_parts import next_generation
from tests.support.ingest_harness import IngestHarness, counted_paths
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.samples.debezium import event
from tests.support.samples.messages import Message, arcion, data, metadata
from tests.support.samples.schemas import schema_of

ID = schema_of({"id": "int64"}, ["id"], ["id"])


def insert(number: int, schema_id: str | None = None, **facts: int | None) -> Message:
    """Return an insert whose change sequence is its key, unless another is given."""
    return data("INSERT", {"id": number}, schema_id=schema_id, **{"sequence": number, **facts})


def keys(harness: IngestHarness, table: str = "t") -> list[int]:
    return [row["id"] for row in harness.rows(table)]


def positions(harness: IngestHarness, name: str) -> dict[str, int]:
    query = "SELECT task, last_position FROM mirrorgate.source_positions WHERE table_id = :table_id"
    found = sql.rows(harness.engine, query, table_id=harness.table(name).table_id)
    return {task: int(position) for task, position in found}


def test_changes_accepted_before_are_dropped_counted_and_reported(harness: IngestHarness) -> None:
    harness.put("t", ID, source_order="enforce")
    counted = DUPLICATE_CHANGES._value.get()
    first = harness.replicate(insert(1), insert(2), table="t")
    second = harness.other.replicate(insert(2), insert(3), insert(3), table="t")
    third = harness.replicate(insert(1), insert(3), table="t")
    assert [accepted.duplicates for accepted in (first, second, third)] == [0, 2, 2]
    assert [[receipt.changes for receipt in accepted.receipts] for accepted in (first, second, third)] == [[2], [1], []]
    assert DUPLICATE_CHANGES._value.get() - counted == 4
    assert (keys(harness), positions(harness, "t")) == ([1, 2, 3], {"": 3})


def test_a_repeated_change_lands_nothing_after_a_rename_that_lands_the_rows_again(harness: IngestHarness) -> None:
    harness.put("t", ID, source_order="enforce", row_images="on")
    harness.replicate(insert(1), insert(2), table="t")
    next_generation(harness.engine, "t", DropPlan(DropAction.RENAME, new_name=TableName.parse("u")))
    assert harness.replicate(insert(1), insert(2), insert(3), table="u").duplicates == 2
    assert keys(harness, "u") == [1, 2, 3]


def test_by_default_changes_land_as_they_arrive(harness: IngestHarness) -> None:
    harness.put("t", ID)
    assert harness.replicate(insert(2), insert(1), insert(2), table="t").duplicates == 0
    assert (keys(harness), positions(harness, "t")) == ([2, 1, 2], {})


def test_a_request_out_of_order_or_without_sequences_is_rejected_whole(harness: IngestHarness) -> None:
    harness.put("t", ID, source_order="enforce")
    with rejected() as rejection:
        harness.replicate(insert(5), insert(7), insert(6), insert(8, sequence=None), table="t")
    pointer = "/message/headers/changeSequence"
    found = [place[:3] for place in rejection.places]
    assert found == [(Code.OUT_OF_ORDER, 2, pointer), (Code.BAD_SEQUENCE, 3, pointer)]
    assert (keys(harness), positions(harness, "t")) == ([], {})


def test_full_load_rows_pass_whatever_was_accepted(harness: IngestHarness) -> None:
    harness.put("t", ID, source_order="enforce", reload="upsert")
    refresh = data("REFRESH", {"id": 1})
    for _ in range(2):
        harness.replicate(refresh, insert(5), refresh, table="t")
    assert harness.landed("t", "id") == [[0, 1], [0, 5], [4, 1], [4, 1], [4, 1]]


def test_a_rejected_request_moves_no_position(harness: IngestHarness) -> None:
    harness.put("t", ID, source_order="enforce")
    with rejected():
        harness.replicate(insert(5), data("INSERT", {"id": "x"}, sequence=6), table="t")
    assert positions(harness, "t") == {}
    assert harness.replicate(insert(5), table="t").receipts[0].changes == 1


def test_the_same_batch_from_two_processes_at_once_lands_once(harness: IngestHarness) -> None:
    harness.put("t", ID, source_order="enforce")
    batch = [insert(number) for number in range(1, 6)]
    with ThreadPoolExecutor(4) as pool:
        posts = [
            pool.submit(process.replicate, *batch, table="t") for process in (harness, harness.other) for _ in range(2)
        ]
        accepted = [post.result() for post in posts]
    assert sorted(one.duplicates for one in accepted) == [0, 5, 5, 5]
    assert keys(harness) == [1, 2, 3, 4, 5]


def test_each_task_has_an_order_of_its_own_also_within_a_request(harness: IngestHarness) -> None:
    harness.put("S.T", ID, source_order="enforce")
    one = metadata("S.T", {"id": "INT8"}, task="one", schema_id="1")
    two = metadata("S.T", {"id": "INT8"}, task="two", schema_id="2")
    harness.replicate(one, insert(50, "1"), two, insert(7, "2"), insert(8, "2"))
    again = harness.replicate(one, insert(50, "1"), insert(51, "1"), two, insert(8, "2"), insert(9, "2"))
    assert (again.duplicates, keys(harness, "S.T")) == (2, [50, 7, 8, 51, 9])
    assert positions(harness, "S.T") == {"srv/one": 51, "srv/two": 9}
    with rejected() as rejection:
        harness.replicate(one, insert(53, "1"), insert(52, "1"), two, insert(11, "2"), insert(10, "2"))
    assert rejection.places[0][:2] == (Code.OUT_OF_ORDER, 2)
    assert [place[1] for place in rejection.places] == [2, 5]


def test_each_partition_of_a_task_has_an_order_of_its_own(harness: IngestHarness) -> None:
    """Changes of other rows arrive later from another partition, although their marks are lower."""
    harness.replicate(metadata("S.T", {"id": "INT8"}, schema_id="1"))
    harness.put("S.T", source_order="enforce")
    harness.replicate(insert(5, "1"), insert(9, "1"), partition="0")
    late = harness.other.replicate(insert(4, "1"), insert(6, "1"), partition="1")
    again = [harness.replicate(insert(number, "1"), partition=part).duplicates for number, part in ((9, "0"), (6, "1"))]
    assert (late.duplicates, again, keys(harness, "S.T")) == (0, [1, 1], [5, 9, 4, 6])
    assert positions(harness, "S.T") == {"srv/task\x1f0": 9, "srv/task\x1f1": 6}


def test_another_source_of_the_same_task_has_an_order_of_its_own(harness: IngestHarness) -> None:
    harness.put("S.T", ID, source_order="enforce", sources=["S.OTHER"])
    harness.replicate(metadata("S.T", {"id": "INT8"}), insert(50, "S.T-1"))
    accepted = harness.replicate(metadata("S.OTHER", {"id": "INT8"}), insert(7, "S.OTHER-1"))
    assert (accepted.duplicates, keys(harness, "S.T")) == (0, [50, 7])


def test_a_dry_run_counts_duplicates_and_moves_nothing(harness: IngestHarness) -> None:
    harness.put("t", ID, source_order="enforce")
    harness.replicate(insert(1), table="t")
    reader = ReplicateJson(json.dumps([insert(1), insert(2)]).encode(), harness.table("t").name)
    for _ in range(2):
        result = harness.dry_run(reader)
        assert (result.duplicates, result.tables[0].rows) == (1, [{"id": 2, "__rowMarker__": 0}])
    assert positions(harness, "t") == {"": 1}


Members = Callable[[int], dict[str, Any]]
"""Returns what a source says of its n-th change."""

DEBEZIUM: dict[str, Members] = {
    "postgresql": lambda n: {"sequence": f'["{100 + n // 2}","1"]', "lsn": 1_000 - 10 * (n // 2) + n % 2},
    "mysql": lambda n: {"lsn": None, "file": f"bin.{9 + n // 3:06}", "pos": 154 + n % 3, "row": 0, "server_id": 1},
    "mariadb": lambda n: {"lsn": None, "file": "bin.000001", "pos": 99, "row": n, "gtid": "0-1-7"},
    "sqlserver": lambda n: {
        "lsn": None,
        "commit_lsn": f"0000002a:00000d{n // 2:02x}:0001",
        "change_lsn": f"0000002a:00000d{n % 2:02x}:0003",
        "event_serial_no": 1,
    },
    "oracle": lambda n: {"lsn": None, "commit_scn": f"{2_000 + n}", "scn": f"{1_000 - n}"},
}
"""By connector: positions that grow, though some of their numbers do not."""

ARCION: dict[str, Members] = {
    "MySQL": lambda n: {"log": f"log-bin.{9 + n // 2:06}", "position": 7_461 + n % 2, "logSeqNum": 1, "v": 2},
    "Cassandra": lambda n: {"nodeID": "node1", "dscId": 1_620_787_053_904, "mutId": 1_048_408 + n, "partN um": 1},
    "Postgres": lambda n: {"commitLsn": f"16/B374D8{n:02X}", "lsn": f"16/B374D8{99 - n}"},
    "SQL Server": lambda n: {"commitLsn": f"0000002a:00000d{n:02x}:0001", "lsn": "0000002a:00000d01:0001"},
    "Oracle": lambda n: {"commitScn": 2_000 + n, "scn": 1_000 - n},
}
"""By database: what cursors have beside the extractor and the times."""


def change(connector: str, number: int) -> Message:
    return event("c", "S.T", after={"id": number}, connector=connector, **DEBEZIUM[connector](number))


def message(database: str, number: int) -> Message:
    cursor = {"extractorId": 0, "timestamp": 1_657_516_903_000, **ARCION[database](number)}
    return arcion("S.T", after={"id": str(number)}, cursor=json.dumps(cursor))


@pytest.fixture
def enforcing(harness: IngestHarness) -> IngestHarness:
    harness.put("S.T", ID, source_order="enforce")
    return harness


@pytest.mark.parametrize("connector", DEBEZIUM)
def test_debezium_that_repeats_after_its_crash_lands_nothing_twice(enforcing: IngestHarness, connector: str) -> None:
    sent = [change(connector, number) for number in range(8)]
    parts = [sent[:3], sent[1:3], sent[2:6], sent[:6], sent[5:]]
    found = [enforcing.debezium(*part) for part in parts]
    assert [one.duplicates for one in found] == [0, 2, 1, 6, 1]
    assert keys(enforcing, "S.T") == [*range(8)]


@pytest.mark.parametrize("database", ARCION)
def test_metadata_required_for_consistent_replication_recovery_lands_nothing_twice(
    enforcing: IngestHarness, database: str
) -> None:
    """arcion-7: the last columns "contain metadata required for consistent replication recovery"."""
    sent = [message(database, number) for number in range(8)]
    found = [enforcing.arcion(*part) for part in (sent[:3], sent[1:3], sent[2:6], sent[5:])]
    assert [one.duplicates for one in found] == [0, 2, 1, 1]
    assert keys(enforcing, "S.T") == [*range(8)]


def test_cursors_in_csv_are_those_of_json(enforcing: IngestHarness) -> None:
    layout = CsvLayout(CsvMode.REALTIME, ("id",))
    cursors = [json.dumps(ARCION["MySQL"](number) | {"extractorId": 0}) for number in (1, 2)]
    lines = [f'{at},NULL,1,I,"{cursor.replace(chr(34), chr(34) * 2)}",{{}}\n' for at, cursor in enumerate(cursors)]
    enforcing.csv(lines[0], "S.T", layout)
    assert enforcing.csv("".join(lines), "S.T", layout).duplicates == 1
    enforcing.arcion(arcion("S.T", after={"id": "7"}, cursor=cursors[1]))
    assert keys(enforcing, "S.T") == [0, 1, 7]


def test_only_a_request_that_repeats_leaves_the_columnar_path(enforcing: IngestHarness) -> None:
    for numbers, path, reason in (
        (range(3), "columnar", ""),
        (range(3, 6), "columnar", ""),
        (range(4, 7), "exact", "table_moved"),
    ):
        with counted_paths(("debezium", path, reason)):
            enforcing.debezium(*(change("mysql", number) for number in numbers))


def test_rows_of_one_copy_share_their_lsn_and_all_land_once(enforcing: IngestHarness) -> None:
    copied = [event("c", "S.T", after={"id": number}, sequence='["9","9"]', lsn=500) for number in range(4)]
    found = [enforcing.debezium(*part) for part in (copied[:2], copied[1:3], copied[3:], copied)]
    assert [one.duplicates for one in found] == [0, 1, 0, 4]
    assert keys(enforcing, "S.T") == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "options",
    [{"audit_columns": {"operation": "op"}}, {"derive": {"half": "id / 2"}}, {"insert_marker": "upsert"}, {}],
    ids=["audit column", "derived column", "marker", "new column"],
)
def test_rows_that_share_their_lsn_are_known_after_a_change_of_the_table(
    enforcing: IngestHarness, options: dict[str, Any]
) -> None:
    copied = [event("c", "S.T", after={"id": number}, sequence='["9","9"]', lsn=500) for number in range(2)]
    enforcing.debezium(*copied)
    schema = None if options else schema_of({"id": "int64", "new": "string"}, ["id"], ["id"])
    enforcing.put("S.T", schema, source_order="enforce", **options)
    assert [enforcing.debezium(*copied).duplicates, enforcing.debezium(copied[1]).duplicates] == [2, 1]
    assert keys(enforcing, "S.T") == [0, 1]


def test_rows_of_a_snapshot_pass_in_any_order(enforcing: IngestHarness) -> None:
    read = [event("r", "S.T", after={"id": number}, snapshot="true") for number in (2, 1)]
    assert [enforcing.debezium(*read).duplicates for _ in range(2)] == [0, 0]
    assert positions(enforcing, "S.T") == {}


def test_changes_that_a_restart_in_an_incremental_snapshot_marks_keep_their_position(enforcing: IngestHarness) -> None:
    position = {"connector": "postgresql", **DEBEZIUM["postgresql"](1), "snapshot": "true"}
    sent = event("c", "S.T", after={"id": 1}, **position)
    assert [enforcing.debezium(sent).duplicates for _ in range(2)] == [0, 1]


@pytest.mark.parametrize(
    "members",
    [
        {"connector": "vitess", "vgtid": "[]"},
        {"connector": "postgresql"},
        {"connector": "mysql", "file": "bin", "pos": 4},
        {"connector": "oracle", "scn": "1"},
        {"connector": "oracle", "commit_scn": "1:x,2:y", "scn": "1"},
    ],
    ids=["unknown connector", "only an LSN", "a file without a number", "no commit", "commits of several threads"],
)
def test_positions_that_cannot_be_compared_are_rejected(enforcing: IngestHarness, members: dict[str, Any]) -> None:
    with rejected(places=[(Code.BAD_SEQUENCE, 0, "/source", None)]):
        enforcing.debezium(event("c", "S.T", after={"id": 1}, **members))


def test_a_cursor_whose_order_is_not_known_is_rejected(enforcing: IngestHarness) -> None:
    for cursor in ("7", "{", json.dumps({"lsn": 7}), None):
        with rejected(places=[(Code.BAD_SEQUENCE, 0, "/cursor", None)]):
            enforcing.arcion(arcion("S.T", after={"id": "1"}, cursor=cursor))


def test_another_incarnation_of_a_log_is_not_compared(enforcing: IngestHarness) -> None:
    """After a failover, the new server has other log files: the gateway lands what it cannot compare."""
    members = DEBEZIUM["mysql"](0) | {"connector": "mysql"}
    for server in (1, 2):
        enforcing.debezium(event("c", "S.T", after={"id": server}, **members | {"server_id": server}))
    assert keys(enforcing, "S.T") == [1, 2]


def test_a_log_that_was_reset_is_told_by_the_time_of_its_changes(enforcing: IngestHarness) -> None:
    """`RESET BINARY LOGS` begins again with file 1: its changes are new, whatever their positions."""
    members = {"connector": "mysql", "server_id": 1, "pos": 4}
    enforcing.debezium(event("c", "S.T", after={"id": 1}, **members, file="bin.000007", ts_ms=1_767_323_045_000))
    with rejected(places=[(Code.POSITION_RESTARTED, 0, "/source", None)]):
        enforcing.debezium(event("c", "S.T", after={"id": 2}, **members, file="bin.000001", ts_ms=1_767_323_045_001))


def test_partitions_of_a_topic_of_debezium_have_an_order_each(enforcing: IngestHarness) -> None:
    for number, partition in ((5, "t/0"), (2, "t/1"), (5, "t/0"), (2, "t/1")):
        body = json.dumps(change("oracle", number)).encode()
        enforcing.accept(DebeziumJson(body, partition=partition))
    assert keys(enforcing, "S.T") == [5, 2]


def test_rows_without_a_position_are_rejected(enforcing: IngestHarness) -> None:
    with rejected(places=[(Code.BAD_SEQUENCE, 0, None, None)]):
        enforcing.plain_rows("S.T", {"id": 1})
