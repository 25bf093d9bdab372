"""Faults of the gateway and of the source, and records that are rejected."""

import json
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError

from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.producer import ChangeRequest, Patience, Producer
from mirrorgate_bridge.kafka.buffer import SNAPSHOTS_REMEDY, Position, parameters_of
from mirrorgate_bridge.kafka.partition import Partition
from mirrorgate_bridge.kafka.settings import TopicRule
from tests.api.calls import ADMIN_KEY, Gateway
from tests.bridge.kafka.conftest import Run
from tests.bridge.kafka.running import ids, register, row, rows_topic
from tests.support.http.faulty_proxy import Fault, Request, dropping_proxy, faulty_proxy, no_fault
from tests.support.kafka import MockCluster, Record, kafka_cluster
from tests.support.samples.debezium import Field, event, key_with_schema, with_schema


def overloaded(_: Request) -> Fault:
    return Fault.OVERLOADED


def test_while_the_gateway_is_away_the_bridge_waits_with_bounded_memory_and_few_lines(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "g_away", "g.away")
    cluster.create_topic("g_away")
    with (
        faulty_proxy(gateway.address, usual=overloaded) as proxy,
        run(topic, group="away", url=proxy.url, log_repeat=60.0) as bridge,
    ):
        bridge.wait(lambda: bridge.bridge.reasons() == ["g_away/0 waiting: overloaded"])
        proxy.usual = no_fault
        cluster.produce("g_away", [Record(row(0))])
        bridge.reaches("g_away", 0)
        proxy.usual = overloaded
        cluster.produce("g_away", [Record(row(n, text="x" * 1_000)) for n in range(1, 1_001)])
        partition = bridge.partition("g_away")
        bridge.wait(lambda: partition.is_paused and partition.state.name == "waiting")
        assert partition.buffer.bytes < 2_000 * 1_300  # the records of one look at the consumer's queue
        assert partition.counters.retries
        proxy.usual = no_fault
        bridge.reaches("g_away", 1_000)
        assert len(bridge.events("partition_waits")) == 1
        assert bridge.bridge.reasons() == []
    assert ids(gateway.engine, "g.away") == [*range(1_001)]


def test_a_partition_that_comes_back_while_it_was_paused_is_read(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "g_back", "g.back")
    cluster.create_topic("g_back", partitions=2)
    for number in range(2):
        cluster.produce("g_back", [Record(row(number), partition=number)])
    with faulty_proxy(gateway.address, usual=overloaded) as proxy, run(topic, group="back", url=proxy.url) as bridge:
        bridge.wait(lambda: len(bridge.bridge.reasons()) == 2)
        with run(topic, group="back") as other:
            bridge.wait(lambda: bridge.events("partitions_revoked"))
            proxy.usual = no_fault
            bridge.wait(lambda: len(bridge.events("partitions_assigned")) > 1)
            other.wait(lambda: sorted(ids(gateway.engine, "g.back")) == [0, 1])


def test_requests_whose_answers_are_lost_land_once(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "g_lost", "g.lost")
    cluster.create_topic("g_lost")
    cluster.produce("g_lost", [Record(row(n)) for n in range(100)])
    with dropping_proxy(gateway.address) as proxy, run(topic, group="lost", url=proxy.url) as bridge:
        bridge.reaches("g_lost", 99)
    assert set(proxy.posted().values()) == {2}
    assert ids(gateway.engine, "g.lost") == [*range(100)]


def test_a_bridge_continues_after_what_another_one_has_sent_under_its_name(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "g_other", "g.other")
    cluster.create_topic("g_other")
    cluster.produce("g_other", [Record(row(n)) for n in range(3)])
    with run(topic, group="other") as bridge, GatewayClient(gateway.address, ADMIN_KEY) as client:
        bridge.reaches("g_other", 2)
        other = Producer.open(client, "kafka:test/other/g_other/0", Patience(give_up_after=5))
        body = b'{"id": 3, "n": 0, "text": ""}'
        other.send(ChangeRequest("rows", body, {"table": "g.other"}, position=Position(3).text()))
        cluster.produce("g_other", [Record(row(n)) for n in range(3, 6)])
        assert bridge.reaches("g_other", 5).counters.conflicts == 1
    assert ids(gateway.engine, "g.other") == [*range(6)]


