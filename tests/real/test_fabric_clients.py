"""Clients of Fabric that others wrote, against the emulator, and their landing zone against `verify` and `mirror`."""

import json
import os
import random
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

import httpx
from deltalake import DeltaTable

from app.mirror.target import arrow_dataset
from mirrorgate.testing import RunningEmulator
from tests.real.counterparts import fabric_python, package_version
from tests.real.report import Report
from tests.support.processes import succeeded

CLIENTS = Path(__file__).with_name("fabric_clients.py")
COMMAND = [sys.executable, "-c", "from mirrorgate.cli.main import main; main()"]
TABLES = [("sales", "orders"), (None, "plain")]

Rows = dict[int, dict[str, Any]]


def run(emulator: RunningEmulator, command: list[str], given: Any = None) -> str:
    """Run a program with the emulator's addresses; return what it prints."""
    environment = os.environ | emulator.environment
    return succeeded(*command, environment=environment, input=json.dumps(given), timeout=300)


def workload(seed: int) -> tuple[list[tuple[str | None, str, str, list[dict[str, Any]]]], dict[str, Rows]]:
    """Return batches in the order in which they are published, and the rows of each table after them."""
    choose, batches, tables = random.Random(seed), [], {table: Rows() for _, table in TABLES}
    for number in range(24):
        schema, table = TABLES[number % 2]
        rows = tables[table]
        if number % 6 > 3 and rows:
            gone = choose.sample(sorted(rows), min(len(rows), 5))
            batches.append((schema, table, "delete", [rows.pop(key) for key in gone]))
        else:
            keys = choose.sample(range(200), 30)
            new = [{"id": key, "name": f"n{number}é" if key % 7 else None, "total": key / 4} for key in keys]
            rows.update({row["id"]: row for row in new})
            batches.append((schema, table, "upsert", new))
    return batches, tables


def test_what_pyfabric_publishes_verifies_and_is_mirrored_to_its_rows(
    mirrorgate_emulator: RunningEmulator, tmp_path: Path, report: Report
) -> None:
    python, (batches, tables) = fabric_python(), workload(7)
    given = {
        "workspace": mirrorgate_emulator.workspace,
        "database": "published",
        "tables": TABLES,
        "columns": {"id": "int64", "name": "string", "total": "float64"},
        "batches": batches,
        "rows": {table: sum(len(rows) for _, name, _, rows in batches if name == table) for table in tables},
    }
    published = json.loads(run(mirrorgate_emulator, [str(python), str(CLIENTS), "publish"], given).splitlines()[-1])
    assert published["processed"] == given["rows"]
    zone = mirrorgate_emulator.landing_zone.replace(mirrorgate_emulator.database, published["database"])
    run(mirrorgate_emulator, [*COMMAND, "mirror", "run", zone, "--once", "--to", str(tmp_path)])
    verified = json.loads(run(mirrorgate_emulator, [*COMMAND, "verify", zone, "--against", str(tmp_path), "--json"]))
    assert (verified["tables"], verified["files"]) == (len(TABLES), len(batches))
    assert [finding["code"] for finding in verified["findings"]] == ["partner_events_missing"]
    address = mirrorgate_emulator.sql.replace("https:", "http:")
    with httpx.Client(params={"database": "published"}, trust_env=False, timeout=60) as client:
        for schema, table in TABLES:
            wanted = [tables[table][key] for key in sorted(tables[table])]
            answer = client.post(address, content=f"SELECT * FROM {schema or 'dbo'}.{table} ORDER BY id").json()
            assert [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]] == wanted
            mirrored = arrow_dataset(DeltaTable(tmp_path / (schema or "") / table)).to_table()
            assert sorted(mirrored.to_pylist(), key=itemgetter("id")) == wanted
            report.add(f"pyfabric {package_version(python, 'pyfabric')}", len(wanted))


def test_msfabricpysdkcore_creates_starts_stops_and_deletes_a_mirrored_database(
    mirrorgate_emulator: RunningEmulator, report: Report
) -> None:
    python = fabric_python()
    given = {"workspace_name": "emulator", "database": mirrorgate_emulator.database}
    answer = json.loads(run(mirrorgate_emulator, [str(python), str(CLIENTS), "operate"], given).splitlines()[-1])
    assert answer["workspace"] == mirrorgate_emulator.workspace
    assert answer["same"]
    assert answer["states"] == ["Running", "Stopped"]
    assert answer["tables"] == []
    assert "operated" in answer["listed"]
    assert "operated" not in answer["left"]
    report.add(f"msfabricpysdkcore {package_version(python, 'msfabricpysdkcore')}", len(answer["states"]) + 4)
