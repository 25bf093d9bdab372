"""`mirrorgate bridge kafka` as a process: its check, its health port, and its clean end."""

import json
from pathlib import Path
from typing import Any

import httpx
from click.testing import Result
from typer.testing import CliRunner

from mirrorgate.cli.main import app
from mirrorgate_bridge.kafka.cluster import check_librdkafka, is_incremental
from mirrorgate_bridge.kafka.settings import read_settings
from tests.api.calls import Gateway
from tests.bridge.kafka.running import ids, register, row, settings_text, staged
from tests.support.expositions import check_recorded
from tests.support.kafka import MockCluster, Record
from tests.support.processes import started
from tests.support.waiting import wait_until

TOPIC: dict[str, Any] = {"topic": "c_orders", "format": "rows", "table": "c.orders"}


def file_of(tmp_path: Path, cluster: MockCluster, url: str, *topics: dict[str, Any], **more: Any) -> Path:
    file = tmp_path / "bridge.yaml"
    file.write_text(settings_text(cluster, url, list(topics), **more))
    return file


def check(file: Path) -> Result:
    return CliRunner().invoke(app, ["bridge", "kafka", "--config", str(file), "--check"])


def test_check_reports_topics_tables_and_what_is_missing(
    cluster: MockCluster, gateway: Gateway, tmp_path: Path
) -> None:
    register(gateway, "c.orders")
    cluster.create_topic("c_orders", 2)
    cluster.produce("c_orders", [Record(row(0))])
    file = file_of(tmp_path, cluster, gateway.address, TOPIC, {**TOPIC, "topic": "nowhere"})
    checked = check(file)
    assert checked.exit_code == 1
    assert "its key may send changes" in checked.output
    found = "c_orders: 2 partitions, rows to table c.orders; partition 0 has offsets 0 to 1 and starts at earliest"
    assert found in checked.output
    assert "error nowhere: no topic matches" in checked.output
    unknown = "error c_orders: table c.none is not registered"
    for changed, expected in (
        ({"table": "c.none"}, unknown),
        ({"table": "c.none", "format": "arcion"}, unknown),
        ({"parameters": {"mode": "snapshot"}}, "error c_orders: unknown query parameter `mode`"),
    ):
        file_of(tmp_path, cluster, gateway.address, {**TOPIC, **changed})
        assert expected in check(file).output


def test_check_names_the_options_that_a_topic_of_several_partitions_needs(
    cluster: MockCluster, gateway: Gateway, tmp_path: Path
) -> None:
    cluster.create_topic("db.c.parts", 2)
    file = file_of(tmp_path, cluster, gateway.address, {"topic": "db.c.parts", "format": "debezium"})
    columns = [{"name": "id", "type": "int32", "nullable": False}]
    needed = "`reload=upsert` and `insert_marker=upsert`"
    for body, status, said in (
        (None, 0, needed),
        ({"columns": columns, "key_columns": ["id"]}, 1, needed),
        ({"options": {"reload": "upsert", "insert_marker": "upsert"}}, 0, "accepts snapshot rows after changes"),
    ):
        if body is not None:
            gateway.put("/v1/tables/c.parts", json=body).raise_for_status()
        checked = check(file)
        assert (checked.exit_code, said in " ".join(checked.output.split())) == (status, True), checked.output


def test_settings_that_librdkafka_rejects_are_named(cluster: MockCluster, tmp_path: Path) -> None:
    file = file_of(tmp_path, cluster, "http://127.0.0.1:1", TOPIC, settings={"sasl.mechanims": "PLAIN"})
    checked = check(file)
    assert "sasl.mechanims" in str(checked.exception)


def test_brokers_may_assign_the_partitions(cluster: MockCluster, tmp_path: Path) -> None:
    file = file_of(tmp_path, cluster, "http://127.0.0.1:1", TOPIC)
    settings = read_settings(file, {})
    given = {"bootstrap.servers": cluster.bootstrap, "group.protocol": "consumer"}
    settings = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"settings": given})})
    check_librdkafka(settings)
    assert is_incremental(settings)


def test_a_killed_process_continues_exactly_and_sigterm_ends_it_cleanly(
    cluster: MockCluster, gateway: Gateway, tmp_path: Path
) -> None:
    register(gateway, "c.orders")
    cluster.create_topic("c_killed")
    file = file_of(tmp_path, cluster, gateway.address, {**TOPIC, "topic": "c_killed"}, group="killed")
    command = ("bridge", "kafka", "--config", file)
    records = [Record(row(n, text="x" * 200)) for n in range(1_000)]
    cluster.produce("c_killed", records[:500])
    with started("mirrorgate.cli", *command):  # killed at the end of the block
        wait_until(lambda: staged(gateway.engine, "c.orders"), within=60, what="something landed")
    cluster.produce("c_killed", records[500:])
    with started("mirrorgate.cli", *command) as process:
        assert process.stderr is not None
        first = json.loads(process.stderr.readline())
        assert first["event"] == "bridge_starts"
        health = first["health"].removesuffix("/readyz")
        last = '_last_offset{partition="0",topic="c_killed"} 999.0'
        wait_until(lambda: last in httpx.get(f"{health}/metrics").text, within=60, what="all records are durable")
        assert [httpx.get(f"{health}/{path}").status_code for path in ("healthz", "readyz", "x")] == [200, 200, 404]
        assert httpx.get(f"{health}/readyz").json()["partitions"] == {"running": 1}
        lag = '_lag_records{partition="0",topic="c_killed"} 0.0'
        wait_until(lambda: lag in httpx.get(f"{health}/metrics").text, within=60, what="the lag is known")
        healthy = httpx.get(f"{health}/metrics").text
        cluster.produce("c_killed", [Record(b'{"id": "no number"}')])
        stopped = '_partition_stopped{partition="0",topic="c_killed"} 1.0'
        wait_until(lambda: stopped in httpx.get(f"{health}/metrics").text, within=60, what="the partition stops")
        check_recorded("kafka_bridge", healthy, {"stopped": httpx.get(f"{health}/metrics").text})
        process.terminate()
        assert json.loads(process.stderr.read().splitlines()[-1])["event"] == "bridge_ended"
        assert process.wait(20) == 0
    assert ids(gateway.engine, "c.orders") == list(range(1_000))
    assert cluster.committed("killed", "c_killed") == 1_000