def has_met(partition: Partition, conflicts: int, newest: int) -> bool:
    """Return true after another conflict, or if the bridge was faster and its newest record is durable."""
    return partition.counters.conflicts > conflicts or partition.last_offset == newest


def test_a_bridge_that_always_finds_another_one_under_its_name_stops_with_the_choice(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "g_fight", "g.fight")
    cluster.create_topic("g_fight")
    with run(topic, group="fight") as bridge, GatewayClient(gateway.address, ADMIN_KEY) as client:
        other = Producer.open(client, "kafka:test/fight/g_fight/0", Patience(give_up_after=5))
        partition = bridge.partition("g_fight")
        body = b'{"id": 1, "n": 0, "text": ""}'
        give_up, newest = time.monotonic() + 60, -1
        while partition.state.name != "stopped" and time.monotonic() < give_up:
            with suppress(RejectedByGateway):  # the bridge was faster
                other.refresh()
                other.send(ChangeRequest("rows", body, {"table": "g.fight"}, position=Position(-1).text()))
            conflicts = partition.counters.conflicts
            cluster.produce("g_fight", [Record(row(2))])
            newest += 1
            bridge.wait(partial(has_met, partition, conflicts, newest))
        assert partition.state.code == "producer_shared"
        assert "another `cluster` or `group`" in str(partition.state.remedy)


def test_a_wrong_key_is_reported_and_nothing_is_consumed(cluster: MockCluster, api_address: str, run: Run) -> None:
    cluster.produce("g_key", [Record(row(0))])
    wrong = {"url": api_address, "key": "mg_0000000000000009_wrong"}
    with run({"topic": "g_key", "format": "rows", "table": "g.key"}, group="key", gateway=wrong) as bridge:
        bridge.wait(lambda: bridge.bridge.reasons()[:1] == ["g_key/0 waiting: unauthenticated"])
        assert bridge.partition("g_key").buffer.bytes == 0


def test_each_partition_has_its_own_source_order_in_tables_that_enforce_it() -> None:
    rule = TopicRule(topic="t", format="replicate")
    assert [parameters_of(rule, "t", number, None)["partition"] for number in (0, 1)] == ["t/0", "t/1"]


FETCH = 1
"""The number of the request in Kafka's protocol."""


def test_a_topic_with_lower_offsets_stops_until_the_operator_chooses(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "again", "f.again")
    cluster.create_topic("again")
    cluster.produce("again", [Record(row(n)) for n in range(5)])
    with run(topic) as bridge:
        bridge.reaches("again", 4)
    cluster.delete_topic("again")
    cluster.create_topic("again")
    cluster.produce("again", [Record(row(n)) for n in (10, 11)])
    with run(topic) as bridge:
        assert bridge.stops("again").state.code == "source_position_lost"
        assert "--from TOPIC/PARTITION@earliest" in bridge.events("partition_stopped")[0]["remedy"]
    assert ids(gateway.engine, "f.again") == [*range(5)]
    for number in (12, 13):  # the option stays on a service's command line, and applies once
        with run(topic, start=("again/0@earliest",)) as bridge:
            bridge.reaches("again", 1)
            [offset] = cluster.produce("again", [Record(row(number))])
            bridge.reaches("again", offset)
    assert ids(gateway.engine, "f.again") == [*range(5), 10, 11, 12, 13]


