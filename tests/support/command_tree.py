"""The commands that `mirrorgate` has."""

from typing import Any

import typer.main

from mirrorgate.cli.main import app


def find_command(*words: str) -> Any:
    """Return the command that these words begin with: a Click command, or a group, which has `commands`."""
    found: Any = typer.main.get_command(app)
    for word in words:
        found = found.commands[word] if hasattr(found, "commands") else found
    return found
