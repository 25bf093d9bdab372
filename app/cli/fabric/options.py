"""Options that the commands share, and the client they make."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.console import ERRORS, say
from app.cli.mirror.progress import Advance, working
from app.extras import require_extras

if TYPE_CHECKING:
    from app.fabric import FabricClient
    from app.fabric.operations import Progress
    from app.settings import Settings

WorkspaceOption = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        metavar="NAME|ID",
        help="The workspace. Default: MIRRORGATE_FABRIC_WORKSPACE, else the one in MIRRORGATE_LANDING_ZONE.",
        show_default=False,
    ),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="NAME|ID",
        help="The mirrored database. Default: MIRRORGATE_FABRIC_DATABASE, else the one in MIRRORGATE_LANDING_ZONE.",
        show_default=False,
    ),
]
Timeout = Annotated[
    int, typer.Option("--timeout", metavar="SECONDS", min=1, help="How long to wait for Fabric, in seconds.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def fabric_settings(
    command: str, workspace: str | None, database: str | None, data_dir: Path | None = None
) -> "Settings":
    """Return the settings with the given names, and of a gateway running on the data directory.

    Raise Misconfigured.
    """
    require_extras(f"fabric {command}", "server", "onelake")
    from app.observability.telemetry import configure_logging
    from app.settings import Settings

    given: dict[str, object] = {"fabric_workspace": workspace, "fabric_database": database}
    settings = Settings.from_environment(**given)
    if data_dir is not None and settings.database_url is None:
        from app.local.embedded import running_url

        settings = Settings.from_environment(**given, database_url=running_url(data_dir))
    configure_logging(settings, is_command=True)
    return settings


@contextmanager
def opened(settings: "Settings", *, wait_seconds: float = 600.0) -> "Iterator[FabricClient]":
    """Open the client."""
    from app.fabric import open_fabric

    with open_fabric(settings, wait_seconds=wait_seconds) as client:
        yield client


@contextmanager
def following(description: str, *, quiet: bool = False) -> "Iterator[Progress]":
    """Show a bar with Fabric's word for the state, in a terminal. On Ctrl-C say that Fabric continues."""
    try:
        with working(description, quiet=quiet) as advance:
            yield _told(description, advance)
    except KeyboardInterrupt:
        say("Fabric continues what it has begun; `mirrorgate fabric status` shows it", to=ERRORS)
        raise


def _told(description: str, advance: Advance) -> "Progress":
    def progress(state: str, percent: int | None) -> None:
        advance(f"{description}: {state}" + ("" if percent is None else f", {percent} %"))

    return progress


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation on standard error. Abort on no, and without a terminal."""
    if not yes:
        typer.confirm(question, abort=True, err=True)
