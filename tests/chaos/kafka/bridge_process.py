"""A bridge in its own process, forked from a server that has imported everything: a start takes no second."""

import faulthandler
import os
import sys
from pathlib import Path

import app.cli.main  # noqa: F401  # all are imported before the fork
from mirrorgate.cli.__main__ import main
from tests.chaos.parts.light_drain import end_with


def run_bridge(configuration: Path, log: Path, parent: int) -> None:
    """Do what `mirrorgate bridge kafka` does, until the process is killed or its parent ends."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    faulthandler.enable()
    end_with(parent)
    sys.argv = ["mirrorgate", "bridge", "kafka", "--config", str(configuration)]
    main()
