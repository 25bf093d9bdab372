"""Virtual environments for packages that neither the gateway nor its tests need; kept between runs."""

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine.description import CACHE
from benchmarks.machine.processes import run_to_end
from benchmarks.reports.figure import BenchmarkFailed


def venv_python(name: str, packages: Sequence[str]) -> Path:
    """Return the Python of a virtual environment with these packages.

    Raises BenchmarkFailed when they cannot be installed.
    """
    folder = CACHE / name
    python, mark = folder / "bin" / "python", folder / "installed"
    wanted = "\n".join(packages)
    if mark.exists() and mark.read_text() == wanted:
        return python
    uv = [sys.executable, "-m", "uv", "--quiet"]
    try:
        run_to_end("uv venv", [*uv, "venv", "--clear", "--python", sys.executable, str(folder)])
        run_to_end("uv pip install", [*uv, "pip", "install", "--python", str(python), *packages])
    except BenchmarkFailed as error:
        raise BenchmarkFailed(f"{', '.join(packages)} cannot be installed: {error}") from error
    mark.write_text(wanted)
    return python
