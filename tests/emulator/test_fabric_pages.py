"""The pages about Fabric, followed from `fabric init` to `fabric delete` on a gateway that publishes into OneLake."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.local.data_directory import read_settings_file
from demo.gateway import running_gateway
from mirrorgate_zone.emulator.fabric_api import table
from mirrorgate_zone.emulator.onelake import ITEM, OneLake, Trust, served
from tests.support.documents import PROGRAMS, blocks, run_shell
from tests.support.fabric.endpoint import Fabric
from tests.support.fabric.fixtures import fabric
from tests.support.onelake.fixtures import trust
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_until

__all__ = ["fabric", "trust"]

PAGE = (REPOSITORY / "docs/get-started/fabric.md").read_text(encoding="utf-8")
OPERATING = (REPOSITORY / "docs/operate/fabric-database.md").read_text(encoding="utf-8")
SEARCHING = (REPOSITORY / "docs/troubleshoot/not-in-fabric.md").read_text(encoding="utf-8")


@pytest.fixture
def onelake(fabric: Fabric, trust: Trust, monkeypatch: pytest.MonkeyPatch) -> Iterator[OneLake]:
    """The storage of the database that the tutorial creates."""
    fabric.service.workspace_name = "Sales"
    fabric.service.next_ids.append(ITEM[0])
    with served(OneLake(tokens=fabric.service.storage_tokens), trust) as endpoint:
        monkeypatch.setenv("MIRRORGATE_STORAGE_ENDPOINT", endpoint.address)
        monkeypatch.setenv("MIRRORGATE_FABRIC_POLL_SECONDS", "0.5")
        monkeypatch.setenv("MIRRORGATE_MAX_DELAY_SECONDS", "1")
        yield endpoint


def run(folder: Path, commands: str, **options: Any) -> str:
    """Run commands as a reader does in a shell where the programs are installed; return what they print."""
    return run_shell(commands, folder, programs=PROGRAMS, **options)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_tutorial_of_fabric_from_init_to_delete(fabric: Fabric, onelake: OneLake, tmp_path: Path) -> None:
    credential, init, up, send, status, refresh, clean_up = blocks(PAGE, "sh")
    printed, running = blocks(PAGE, "text")
    assert credential.startswith("export AZURE_")
    (tmp_path / ".mirrorgate" / "postgres").mkdir(parents=True)  # a quick start in the same folder
    said = run(tmp_path, init)
    assert up.strip() == said.splitlines()[-1] == printed.splitlines()[-1]
    assert [line for line in said.splitlines() if line in printed.splitlines()] == [
        line for line in printed.splitlines() if line != "…"
    ]
    (database,) = fabric.service.databases.values()
    database.polls = 0
    data_dir = tmp_path / ".mirrorgate-fabric"
    with running_gateway(data_dir):
        assert run(tmp_path, status, expected=1).startswith("Initialized")
        assert "accepted: 1 change" in run(tmp_path, send)
        wait_until(lambda: database.started == 1, within=60, what="the gateway starts mirroring")
        folder = "finance.schema/orders"
        wait_until(lambda: f"{2:020}.parquet" in onelake.names(folder), within=60, what="the row's file is published")
        database.tables = [table("orders", schema="finance", rows=1)]
        shown = run(tmp_path, status)
        assert shown.split("last sync")[0].split() == running.split("last sync")[0].split()
        assert "orders  Success" in run(tmp_path, refresh)
        follow_the_search(tmp_path, data_dir)
        stop_and_start, change = blocks(OPERATING, "sh")
        assert "orders is running" in run(tmp_path, stop_and_start, typed="y\n")
        assert "the definition was changed" in run(tmp_path, change)
    run(tmp_path, clean_up, typed="orders\n")
    assert not fabric.service.databases
    assert [path.name for path in tmp_path.iterdir()] == [".mirrorgate"]


def follow_the_search(folder: Path, data_dir: Path) -> None:
    """Run the commands of "My row is not in Fabric", but for the comparison with Delta tables, which Fabric writes."""
    states, verify, refresh, compare = blocks(SEARCHING, "sh")
    zone = f'export MIRRORGATE_LANDING_ZONE="{read_settings_file(data_dir)["MIRRORGATE_LANDING_ZONE"]}"\n'
    shown = run(folder, states.replace("mirrorgate status", f"mirrorgate status --data-dir {data_dir}"))
    assert "finance.orders" in shown and "Running" in shown
    assert "1 table, 2 files: nothing found" in run(folder, zone + verify)
    assert "Success" in run(folder, refresh)
    assert compare.startswith(verify.split(" --table")[0])
