"""What docs/operate/emulator.md shows works as it is written there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mirrorgate.testing import RunningEmulator
from tests.emulator.conftest import run_pytest
from tests.project.facts import REPOSITORY

PAGE = (REPOSITORY / "docs/operate/emulator.md").read_text(encoding="utf-8")
PUBLISHER, TEST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SQL, FAULTS = re.findall(r"^curl .*$", PAGE, re.MULTILINE)


def run(command: str, emulator: RunningEmulator) -> str:
    """Run a command of the page at this emulator's address."""
    line = command.replace("http://127.0.0.1:8490", emulator.onelake.replace("https:", "http:"))
    ended = subprocess.run(
        ["sh", "-c", f"{line} --silent --fail"], capture_output=True, text=True, timeout=60, check=True
    )
    return ended.stdout


def test_the_publisher_the_query_and_the_faults(mirrorgate_emulator: RunningEmulator) -> None:
    environment = os.environ | mirrorgate_emulator.environment
    subprocess.run([sys.executable, "-c", PUBLISHER], env=environment, check=True, timeout=60)
    mirrorgate_emulator.wait_for("SELECT * FROM laptop", bool)
    assert run(SQL, mirrorgate_emulator) == '{"columns": ["id", "name"], "rows": [["1", "one"]]}'
    assert '"lost_answer": 0.05' in run(FAULTS, mirrorgate_emulator)


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "demo", "--fabric", "--changes", "300", "--data-dir", str(tmp_path / "demo")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=170, cwd=REPOSITORY)
    assert "Everything adds up" in ended.stdout, ended.stdout + ended.stderr


def test_the_test(tmp_path: Path) -> None:
    publish = f"import os, subprocess, sys\n\n\ndef publish_with(environment):\n    command = {PUBLISHER!r}\n"
    publish += "    subprocess.run([sys.executable, '-c', command], env=os.environ | environment, check=True)\n\n\n"
    plugin, test = TEST.split("\n\n\n", 1)
    printed = run_pytest(tmp_path, plugin, publish + test)
    assert "1 passed" in printed, printed
