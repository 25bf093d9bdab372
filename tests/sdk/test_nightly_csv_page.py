"""The tutorial on a nightly CSV runs as it is printed, and prints what it shows."""

import os
import subprocess
import sys
from pathlib import Path

import sqlalchemy as sa

from tests.api.calls import ADMIN_KEY, own_gateway
from tests.api.commands import staged
from tests.support.documents import blocks_with_output
from tests.support.processes import REPOSITORY

PAGE = (REPOSITORY / "docs/tutorials/nightly-csv.md").read_text(encoding="utf-8")
MARKER = "@@@"


def test_each_night_the_table_gets_the_rows_of_the_file(database_url: str, engine: sa.Engine, tmp_path: Path) -> None:
    (tmp_path / ".mirrorgate").mkdir()
    (tmp_path / ".mirrorgate/admin.key").write_text(ADMIN_KEY)
    steps = blocks_with_output(PAGE)
    script = "".join(f"{commands}\necho {MARKER}\n" for commands, _ in steps)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with own_gateway(database_url) as gateway:
        ran = subprocess.run(
            ["bash", "-euc", script.replace("http://127.0.0.1:8480", gateway.address)],
            cwd=tmp_path,
            env=os.environ | {"PATH": path, "COLUMNS": "120"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    printed = [part.split() for part in ran.stdout.split(MARKER)]
    shown = [None if output is None else output.split() for _, output in steps]
    assert [part for part, want in zip(printed, shown, strict=False) if want] == [want for want in shown if want]
    assert [row[0] for row in staged(engine, "pricing.articles")] == [1, 2, 3, 1, 3, 4, 2, 1, 3, 4]
