"""Count the lines of the modules that read bodies fast and strictly, `python -m benchmarks.reading_lines`.

All lines count, blank ones too, as `wc -l` counts them. The set holds what a body needs beyond the plain reading and
typing of one message after the other: checks for what the JSON decoder accepts silently, columnar decoding, and the
typing of several requests together. It leaves out CSV and the exact path, so the number is comparable between
designs.

Invariant: a new module of the folders below counts until it is listed as not counted. A test fails when a listed
module no longer exists.
"""

import argparse
import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.machine.description import REPOSITORY

FOLDERS: Final = ("app/formats/json", "app/formats/arcion", "app/formats/replicate", "app/ingest", "app/domain/rows")
"""Every module of these folders counts, also of folders in them, unless it is in `EXACT_PATH`."""

EXACT_PATH: Final = frozenset(
    {
        "app/formats/json/texts.py",
        "app/formats/json/decoder.py",
        "app/formats/arcion/__init__.py",
        "app/formats/arcion/messages.py",
        "app/formats/arcion/csv.py",
        "clients/python/mirrorgate/parameters.py",
        "app/formats/replicate/__init__.py",
        "app/formats/replicate/messages.py",
        "app/formats/replicate/layouts.py",
        "app/formats/replicate/standard_form.py",
        "app/formats/replicate/history.py",
        "app/formats/replicate/masks.py",
        "app/formats/replicate/metadata.py",
        "app/ingest/__init__.py",
        "app/ingest/backlog.py",
        "app/ingest/readers/debezium.py",
        "app/ingest/changed_tables.py",
        "app/ingest/dry_run.py",
        "app/ingest/pipeline.py",
        "app/ingest/loads.py",
        "app/ingest/parsed_request.py",
        "app/ingest/readers/__init__.py",
        "app/ingest/readers/arcion.py",
        "app/ingest/readers/body_reader.py",
        "app/ingest/replay.py",
        "app/ingest/readers/replicate.py",
        "app/ingest/readers/rows.py",
        "app/ingest/replicate_tables.py",
        "app/ingest/request_typing.py",
        "app/ingest/table_cache.py",
        "app/domain/rows/__init__.py",
        "app/domain/rows/conversion.py",
        "app/domain/rows/from_arrow.py",
        "app/domain/rows/image_overlay.py",
        "app/domain/rows/key_changes.py",
        "app/domain/rows/landing_rows.py",
        "app/domain/rows/row_layout.py",
        "app/domain/rows/row_image.py",
        "app/domain/rows/row_rules.py",
        "app/domain/rows/source_order.py",
        "app/domain/rows/typed_columns.py",
    }
)
"""Modules of `FOLDERS` that do not count: the exact path, CSV, tables and their routing, and the rules of rows."""

OTHERS: Final = ("app/staging/connection/raw_sql.py", "app/formats/columnar.py")
"""Modules elsewhere that exist for small transactions."""

COUNTERS: Final = ("count_keys", "count_address_keys", "_count_")
"""Functions of `EXACT_PATH` whose names begin like this belong to strictness, and their lines count too."""


def reading_lines(repository: Path = REPOSITORY) -> Mapping[str, int]:
    """Return the lines by module, in the order of names."""
    found = {str(path.relative_to(repository)) for folder in FOLDERS for path in (repository / folder).rglob("*.py")}
    counted = {name: _lines(repository / name) for name in (found - EXACT_PATH) | {*OTHERS}}
    parts = {f"{name} (counters of keys)": _counter_lines(repository / name) for name in EXACT_PATH & found}
    return dict(sorted((counted | {name: lines for name, lines in parts.items() if lines}).items()))


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n")


def _counter_lines(file: Path) -> int:
    body = ast.parse(file.read_bytes()).body
    counters = (node for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith(COUNTERS))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in counters)


def main() -> int:
    """Print the lines of each module and their sum; return the exit code."""
    argparse.ArgumentParser(prog="python -m benchmarks.reading_lines", description=__doc__).parse_args()
    lines = reading_lines()
    sys.stdout.write(
        "".join(f"{count:5} {name}\n" for name, count in lines.items()) + f"{sum(lines.values()):5} lines\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
