"""`mirrorgate doctor`: test what publication relies on, and report what is unsafe and how to fix it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from app.domain.preflight import Finding, Outcome, unsafe_among
from app.extras import require_extras
from mirrorgate.cli.console import OUTPUT, print_json
from mirrorgate.cli.options import DEFAULT_DATA_DIR, AsJson, LandingZone, LocalDataDir
from mirrorgate.errors import Code, Misconfigured

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from app.settings import Settings

_STYLES: Final = {Outcome.OK: "green", Outcome.WARNING: "yellow", Outcome.UNSAFE: "red"}


def doctor(
    landing_zone: LandingZone = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Also start Spark and check its executors; needs Java.")
    ] = False,
    as_json: AsJson = False,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Check whether the landing zone, Postgres and this machine keep Mirrorgate's guarantees. Exit 1 if they do not.

    Checks the parts that the MIRRORGATE_* variables name, else the gateway that `mirrorgate up` runs on the data
    directory. The test files go below `_scratchPad` in the landing zone, which mirroring ignores, and are removed.
    """
    require_extras("doctor --spark" if spark else "doctor", "drain" if spark else "server")
    from app.checks.preflight import examine, examine_machine, not_examined
    from app.cli.direct import direct_settings
    from app.domain.access.mask_secret import MaskSecret
    from app.observability.telemetry import configure_logging
    from app.zone_settings import zone_address

    settings = direct_settings(landing_zone, data_dir)
    configure_logging(settings, is_command=True)
    address = None if settings.landing_zone is None else zone_address(settings)
    database_url = None if settings.database_url is None else settings.database_url.get_secret_value()
    findings = examine(
        address,
        database_url,
        os.environ,
        data_dir=data_dir if data_dir.is_dir() else None,
        mask_secret=MaskSecret.given(settings.mask_secret_bytes),
    )
    findings += not_examined(address, database_url)
    findings += examine_machine(settings)
    if spark:
        findings += _spark_findings(settings, data_dir)
    if as_json:
        print_json(findings)
    else:
        OUTPUT.print(findings_grid(findings))
    if unsafe_among(findings):
        raise typer.Exit(1)


def findings_grid(findings: list[Finding]) -> "Grid":
    """Lay out findings for people, each remedy below its problem."""
    from rich.markup import escape
    from rich.table import Table as Grid

    grid = Grid(box=None, header_style="bold")
    grid.add_column("check", no_wrap=True)
    grid.add_column("outcome", no_wrap=True)
    grid.add_column("detail", overflow="fold")
    for finding in findings:
        style = _STYLES[finding.outcome]
        grid.add_row(finding.check, f"[{style}]{finding.outcome}[/{style}]", escape(finding.detail))
        if finding.remedy:
            grid.add_row("", "", escape(f"-> {finding.remedy}"))
    return grid


def _spark_findings(settings: "Settings", data_dir: Path) -> list[Finding]:
    """Run the checks of a Spark driver and its executors in another process. Raises Misconfigured `spark_failed`."""
    from app.local.child_process import find_start_failure
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
        return msgspec.json.decode(finished.stdout, type=list[Finding])
    except msgspec.DecodeError:
        told = find_start_failure(finished.stderr.encode().splitlines())
        raise told or Misconfigured(Code.SPARK_FAILED, f"Spark ended with exit code {finished.returncode}") from None
