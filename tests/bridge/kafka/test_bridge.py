"""Records of topics land once and in order: across restarts, over patterns and headers, with tombstones."""

from mirrorgate_bridge.kafka.buffer import Position
from tests.api.calls import Gateway
from tests.bridge.kafka.conftest import Run
from tests.bridge.kafka.running import ids, register, row, rows_topic, staged
from tests.support.kafka import MockCluster, Record
from tests.support.samples.debezium import event, key_with_schema, with_schema
from tests.support.samples.replicate_avro import data_message, metadata_message
from tests.support.waiting import wait_until

KEY = key_with_schema({"id": 1}, {"id": "int64"})


def markers(gateway: Gateway, table: str) -> list[tuple[int, int]]:
    """Return marker and key of each staged row."""
    return [(one["__rowMarker__"], one["id"]) for one in staged(gateway.engine, table)]


def test_each_record_lands_once_in_the_order_of_its_partition_across_restarts(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "orders", "sales.orders")
    cluster.create_topic("orders", 2)
    records = [Record(row(n, n % 2, "x" * 100), partition=n % 2) for n in range(2_000)]
    for part in (records[:1_000], records[1_000:]):
        ends = cluster.produce("orders", part)
        with run(topic) as bridge:
            bridge.reaches("orders", ends[-2])
            bridge.reaches("orders", ends[-1], 1)
    for partition in (0, 1):
        found = [one["id"] for one in staged(gateway.engine, "sales.orders") if one["n"] == partition]
        assert found == list(range(partition, 2_000, 2))
    assert cluster.committed("orders", "orders") == 1_000  # for lag tools
    position = gateway.get("/v1/producers/kafka:test%2Forders%2Forders%2F1").json()["position"]
    assert Position.parse(position) == Position(999, None, 2)


