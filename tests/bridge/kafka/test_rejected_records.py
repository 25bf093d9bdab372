"""A record that cannot land stops its partition with its offset and the gateway's problem, or is put aside."""

import json
from pathlib import Path

from mirrorgate_bridge.kafka.buffer import SNAPSHOTS_REMEDY
from tests.api.calls import Gateway
from tests.bridge.kafka.conftest import Run
from tests.bridge.kafka.running import ids, register, row, rows_topic
from tests.support.kafka import MockCluster, Record
from tests.support.samples.debezium import Field, event, key_with_schema, with_schema

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