def test_offsets_that_retention_deleted_unread_stop_it(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "gap", "f.gap")
    cluster.create_topic("gap")
    cluster.produce("gap", [Record(row(0))])
    with run(topic) as bridge:
        bridge.reaches("gap", 0)
    cluster.produce("gap", [Record(row(n)) for n in range(1, 10)])
    cluster.delete_records("gap", 0, 5)
    with run(topic) as bridge:
        assert "4 offsets from 1 on are deleted" in str(bridge.stops("gap").state.detail)
    with run(topic, start=("gap/*@earliest",)) as bridge:
        bridge.reaches("gap", 9)
    assert ids(gateway.engine, "f.gap") == [0, *range(5, 10)]


def test_a_changed_number_of_partitions_stops_until_it_is_accepted(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "more", "f.more")
    cluster.create_topic("more", 1)
    cluster.produce("more", [Record(row(0))])
    with run(topic) as bridge:
        bridge.reaches("more", 0)
    cluster.delete_topic("more")
    cluster.create_topic("more", 2)
    cluster.produce("more", [Record(row(0)), Record(row(1))])
    with run(topic) as bridge:
        for number in (0, 1):
            assert bridge.stops("more", number).state.code == "source_order_unsafe"
    with run({**topic, "partitions": 2}) as bridge:
        bridge.reaches("more", 1)
        bridge.wait(lambda: bridge.partition("more", 1).reads)
    assert ids(gateway.engine, "f.more") == [0, 1]


def test_a_missing_topic_is_reported_and_read_once_it_exists(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "absent", "f.absent")
    with run(topic) as bridge:
        bridge.wait(lambda: any("topic absent" in reason for reason in bridge.bridge.reasons()))
        cluster.create_topic("absent")
        cluster.produce("absent", [Record(row(1))])
        bridge.reaches("absent", 0)
        bridge.wait(lambda: not bridge.bridge.reasons())
    assert ids(gateway.engine, "f.absent") == [1]


