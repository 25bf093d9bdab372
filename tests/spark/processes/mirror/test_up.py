"""`mirrorgate up --mirror`: changes are posted, and the Delta tables have them; one command stops everything."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.local.embedded import running_url
from app.staging.connection.database import open_engine
from demo.gateway import admin_key
from demo.mirror_reader import Rows, applied_file, fold, mirrored_rows, open_mirrored
from demo.workload import Post, Row, stream_tables
from mirrorgate.http import GatewayClient
from tests.support.postgres import sql
from tests.support.processes import REPOSITORY, is_alive
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STORED = "SELECT max(file_number) FROM mirrorgate.mirror_reports"


def test_posted_changes_are_mirrored_after_a_kill_and_everything_stops_together(tmp_path: Path) -> None:
    data_dir = tmp_path / "data dir"
    data_dir.mkdir()
    orders, posted = stream_tables()[1], list[Row]()
    command = [sys.executable, "-m", "mirrorgate.cli", "up", "--mirror", "--data-dir", str(data_dir), "--port", "0"]
    with (
        (tmp_path / "up.log").open("wb") as log,
        subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=log) as up,
    ):
        try:
            assert up.stdout is not None
            url = up.stdout.readline().decode().removeprefix("ready ").strip()
            started = json.loads((data_dir / "mirror.json").read_text())
            assert is_alive(started["pid"])
            assert started["target"] == str(data_dir / "mirror")
            with GatewayClient(url, admin_key(data_dir)) as client:
                columns = [
                    {"name": name, "type": declared, "nullable": name != "order_id"}
                    for name, declared in orders.columns.items()
                ]
                client.put(f"/v1/tables/{orders.name}", {"columns": columns, "key_columns": ["order_id"]})
                posted += post(client, orders.post(200))
                wait_until(lambda: mirrored_file(data_dir) >= 1, within=120, what="the first file is mirrored")
                os.kill(started["pid"], signal.SIGKILL)
                posted += post(client, orders.post(300))
                wait_until(lambda: rows(data_dir) == fold(posted), within=300, what="a new mirror continues")
            applied = mirrored_file(data_dir)
            wait_until(lambda: stored_file(data_dir) == applied, within=120, what="the database has the report")
        finally:
            up.send_signal(signal.SIGTERM)
            assert up.wait(60) == 0, (tmp_path / "up.log").read_text()
    assert rows(data_dir) == fold(posted)
    assert not is_alive(json.loads((data_dir / "mirror.json").read_text())["pid"])
    assert b"mirror_stopped" in (data_dir / "mirror.log").read_bytes()


def post(client: GatewayClient, changes: Post) -> list[Row]:
    client.post_changes(changes.source_format, changes.body)
    return changes.rows


def mirrored_file(data_dir: Path) -> int:
    return applied_file(open_mirrored(data_dir / "mirror", "shop.orders"))


def rows(data_dir: Path) -> Rows:
    mirrored = open_mirrored(data_dir / "mirror", "shop.orders")
    return {} if mirrored is None else mirrored_rows(mirrored)


def stored_file(data_dir: Path) -> object:
    url = running_url(data_dir)
    assert url is not None
    engine = open_engine(url)
    try:
        return sql.value(engine, STORED)
    finally:
        engine.dispose()
