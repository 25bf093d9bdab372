"""docs/client-library.md from top to bottom: its programs print what the page shows."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.api import application
from app.settings import Settings
from tests.api.calls import ADMIN_KEY
from tests.support.documents import shell_blocks
from tests.support.http.server import served
from tests.support.processes import REPOSITORY

PAGE = (REPOSITORY / "docs" / "client-library.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def environment(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    monkeypatch.setattr(application, "configure_logging", lambda _: None)
    with served(Settings(database_url=SecretStr(database_url), admin_key=SecretStr(ADMIN_KEY))) as address:
        yield os.environ | {"MIRRORGATE_URL": address, "MIRRORGATE_API_KEY": ADMIN_KEY, "PYTHONPATH": str(REPOSITORY)}


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_the_programs_of_the_page_print_what_it_shows(environment: dict[str, str], tmp_path: Path) -> None:
    (register,) = [block for block in shell_blocks(PAGE) if "curl" in block]
    run(["bash", "-euc", register], tmp_path, environment)
    assert len(PROGRAMS) == PAGE.count("```python") >= 4
    for program, printed in PROGRAMS:
        assert run([sys.executable, "-W", "error", "-c", program], tmp_path, environment) == printed


def test_the_first_program_of_the_page_has_at_most_twenty_lines() -> None:
    program, _ = PROGRAMS[0]
    assert len(program.splitlines()) <= 20