def test_a_deleted_topic_of_a_pattern_is_not_missed(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    register(gateway, "f.many")
    for topic in ("many.a", "many.b"):
        cluster.create_topic(topic)
        cluster.produce(topic, [Record(row(1))])
    rule = {"pattern": r"many\..", "format": "rows", "table": "f.many"}
    with run(rule, settings={"topic.metadata.refresh.interval.ms": "500"}) as bridge:
        for topic in ("many.a", "many.b"):
            bridge.reaches(topic, 0)
        cluster.delete_topic("many.b")
        bridge.wait(lambda: any("many.b" in line["detail"] for line in bridge.events("kafka_error")))
        bridge.wait(lambda: [*bridge.bridge.partitions] == [("many.a", 0)])
        assert bridge.bridge.reasons() == []


def test_brokers_that_are_away_are_waited_for_and_reported(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "away", "f.away")
    cluster.create_topic("away")
    cluster.produce("away", [Record(row(0))])
    with run(topic, settings={"reconnect.backoff.max.ms": "200"}) as bridge:
        bridge.reaches("away", 0)
        cluster.stop_broker()
        bridge.wait(lambda: any("source_unavailable" in reason for reason in bridge.bridge.reasons()))
        cluster.start_broker()
        cluster.produce("away", [Record(row(1))])
        bridge.reaches("away", 1)
        bridge.wait(lambda: not bridge.bridge.reasons())
    assert ids(gateway.engine, "f.away") == [0, 1]


def test_a_topic_that_is_created_again_while_it_is_read_stops_and_names_the_choices_at_the_next_start(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "live", "f.live")
    cluster.create_topic("live")
    cluster.produce("live", [Record(row(n)) for n in range(5)])
    with run(topic, settings={"topic.metadata.refresh.interval.ms": "200"}) as bridge:
        bridge.reaches("live", 4)
        cluster.delete_topic("live")
        cluster.create_topic("live")
        cluster.produce("live", [Record(row(10))])
        assert bridge.stops("live").state.code == "source_position_lost"


def test_a_longer_topic_under_the_same_name_is_known_by_its_id(gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "longer", "f.longer")
    with kafka_cluster(1, topic_ids=True) as cluster:
        cluster.create_topic("longer")
        cluster.produce("longer", [Record(row(0))])
        with run(topic, settings={"bootstrap.servers": cluster.bootstrap}) as bridge:
            bridge.reaches("longer", 0)
            cluster.delete_topic("longer")
            cluster.create_topic("longer")
            cluster.produce("longer", [Record(row(n)) for n in (1, 2)])
            assert bridge.stops("longer").state.code == "source_position_lost"


def test_a_number_of_partitions_that_changes_while_they_are_read_stops_them(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "grows", "f.grows")
    cluster.create_topic("grows")
    cluster.produce("grows", [Record(row(0))])
    with run(topic) as bridge:
        bridge.reaches("grows", 0)
        bridge.bridge.take_counts({"grows": 2})  # what the watch hands over; the mock cluster cannot add partitions
        assert bridge.stops("grows").state.code == "source_order_unsafe"


def test_a_right_that_is_missing_is_reported(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "right", "f.right")
    cluster.create_topic("right")
    with run(topic) as bridge:
        bridge.wait(lambda: bridge.partition("right").reads)
        cluster.fail_requests(FETCH, [KafkaError.TOPIC_AUTHORIZATION_FAILED])
        bridge.wait(lambda: any("TOPIC_AUTHORIZATION_FAILED" in reason for reason in bridge.bridge.reasons()))


BAD = {"id": "not a number", "n": 0, "text": ""}


def test_a_rejected_record_stops_its_partition_after_those_before_it_and_no_other(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "stop", "r.stop")
    cluster.create_topic("stop", 2)
    values = [row(0), row(1), BAD, row(3)]
    cluster.produce("stop", [*map(Record, values), Record(row(100), partition=1)])
    with run(topic) as bridge:
        stopped = bridge.stops("stop")
        bridge.reaches("stop", 0, 1)
        assert (stopped.last_offset, stopped.state.offset, stopped.state.code) == (1, 2, "bad_value")
        [line] = bridge.events("partition_stopped")
        assert (line["topic"], line["partition"], line["offset"], line["pointer"]) == ("stop", 0, 2, "/id")
        assert line["remedy"]
        assert "not a number" not in bridge.lines.getvalue()
        assert bridge.bridge.reasons() == ["stop/0 stopped: bad_value"]
    assert sorted(ids(gateway.engine, "r.stop")) == [0, 1, 100]
    with run(topic, skip=("stop/0@2",)) as bridge:
        assert bridge.reaches("stop", 3).counters.skipped == 1
    assert sorted(ids(gateway.engine, "r.stop")) == [0, 1, 3, 100]


def test_a_value_that_is_not_json_is_named_by_its_own_offset(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "json", "r.json")
    two_rows_in_one = b"%b %b" % (json.dumps(row(1)).encode(), json.dumps(row(2)).encode())
    cluster.produce("json", map(Record, [row(0), two_rows_in_one, b'{"id": 3', row(4)]))
    with run(topic) as bridge:
        stopped = bridge.stops("json")
    assert (stopped.state.offset, stopped.state.code) == (1, "malformed_json")
    assert ids(gateway.engine, "r.json") == [0]


def test_rejected_records_go_to_files_and_the_others_land(
    cluster: MockCluster, gateway: Gateway, run: Run, tmp_path: Path
) -> None:
    topic = rows_topic(gateway, "files", "r.files", on_reject="skip_to_file")
    values = [BAD, row(1), b"\xff", row(3), BAD]
    cluster.produce("files", [Record(value, key={"k": n}) for n, value in enumerate(values)])
    with run(topic, rejected={"folder": str(tmp_path / "rejected")}) as bridge:
        assert bridge.reaches("files", 4).counters.set_aside == 3
    assert ids(gateway.engine, "r.files") == [1, 3]
    files = sorted((tmp_path / "rejected" / "files" / "0").iterdir())
    assert [file.name for file in files] == ["0.json", "2.json", "4.json"]
    kept = json.loads(files[0].read_text())
    assert (kept["offset"], kept["problem"]["code"], kept["key"]) == (0, "bad_value", {"text": '{"k":0}'})
    assert json.loads(files[1].read_text())["value"] == {"base64": "/w=="}


def test_snapshot_rows_behind_changes_of_another_partition_name_the_options_that_take_them(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    fields: dict[str, Field] = {"id": {"type": "int32", "optional": False}}

    def record(op: str, key: int, partition: int) -> Record:
        value = with_schema(event(op, "r.parts", after={"id": key}), fields)
        return Record(value, key=key_with_schema({"id": key}, fields), partition=partition)

    topic = {"topic": "db.r.parts", "format": "debezium"}
    cluster.create_topic("db.r.parts", 2)
    cluster.produce("db.r.parts", [record("c", 1, 0)])
    with run(topic) as bridge:
        bridge.reaches("db.r.parts", 0)
        cluster.produce("db.r.parts", [record("r", 2, 1)])
        stopped = bridge.stops("db.r.parts", 1)
        assert stopped.state.code == "reload_requires_recreate"
        assert stopped.state.remedy == SNAPSHOTS_REMEDY
        options = {"reload": "upsert", "insert_marker": "upsert"}
        gateway.put("/v1/tables/r.parts", json={"options": options}).raise_for_status()
    with run(topic) as bridge:
        bridge.reaches("db.r.parts", 0, 1)


def test_what_concerns_every_record_stops_the_partition_and_is_tried_again(
    cluster: MockCluster, gateway: Gateway, run: Run, tmp_path: Path
) -> None:
    topic = {"topic": "later", "format": "rows", "table": "r.later", "on_reject": "skip_to_file"}
    cluster.produce("later", [Record(row(0))])
    more = {"rejected": {"folder": str(tmp_path / "none")}, "stop": {"retry_after": "200 ms"}}
    with run(topic, **more) as bridge:
        assert bridge.stops("later").state.code == "unknown_table"
        register(gateway, "r.later")
        bridge.reaches("later", 0)
        bridge.wait(lambda: bridge.events("partition_runs_again"))
    assert ids(gateway.engine, "r.later") == [0]
    assert not (tmp_path / "none").exists()


def test_a_record_that_can_be_put_aside_does_not_hold_its_partition_in_place_of_a_later_one(
    cluster: MockCluster, gateway: Gateway, run: Run, tmp_path: Path
) -> None:
    register(gateway, "r.held")

    def record(table: str, value: dict[str, object]) -> Record:
        payload = event("c", table, after=value)
        return Record(payload, key={"id": value["id"]})

    values = [record("r.held", row(0)), record("r.held", BAD), record("r.held", row(2)), record("r.none", row(3))]
    cluster.produce("held", values)
    topic = {"topic": "held", "format": "debezium", "on_reject": "skip_to_file"}
    with run(topic, rejected={"folder": str(tmp_path)}) as bridge:
        stopped = bridge.stops("held")
        assert (stopped.state.offset, stopped.state.code, stopped.last_offset) == (3, "unknown_table", 2)
    assert ids(gateway.engine, "r.held") == [0, 2]


def test_dead_letters_are_kept_by_the_gateway(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    register(gateway, "r.letters", dead_letters="accept")
    cluster.produce("letters", map(Record, [row(0), BAD, row(2)]))
    topic = {"topic": "letters", "format": "rows", "table": "r.letters", "on_reject": "dead_letter"}
    with run(topic) as bridge:
        assert bridge.reaches("letters", 2).counters.dead_letters == 1
    assert ids(gateway.engine, "r.letters") == [0, 2]


def test_a_request_that_is_too_large_is_sent_in_halves(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "large", "r.large")
    cluster.produce("large", [Record(row(n, text="x" * 1_000)) for n in range(300)])
    with run(topic, batch={"max_bytes": "10 MiB", "max_age": "300 ms"}) as bridge:
        assert bridge.reaches("large", 299).counters.rejections
    assert ids(gateway.engine, "r.large") == [*range(300)]