def test_a_pattern_gives_topics_their_tables_and_later_topics_are_found(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    register(gateway, "crm.people", "crm.pets")
    cluster.produce("cdc.crm.people", [Record(row(1))])
    topic = {"pattern": r"cdc\.(?P<schema>\w+)\.(?P<table>\w+)", "format": "rows", "table": "{schema}.{table}"}
    with run(topic, group="pattern") as bridge:
        bridge.reaches("cdc.crm.people", 0)
        cluster.produce("cdc.crm.pets", [Record(row(2))])
        bridge.reaches("cdc.crm.pets", 0)
    assert [one["id"] for table in ("crm.people", "crm.pets") for one in staged(gateway.engine, table)] == [1, 2]


def test_a_header_or_the_key_of_a_record_names_its_table(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    register(gateway, "a.one", "a.two")
    tables = ["one", "one", "two", "one"]
    cluster.produce("mixed", [Record(row(n), key={"s": "a"}, headers={"t": t.encode()}) for n, t in enumerate(tables)])
    topic = {"topic": "mixed", "format": "rows", "table": "{key.s}.{header.t}"}
    with run(topic) as bridge:
        assert bridge.reaches("mixed", 3).counters.requests == 3
    assert [[one["id"] for one in staged(gateway.engine, f"a.{name}")] for name in ("one", "two")] == [[0, 1, 3], [2]]


def test_a_tombstone_deletes_the_row_of_its_key(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "compacted", "t.compacted")
    cluster.produce("compacted", [Record(row(1), key={"id": 1}), Record(None, key={"id": 1}), Record(row(2))])
    with run(topic) as bridge:
        bridge.reaches("compacted", 2)
    assert markers(gateway, "t.compacted") == [(4, 1), (2, 1), (4, 2)]


def test_latest_starts_at_the_end_and_a_restart_before_the_first_record_loses_none(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "late", "t.latest", start="latest")
    cluster.produce("late", [Record(row(1))])
    with run(topic) as bridge:
        wait_until(lambda: bridge.partition("late").reads, within=60, what="it reads")
    cluster.produce("late", [Record(row(2))])
    with run(topic) as bridge:
        bridge.reaches("late", 1)
    assert ids(gateway.engine, "t.latest") == [2]


def test_latest_skips_no_record_behind_offsets_that_were_deleted_unread(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "quiet", "t.quiet", start="latest")
    cluster.produce("quiet", [Record(row(1))])
    with run(topic) as bridge:
        wait_until(lambda: bridge.partition("quiet").reads, within=60, what="it reads")
    cluster.produce("quiet", [Record(row(n)) for n in (2, 3)])
    cluster.delete_records("quiet", 0, 2)
    with run(topic) as bridge:
        assert bridge.stops("quiet").state.code == "source_position_lost"
    with run(topic, start=("quiet/0@earliest",)) as bridge:
        bridge.reaches("quiet", 2)
    assert ids(gateway.engine, "t.quiet") == [3]


def test_two_bridges_share_the_partitions_and_no_record_lands_twice(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "shared", "t.shared")
    cluster.create_topic("shared", 2)

    def produce(first: int) -> None:
        cluster.produce("shared", [Record(row(n, n % 2), partition=n % 2) for n in range(first, first + 200)])

    produce(0)
    with run(topic) as one:
        one.reaches("shared", 99)
        one.reaches("shared", 99, 1)
        with run(topic) as other:
            wait_until(lambda: len(one.bridge.partitions) == 1 == len(other.bridge.partitions), within=60, what="share")
            produce(200)
            for bridge in (one, other):
                [(_, number)] = bridge.bridge.partitions
                bridge.reaches("shared", 199, number)
        wait_until(lambda: len(one.bridge.partitions) == 2, within=60, what="the first one has both again")
        produce(400)
        one.reaches("shared", 299)
        one.reaches("shared", 299, 1)
    rows = staged(gateway.engine, "t.shared")
    for number in (0, 1):
        assert [one["id"] for one in rows if one["n"] == number] == list(range(number, 600, 2))


def test_debezium_records_land_with_the_key_of_their_record(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    columns = {"id": "int64", "text": "string"}
    records = [
        Record(with_schema(event("c", "t.deb", after={"id": 1, "text": "a"}), columns), key=KEY),
        Record(with_schema(event("u", "t.deb", after={"id": 1, "text": "b"}), columns), key=KEY),
        Record(with_schema(event("d", "t.deb", before={"id": 1, "text": "b"}), columns), key=KEY),
        Record(None, key=KEY),
        Record(b'"default"', key=KEY),
        *(Record(with_schema(event("c", "t.log", after={"id": 1, "text": "a"}), columns)) for _ in range(2)),
    ]
    cluster.produce("deb", records)
    with run({"topic": "deb", "format": "debezium"}) as bridge:
        bridge.reaches("deb", 6)
    assert gateway.status("t.deb")["key_columns"] == ["id"]
    assert markers(gateway, "t.deb") == [(0, 1), (1, 1), (2, 1)]
    assert gateway.status("t.log")["key_columns"] == []
    assert markers(gateway, "t.log") == [(0, 1), (0, 1)]


def test_a_tombstone_alone_stops_flattened_rows_until_its_meaning_is_told(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    register(gateway, "t.flat")
    topic = {"topic": "flat", "format": "debezium", "table": "t.flat"}
    cluster.produce("flat", [Record(row(1), key=KEY)])
    with run(topic) as bridge:
        bridge.reaches("flat", 0)
        cluster.produce("flat", [Record(None, key=KEY)])
        assert bridge.stops("flat").state.code == "bad_request"
    with run({**topic, "parameters": {"tombstones": "delete"}}) as bridge:
        bridge.reaches("flat", 1)
    assert markers(gateway, "t.flat") == [(4, 1), (2, 1)]


def test_a_replicate_delete_without_an_image_takes_the_key_of_its_record(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    register(gateway, "t.tasks")
    made = {"message": {"headers": {"operation": "INSERT"}, "data": row(1)}}
    deleted = {"message": {"headers": {"operation": "DELETE"}, "data": None}}
    cluster.produce("tasks", [Record(made, key=b"\xff\x00"), Record(deleted, key={"id": 1}), Record(None, key=b"\xff")])
    with run({"topic": "tasks", "format": "replicate", "table": "t.tasks"}) as bridge:
        assert bridge.reaches("tasks", 2).counters.ignored == 1
    assert markers(gateway, "t.tasks") == [(0, 1), (2, 1)]


def test_replicates_avro_messages_land_by_the_schema_of_their_metadata_without_a_registry(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    table = "payroll.jobs"
    messages = [
        metadata_message(table, "7b1c"),
        data_message(table, "7b1c", "INSERT", {"ID": 1, "TITLE": "Engineer"}),
        data_message(table, "7b1c", "UPDATE", {"ID": 1, "TITLE": "Senior"}, {"ID": 1, "TITLE": "Engineer"}),
        data_message(table, "7b1c", "DELETE", {"ID": 1}),
    ]
    cluster.produce("jobs", [Record(message, key=b"\xff\x00") for message in messages])
    with run({"topic": "jobs", "format": "replicate", "value": "avro"}) as bridge:
        bridge.reaches("jobs", 3)
    found = [(one["__rowMarker__"], one["ID"], one["TITLE"]) for one in staged(gateway.engine, table)]
    assert found == [(0, 1, "Engineer"), (1, 1, "Senior"), (2, 1, None)]
