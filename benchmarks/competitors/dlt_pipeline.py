"""dlt: rows of decoded messages through a pipeline into Parquet files; runs with the packages of its own environment.

One load takes a few files, so that its cost is shared. One process normalises: two, which each load starts anew, took
twice as long.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILES_PER_LOAD = 5
MARKERS = {"I": 0, "U": 1, "D": 2, "R": 4}

# Read when dlt is imported. Nothing is reported to anybody.
os.environ |= {
    "RUNTIME__DLTHUB_TELEMETRY": "false",
    "RUNTIME__LOG_LEVEL": "ERROR",
    "NORMALIZE__WORKERS": "1",
}


def rows(files: list[Path]) -> Iterator[list[dict[str, Any]]]:
    """The rows of each file."""
    for file in files:
        found = []
        with file.open("rb") as lines:
            for line in lines:
                message = json.loads(line)
                found.append(message["after"] | {"row_marker": MARKERS[message["opType"]]})
        yield found


def main() -> None:
    import dlt  # not installed where the suite itself runs

    order = json.load(sys.stdin)
    files = sorted(Path(order["source"]).iterdir())
    first = next(rows(files[:1]))
    names = [name for name in first[0] if name != "row_marker"]
    columns = {name: {"data_type": "bigint" if at < len(names) // 2 else "text"} for at, name in enumerate(names)}
    pipeline = dlt.pipeline(
        "bench",
        pipelines_dir=f"{order['target']}-pipelines",
        destination=dlt.destinations.filesystem(order["target"]),
        dataset_name="bench",
    )

    def load(part: list[Path]) -> None:
        resource = dlt.resource(rows(part), name="changes", columns=columns, write_disposition="append")
        pipeline.run(resource, loader_file_format="parquet")

    load(files[:1])
    changes, elapsed, started = 0, 0.0, time.perf_counter()
    parts = itertools.cycle(files)
    while elapsed < order["seconds"]:
        load(list(itertools.islice(parts, FILES_PER_LOAD)))
        changes += FILES_PER_LOAD * len(first)
        elapsed = time.perf_counter() - started
    sys.stdout.write(f"{changes / elapsed}\n")


if __name__ == "__main__":
    main()
