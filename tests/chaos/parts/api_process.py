"""The API in its own process, forked from a server that has imported everything."""

import os
from collections.abc import Mapping
from pathlib import Path

from app.main import serve
from app.settings import Settings
from tests.chaos.parts.light_drain import end_with


def run_api(environment: Mapping[str, str], log: Path, parent: int) -> None:
    """Do what `python -m app.main` does, until the process is killed or its parent ends."""
    os.environ.update(environment)
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    end_with(parent)
    serve(Settings.from_environment())
