"""A hand-written script: json.loads for each line, a DataFrame and to_parquet for each table and file.

It runs in its own virtual environment, because nothing else here needs pandas.
"""

import itertools
import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pandas as pd

MARKERS = {"I": 0, "U": 1, "D": 2, "R": 4}


def convert(file: Path, target: Path, number: int) -> int:
    """Write the changes of a file, table by table; return how many there were."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with file.open("rb") as lines:
        for line in lines:
            message = json.loads(line)
            row = message["after"]
            row["__rowMarker__"] = MARKERS[message["opType"]]
            rows[message["tableName"]["name"]].append(row)
    for table, found in rows.items():
        frame = pd.DataFrame(found)
        half = (len(frame.columns) - 1) // 2
        frame = frame.astype(dict.fromkeys(frame.columns[:half], "int64"))
        folder = target / table
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f"{number:020d}.tmp"
        frame.to_parquet(temporary, compression="zstd", index=False)
        temporary.rename(temporary.with_suffix(".parquet"))
    return sum(map(len, rows.values()))


def main() -> None:
    """Convert the files of the job on standard input again and again; print changes per second."""
    job = json.load(sys.stdin)
    target, files = Path(job["target"]), sorted(Path(job["source"]).iterdir())
    convert(files[0], target, 0)
    changes, started = 0, time.perf_counter()
    for number, file in enumerate(itertools.cycle(files), 1):
        changes += convert(file, target, number)
        elapsed = time.perf_counter() - started
        if elapsed >= job["seconds"]:
            sys.stdout.write(f"{changes / elapsed}\n")
            return


if __name__ == "__main__":
    main()
