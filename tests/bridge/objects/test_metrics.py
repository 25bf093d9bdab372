"""What the bridge of object storage exposes, healthy and with a stopped table, is what is recorded."""

import json
from pathlib import Path

import httpx

from tests.api.calls import ADMIN_KEY, Gateway
from tests.support.expositions import check_recorded
from tests.support.http.server import free_port
from tests.support.processes import started
from tests.support.waiting import wait_until


def test_the_metrics_name_a_stopped_table(gateway: Gateway, tmp_path: Path) -> None:
    gateway.register("o.orders", {"id": "int64"}, ["id"]).raise_for_status()
    lake, port = tmp_path / "lake", free_port()
    lake.mkdir()
    (lake / "1.json").write_text(json.dumps({"id": 1}))
    file = tmp_path / "bridge.yaml"
    source = {"url": str(lake), "name": "lake", "format": "rows", "table": "o.orders", "settle": "0 s"}
    settings = {"name": "b", "gateway": {"url": gateway.address, "key": ADMIN_KEY}, "sources": [source]}
    file.write_text(json.dumps({**settings, "poll": "0.1 s", "recheck": "1 s", "health": {"port": port}}))

    def metrics() -> str:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
        except httpx.ConnectError:
            return ""

    labels = '{source="lake",table="o.orders"}'
    with started("mirrorgate.cli", "bridge", "objects", "--config", file):
        read = f"mirrorgate_bridge_objects_objects_total{labels} 1.0"
        wait_until(lambda: read in metrics(), within=30, what="the first object is read")
        healthy = metrics()
        (lake / "2.json").write_text(json.dumps({"id": "no number"}))
        stopped = f"mirrorgate_bridge_objects_stopped{labels} 1.0"
        wait_until(lambda: stopped in metrics(), within=30, what="the table stops")
        check_recorded("object_bridge", healthy, {"stopped": metrics()})
