"""`mirrorgate doctor`: try out what publication relies on, and say what is unsafe and what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table as Grid

from app.domain.preflight.finding import Finding, Outcome, unsafe_among
from app.errors import Code, Misconfigured
from app.extras import require_extras

if TYPE_CHECKING:
    from app.settings import Settings

_console = Console()
_STYLES: Final = {Outcome.OK: "green", Outcome.WARNING: "yellow", Outcome.UNSAFE: "red"}


def doctor(
    landing_zone: Annotated[
        str | None, typer.Option(help="Folder or OneLake address to try out; unset: MIRRORGATE_LANDING_ZONE.")
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Also start Spark and look at its executors; needs Java.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
    data_dir: Annotated[Path, typer.Option(help="Data directory of a local `mirrorgate up`.")] = Path(".mirrorgate"),
) -> None:
    """Check that the landing zone, Postgres and this machine keep what Mirrorgate promises. Exit 1 if they do not.

    What is set in the environment is examined, else the gateway that `mirrorgate up` runs on the data directory. The
    landing zone is tried out below `_scratchPad`, which mirroring does not look at, and nothing is left there.
    """
    require_extras("doctor", "server")
    if spark:
        require_extras("doctor --spark", "drain")
    from app.checks.preflight import (  # they import Arrow and SQLAlchemy
        examine,
        examine_machine,
        not_examined,
    )
    from app.cli.tables.direct import direct_settings
    from app.observability.telemetry import configure_logging
    from app.zone_settings import zone_address

    settings = direct_settings(landing_zone, data_dir)
    configure_logging(settings)
    place = None if settings.landing_zone is None else zone_address(settings)
    database_url = None if settings.database_url is None else settings.database_url.get_secret_value()
    findings = examine(place, database_url, os.environ, data_dir=data_dir if data_dir.is_dir() else None)
    findings += not_examined(place, database_url)
    findings += examine_machine(settings)
    if spark:
        findings += _spark_findings(settings, data_dir)
    if as_json:
        typer.echo(json.dumps([finding.to_json() for finding in findings]))
    else:
        _console.print(findings_grid(findings))
    if unsafe_among(findings):
        raise typer.Exit(1)


def findings_grid(findings: list[Finding]) -> Grid:
    """Findings as people read them; the remedy stands below what is wrong."""
    grid = Grid(box=None, header_style="bold")
    grid.add_column("check", no_wrap=True)
    grid.add_column("outcome", no_wrap=True)
    grid.add_column("detail", overflow="fold")
    for finding in findings:
        style = _STYLES[finding.outcome]
        grid.add_row(finding.check, f"[{style}]{finding.outcome}[/{style}]", _plain(finding.detail))
        if finding.remedy:
            grid.add_row("", "", _plain(f"-> {finding.remedy}"))
    return grid


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


def _spark_findings(settings: "Settings", data_dir: Path) -> list[Finding]:
    """What a Spark driver and its executors find, in a process of its own. Raises Misconfigured `spark_failed`."""
    from app.local.embedded import find_java
    from app.settings import PREFIX

    environment = {
        **os.environ,
        f"{PREFIX}DATABASE_URL": settings.require_database_url(),
        f"{PREFIX}LANDING_ZONE": settings.require_landing_zone(),
        "JAVA_HOME": str(find_java(data_dir, os.environ)),
    }
    command = [sys.executable, "-m", "spark_jobs.doctor"]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    try:
        return [Finding.from_json(entry) for entry in json.loads(finished.stdout)]
    except (ValueError, TypeError):
        last = finished.stderr.strip().splitlines()[-1:]
        raise Misconfigured(Code.SPARK_FAILED, f"Spark did not run: {''.join(last) or finished.returncode}") from None
