"""Object-storage bridge: durable changes per second from files of messages, compared with bulk requests over HTTP."""

import time
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.bench import Bench
from benchmarks.loads.bridges import Prepared, measure_bridge
from benchmarks.loads.messages import arcion_insert, column_names
from benchmarks.loads.workloads import COLUMNS, FIRST_KEY, find_workload
from benchmarks.reports.figure import Figure
from mirrorgate.object_store import open_store

TABLES: Final = 8
PER_OBJECT: Final = 2_000
"""Messages: 2.9 MB."""
OBJECTS: Final = 12
"""Of each table: 280 MB in all."""
_CONFIGURATION: Final = """
name: {name}
sources:
  - {{name: bench, url: "{folder}", format: arcion, table_from_path: "{{schema}}/{{table}}/…", settle: 0 s}}
poll: 1 s
"""


def measure(bench: Bench) -> list[Figure]:
    """Measure one bridge and the load generator on one API process, in turn, and only reading the files.

    Each run has a bridge of another name, so that it reads all files again.
    """
    workload, objects = find_workload(f"tables-{TABLES}"), bench.scaled(OBJECTS, least=4)
    title = f"Object-storage bridge: durable changes of {TABLES} tables in a folder, {PER_OBJECT:,} of 1.47 kB per file"
    with bench.gateway() as gateway:
        api, folder = gateway.start_api(), gateway.folder / "objects"
        api.prepare(workload)
        _fill(folder, [table.name for table in workload.tables], objects)
        messages = TABLES * objects * PER_OBJECT

        def prepare(name: str) -> Prepared:
            configuration = _CONFIGURATION.format(name=name, folder=folder)
            return Prepared("objects", configuration, messages, partial(_reading_rate, folder, messages))

        return [measure_bridge(bench, gateway, api, "objects", title, prepare)]


def _fill(folder: Path, tables: list[str], objects: int) -> None:
    names = column_names(COLUMNS)
    for table in tables:
        below = folder.joinpath(*table.split("."))
        below.mkdir(parents=True)
        for number in range(objects):
            first = FIRST_KEY + number * PER_OBJECT
            lines = (msgspec.json.encode(arcion_insert(table, names, first + at)) for at in range(PER_OBJECT))
            (below / f"{number:04d}.json").write_bytes(b"\n".join(lines) + b"\n")


def _reading_rate(folder: Path, messages: int) -> float:
    """Read all files as the bridge does and throw them away; return the messages per second."""
    store = open_store(str(folder), {})
    started = time.perf_counter()
    for found in store.objects():
        with store.reading(found.key) as (_, blocks):
            for _block in blocks:
                pass
    return messages / (time.perf_counter() - started)
