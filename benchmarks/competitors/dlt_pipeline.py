"""dlt: rows of decoded messages through a pipeline into Parquet files, run in its own virtual environment.

One load takes several files, to share its fixed cost. One process normalizes: each load would start new worker
processes, and with two of them it took twice as long.
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

# dlt reads these when it is imported. They also turn off its telemetry.
os.environ |= {
    "RUNTIME__DLTHUB_TELEMETRY": "false",
    "RUNTIME__LOG_LEVEL": "ERROR",
    "NORMALIZE__WORKERS": "1",
}


def rows(files: list[Path]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each file."""
    for file in files:
        found = []
        with file.open("rb") as lines:
            for line in lines:
                message = json.loads(line)
                found.append(message["after"] | {"row_marker": MARKERS[message["opType"]]})
        yield found


def main() -> None:
    """Load the files of the job on standard input again and again; print changes per second."""
    import dlt  # only installed in the virtual environment

    job = json.load(sys.stdin)
    files = sorted(Path(job["source"]).iterdir())
    first = next(rows(files[:1]))
    names = [name for name in first[0] if name != "row_marker"]
    columns = {name: {"data_type": "bigint" if at < len(names) // 2 else "text"} for at, name in enumerate(names)}
    pipeline = dlt.pipeline(
        "bench",
        pipelines_dir=f"{job['target']}-pipelines",
        destination=dlt.destinations.filesystem(job["target"]),
        dataset_name="bench",
    )

    def load(part: list[Path]) -> None:
        resource = dlt.resource(rows(part), name="changes", columns=columns, write_disposition="append")
        pipeline.run(resource, loader_file_format="parquet")

    load(files[:1])
    changes, elapsed, started = 0, 0.0, time.perf_counter()
    parts = itertools.cycle(files)
    while elapsed < job["seconds"]:
        load(list(itertools.islice(parts, FILES_PER_LOAD)))
        changes += FILES_PER_LOAD * len(first)
        elapsed = time.perf_counter() - started
    sys.stdout.write(f"{changes / elapsed}\n")


if __name__ == "__main__":
    main()
