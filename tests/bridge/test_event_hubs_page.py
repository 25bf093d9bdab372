"""The tutorials over Event Hubs from start to end: their files and commands, with a mock cluster in place of Azure."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.api import application
from app.settings import Settings
from tests.api.calls import ADMIN_KEY, Gateway
from tests.support.documents import blocks, run_shell
from tests.support.http.server import free_port, served
from tests.support.kafka import MockCluster, Record, kafka_cluster
from tests.support.processes import REPOSITORY
from tests.support.samples.messages import data, metadata
from tests.support.waiting import wait_until

TUTORIALS = REPOSITORY / "docs" / "tutorials"
REPLICATE = (TUTORIALS / "replicate-over-event-hubs.md").read_text(encoding="utf-8")
SQL_SERVER = (TUTORIALS / "sql-server-to-fabric.md").read_text(encoding="utf-8")
COLUMNS = {"id": "INT4", "note": "STRING"}
ORDERS: list[dict[str, Any]] = [
    {"field": "Id", "type": "int32", "optional": False},
    {"field": "PlacedAt", "type": "int64", "optional": True, "name": "io.debezium.time.NanoTimestamp"},
]


def order(op: str, number: int, *, snapshot: bool = False) -> Record:
    """Return an event as Debezium's connector for SQL Server writes it, with its schema and key."""
    row = {"Id": number, "PlacedAt": 1_767_323_045_123_456_700}
    source = {"connector": "sqlserver", "name": "mssql", "db": "Shop", "schema": "dbo", "table": "Orders"}
    source |= {"snapshot": str(snapshot).lower(), "ts_ms": 1_767_323_045_000}
    if not snapshot:
        lsn = f"00000027:00000ac0:{number:04}"
        source |= {"commit_lsn": lsn, "change_lsn": lsn, "event_serial_no": 1}
    fields = [{"field": image, "type": "struct", "optional": True, "fields": ORDERS} for image in ("before", "after")]
    payload = {"before": None, "after": row, "op": op, "source": source}
    return Record(
        {"schema": {"type": "struct", "fields": fields}, "payload": payload},
        key={"schema": {"type": "struct", "fields": ORDERS[:1]}, "payload": {"Id": number}},
    )


def file_for(page: str, bootstrap: str, port: int) -> str:
    """Return the file that the page names for brokers without TLS and SASL, which the mock cluster does not have."""
    (name,) = re.findall(r"\(\.\./\.\./(deploy/bridge/\S+\.yaml)\)", page)
    file = (REPOSITORY / name).read_text(encoding="utf-8")
    file = re.sub(r"^ +(# )?(security\.protocol|sasl\.\S+): .*\n", "", file, flags=re.MULTILINE)
    file = re.sub(r"(bootstrap\.servers:) .*", rf"\1 {bootstrap}", file)
    assert file.count("sasl") == 0
    return f"{file}\nhealth:\n  port: {port}\n"


@pytest.mark.parametrize("source", ["replicate", "sql_server"])
def test_messages_in_event_hubs_register_their_table_and_land(
    source: str, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, table = (REPLICATE, "shop.orders") if source == "replicate" else (SQL_SERVER, "dbo.Orders")
    create_key, export, check, run, after = blocks(page, "sh")
    assert create_key.startswith("mirrorgate keys create")
    for variable in re.findall(r"(\w+)=", export):
        monkeypatch.setenv(variable, "set")
    monkeypatch.setattr(application, "configure_logging", lambda _: None)
    port = free_port()
    settings = Settings(database_url=SecretStr(database_url), admin_key=SecretStr(ADMIN_KEY))
    with served(settings) as address, kafka_cluster(topic_ids=True) as cluster:
        topic = write_records(cluster, source)
        (tmp_path / "bridge.yaml").write_text(file_for(page, cluster.bootstrap, port))
        monkeypatch.setenv("MIRRORGATE_URL", address)
        monkeypatch.setenv("MIRRORGATE_API_KEY", ADMIN_KEY)
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")

        def shell(commands: str) -> str:
            return run_shell(commands.replace("127.0.0.1:9480", f"127.0.0.1:{port}"), tmp_path)

        created = re.search(r"mg_[\w-]+", shell(create_key))
        assert created is not None
        monkeypatch.setenv("MIRRORGATE_API_KEY", created[0])
        assert f"{topic}: 1 partitions" in shell(check)
        with subprocess.Popen(["bash", "-euc", f"exec {run}"], cwd=tmp_path, stderr=subprocess.PIPE) as bridge:
            try:
                with Gateway.at(address, ADMIN_KEY) as gateway:
                    wait_until(lambda: accepted(gateway, table) == 3, within=30, what="the changes land")
                wait_until(lambda: ready(port), within=30, what="the bridge is ready again")
                if source == "replicate":
                    monkeypatch.setenv("MIRRORGATE_API_KEY", ADMIN_KEY)  # the bridge's key reads nothing
                assert table in shell(after)
            finally:
                bridge.send_signal(signal.SIGTERM)
                bridge.communicate(timeout=30)
        assert bridge.returncode == 0


def write_records(cluster: MockCluster, source: str) -> str:
    """Write three changes of one table as the source does, and return the topic."""
    if source == "sql_server":
        cluster.create_topic("mssql.Shop.dbo.Orders")
        events = [order("r", 1, snapshot=True), order("c", 2), order("u", 2)]
        cluster.produce("mssql.Shop.dbo.Orders", events)
        return "mssql.Shop.dbo.Orders"
    for topic in ("replicate-metadata", "shop.orders"):
        cluster.create_topic(topic)
    cluster.produce(
        "shop.orders",
        [
            Record(data("INSERT", {"id": 1, "note": "a"}, schema_id="v1", sequence=1), key={"id": 1}),
            Record(data("DELETE", {"id": 1, "note": "a"}, schema_id="v1", sequence=2), key={"id": 1}),
            Record(data("INSERT", {"id": 2, "note": "b"}, schema_id="v1", sequence=3), key={"id": 2}),
        ],
    )
    cluster.produce("replicate-metadata", [Record(metadata("shop.orders", COLUMNS, schema_id="v1"))])
    return "shop.orders"


def accepted(gateway: Gateway, table: str) -> int:
    answer = gateway.get(f"/v1/tables/{table}")
    return answer.json()["accepted"]["changes"] if answer.status_code == 200 else 0


def ready(port: int) -> bool:
    return httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).status_code == 200
