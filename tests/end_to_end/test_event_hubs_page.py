"""The tutorial on Event Hubs from start to end: its file and its commands, with a mock cluster in place of Azure."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from app.api import application
from app.settings import Settings
from tests.api.calls import ADMIN_KEY, Gateway
from tests.support.documents import blocks
from tests.support.http.server import free_port, served
from tests.support.kafka import Record, kafka_cluster
from tests.support.processes import REPOSITORY
from tests.support.samples.messages import data, metadata
from tests.support.waiting import wait_until

PAGE = (REPOSITORY / "docs" / "tutorials" / "replicate-over-event-hubs.md").read_text(encoding="utf-8")
COLUMNS = {"id": "INT4", "note": "STRING"}


def file_for(bootstrap: str, port: int) -> str:
    """Return the page's file for brokers without TLS and SASL, which the mock cluster does not have."""
    file = blocks(PAGE, "yaml")[0]
    file = re.sub(r"^ +(security\.protocol|sasl\.\S+): .*\n", "", file, flags=re.MULTILINE)
    file = re.sub(r"(bootstrap\.servers:) .*", rf"\1 {bootstrap}", file)
    assert file.count("sasl") == 0
    return f"{file}\nhealth:\n  port: {port}\n"


def test_messages_in_event_hubs_register_their_table_and_land(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_key, export, check, run, ask = blocks(PAGE, "sh")
    assert create_key.startswith("mirrorgate keys create")
    for variable in re.findall(r"(\w+)=", export):
        monkeypatch.setenv(variable, "set")
    monkeypatch.setattr(application, "configure_logging", lambda _: None)
    port = free_port()
    settings = Settings(database_url=SecretStr(database_url), admin_key=SecretStr(ADMIN_KEY))
    with served(settings) as address, kafka_cluster(topic_ids=True) as cluster:
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
        (tmp_path / "bridge.yaml").write_text(file_for(cluster.bootstrap, port))
        monkeypatch.setenv("MIRRORGATE_URL", address)
        monkeypatch.setenv("MIRRORGATE_API_KEY", ADMIN_KEY)
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")

        def shell(commands: str) -> str:
            commands = commands.replace("127.0.0.1:9480", f"127.0.0.1:{port}")
            ran = subprocess.run(
                ["bash", "-euc", commands], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
            )
            assert ran.returncode == 0, ran.stdout + ran.stderr
            return ran.stdout

        created = re.search(r"mg_[\w-]+", shell(create_key))
        assert created is not None
        monkeypatch.setenv("MIRRORGATE_API_KEY", created[0])
        assert "shop.orders: 1 partitions" in shell(check)
        with subprocess.Popen(["bash", "-euc", f"exec {run}"], cwd=tmp_path, stderr=subprocess.PIPE) as bridge:
            try:
                with Gateway.at(address, ADMIN_KEY) as gateway:
                    wait_until(lambda: accepted(gateway) == 3, within=30, what="the changes land")
                wait_until(lambda: ready(port), within=30, what="the bridge is ready again")
                monkeypatch.setenv("MIRRORGATE_API_KEY", ADMIN_KEY)  # of the operator: the bridge's key reads nothing
                assert "shop.orders" in shell(ask)
            finally:
                bridge.send_signal(signal.SIGTERM)
                bridge.communicate(timeout=30)
        assert bridge.returncode == 0


def accepted(gateway: Gateway) -> int:
    answer = gateway.get("/v1/tables/shop.orders")
    return answer.json()["accepted"]["changes"] if answer.status_code == 200 else 0


def ready(port: int) -> bool:
    return httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).status_code == 200
