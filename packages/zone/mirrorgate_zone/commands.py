"""`mirrorgate verify` checks any landing zone, `certify` any publisher, and `emulator` is Fabric on this machine."""

import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mirrorgate.cli.console import COULD_NOT_RUN, ERRORS, OUTPUT, encoded, is_program, print_json, say, working
from mirrorgate.cli.options import AsJson, named_values
from mirrorgate.errors import Code, MirrorgateError, Misconfigured

if TYPE_CHECKING:
    from app.landing.zone import LandingZone
    from mirrorgate_zone.emulator.exercises import Exercise, Result
    from mirrorgate_zone.verify.codes import Finding
    from mirrorgate_zone.verify.table_verification import ZoneVerification


_SLICE_SECONDS: Final = 0.2


class CouldNotVerify(Misconfigured):
    """The zone was not checked."""

    exit_status = COULD_NOT_RUN


@dataclass(frozen=True, slots=True)
class Comparison:
    """The options --against and --show-values."""

    target: str
    show_values: bool

    def findings(
        self, zone: "LandingZone", tables: Sequence[str], storage_options: Mapping[str, str]
    ) -> "list[Finding]":
        """Compare the tables with their Delta tables. Raise Misconfigured for a target that has none."""
        from mirrorgate_zone.verify.codes import guarded
        from mirrorgate_zone.verify.compare_zone import compare_zone

        compared = partial(
            compare_zone,
            zone,
            self.target,
            tables=tables,
            show_values=self.show_values,
            storage_options=storage_options,
        )
        return list(guarded(compared, "comparison"))


def verify(
    zone: Annotated[str, typer.Argument(help="Folder of a landing zone, or its abfss:// or https:// address.")],
    table: Annotated[
        list[str] | None,
        typer.Option(help="Check this table only: `name` or `schema.name`. Repeat it for several tables."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep watching, and print new findings until Ctrl-C.")
    ] = False,
    rows: Annotated[
        bool, typer.Option(help="Read the rows, too. Names, metadata, footers and columns are checked in any case.")
    ] = True,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="Also compare each table's rows with a Delta table, or with a folder of them: a mirror of Mirrorgate, "
            "or Fabric's own `Tables`.",
            show_default=False,
        ),
    ] = None,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show keys and values in the differences of --against.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check any landing zone, by Mirrorgate or by another publisher, against the rules of open mirroring.

    It finds what stops a table in Fabric or makes its rows wrong: gaps, partial files, wrong names, damaged metadata,
    misplaced row markers, types that change, and more. Each finding has a code, a location and a remedy;
    https://mirrorgate.github.io/mirrorgate/reference/verify-findings/ lists them all. The command changes nothing and
    needs no database.

    Exit status: 0 no errors, though there may be warnings; 1 at least one error; 2 the zone could not be checked.

    For example:

        mirrorgate verify ./landing-zone --table sales.orders --against ./mirror
    """
    if follow and against is not None:
        raise typer.BadParameter("--against compares once: leave out --follow")
    if show_values and against is None:
        raise typer.BadParameter("--show-values is for --against")
    try:
        comparison = None if against is None else Comparison(against, show_values)
        has_errors = _verify(zone, table or [], comparison, rows=rows, follow=follow, as_json=as_json)
    except MirrorgateError as error:
        raise CouldNotVerify(error.code, error.detail, remedy=error.remedy) from error
    except OSError as error:
        reason = error.strerror or str(error).partition("\n")[0]
        raise CouldNotVerify(Code.LANDING_ZONE_UNUSABLE, f"{zone} cannot be read: {reason}") from error
    if has_errors:
        raise typer.Exit(1)


def _verify(
    location: str, tables: list[str], comparison: Comparison | None, *, rows: bool, follow: bool, as_json: bool
) -> bool:
    """Check the zone, print the findings and return whether one is an error."""
    from app.landing.open_zone import open_zone
    from app.observability.telemetry import configure_logging
    from app.settings import Settings
    from app.zone_settings import zone_address
    from mirrorgate_zone.verify.codes import Severity
    from mirrorgate_zone.verify.table_verification import ROW_CHECKS, ZoneVerification, require_landing_zone
    from mirrorgate_zone.verify_output import follow_zone, print_report, progress_bar

    settings = Settings.from_environment(landing_zone=location)
    configure_logging(settings, is_command=True)
    address = zone_address(settings)
    address.check()
    address.check_credential()
    zone = open_zone(address)
    require_landing_zone(zone, location)
    verification = ZoneVerification(zone, tables=tables, row_checks=ROW_CHECKS if rows else (), keep=follow)
    if follow:
        return follow_zone(verification, address, as_json=as_json)
    with progress_bar(ERRORS, hidden=as_json) as progress:
        findings = list(verification.run(datetime.now(UTC), progress))
        if comparison is not None:
            progress("comparing", 0, 0)
            findings += comparison.findings(zone, verification.names, settings.mirror_options)
    if as_json:
        print_json(_document(location, verification, findings))
    else:
        print_report(findings, verification.tables, verification.files)
    return any(finding.severity is Severity.ERROR for finding in findings)


def _document(location: str, verification: "ZoneVerification", findings: "list[Finding]") -> dict[str, object]:
    return {
        "zone": location,
        "tables": verification.tables,
        "files": verification.files,
        "findings": [finding.to_json() for finding in findings],
    }


_STYLES = {"passed": "green", "failed": "red", "not exercised": "yellow"}


class CouldNotCertify(Misconfigured):
    """The command was not run."""

    exit_status = COULD_NOT_RUN


def certify(
    command: Annotated[
        list[str] | None, typer.Argument(help="Command that publishes one step, after `--`.", show_default=False)
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Run this exercise only. Repeatable.", show_default=False)
    ] = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the exercises and the steps, and exit.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the results as JSON.", show_default=False)
    ] = None,
    page_file: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE", help="Also write the results as a Markdown page.", show_default=False),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that one start of the command may take.")] = 120.0,
) -> None:
    """Run any open-mirroring publisher through exercises: lost answers, crashes, a second writer, schema changes.

    Each exercise has a new emulator of Fabric. The command is started for each step, publishes what MIRRORGATE_STEP
    names, and exits with 0 when all of it is published; with 77 if it does not have the step. After a crash or another
    status it is started again. MIRRORGATE_STATE is a folder that it may keep. MIRRORGATE_LANDING_ZONE and the variables
    of `mirrorgate emulator` say where to publish.

    Exit status: 0 nothing failed; 1 an exercise failed; 2 the command could not be run.

    For example:

        mirrorgate certify --page certified.md -- python publish.py
    """
    from mirrorgate_zone.emulator.exercises import EXERCISES, Verdict

    if list_them:
        _print_list()
        return
    names = [exercise.name for exercise in EXERCISES]
    if unknown := [name for name in only or [] if name not in names]:
        raise typer.BadParameter(f"--only {unknown[0]}: the exercises are {', '.join(names)}")
    if not command:
        raise typer.BadParameter("name the command that publishes, after `--`")
    for file in filter(None, (json_file, page_file)):
        try:
            file.open("a").close()
        except OSError as error:
            raise typer.BadParameter(f"{file} cannot be written: {error.strerror}") from None
    wanted = [exercise for exercise in EXERCISES if not only or exercise.name in only]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results = _run(command, wanted, timeout)
    _print_results(results)
    if json_file is not None:
        document = {"command": command, "emulator": version("mirrorgate-zone"), "exercises": results}
        json_file.write_text(f"{encoded(document)}\n", encoding="utf-8")
    if page_file is not None:
        from mirrorgate_zone.emulator.certify import page

        page_file.write_text(page(results, shlex.join(command), version("mirrorgate-zone")), encoding="utf-8")
    if any(result.verdict is Verdict.FAILED for result in results):
        raise typer.Exit(1)


def _run(command: list[str], wanted: "list[Exercise]", timeout: float) -> "list[Result]":
    import structlog

    from mirrorgate_zone.emulator.certify import Publisher, certify

    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # verdicts say what the replicator logs
    with working("starting", steps=len(wanted)) as advance:

        def tell(exercise: "Exercise", result: "Result | None") -> None:
            advance(exercise.name, done=0 if result is None else 1)
            if result is not None and not ERRORS.is_terminal:
                say(f"{result.verdict:<13}  {result.name}", to=ERRORS)

        try:
            return certify(Publisher(command, timeout), wanted, tell)
        except OSError as error:
            raise CouldNotCertify(
                Code.BAD_SETTING,
                f"{command[0]} cannot be started: {error.strerror}",
                remedy="Name a program that exists and is executable, after `--`.",
            ) from error


def _print_list() -> None:
    from mirrorgate_zone.emulator.exercises import EXERCISES, STEPS

    say("Steps (MIRRORGATE_STEP)")
    for step, about in STEPS.items():
        say(f"  {step:<24} {about}")
    say("\nExercises")
    for exercise in EXERCISES:
        say(f"  {exercise.name:<24} {exercise.about}")


def _print_results(results: "list[Result]") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("exercise", "verdict", "evidence and remedy")
    for result in results:
        lines = [*result.evidence]
        if result.verdict == "failed":
            lines.append(f"-> {result.remedy} ({result.source.replace('*', '')})")
        table.add_row(result.name, Text(result.verdict, _STYLES[result.verdict]), Text("\n".join(lines)))
    OUTPUT.print(table)


@is_program
def emulator(
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Folder that keeps databases and files for the next start. Default: a temporary one, removed.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0 picks a free one.")] = 8490,
    faults: Annotated[
        list[str] | None,
        typer.Option(
            "--fault",
            metavar="NAME=VALUE",
            help="What goes wrong from the start: throttle=0.1, lost_answer=0.05, expired_token=100, "
            "paused_capacity=true, slow_replication=30. Repeatable.",
            show_default=False,
        ),
    ] = None,
    retention_days: Annotated[float, typer.Option(min=0, help="Days until applied files are deleted.")] = 7.0,
    as_json: AsJson = False,
) -> None:
    """Run Fabric open mirroring on this machine: OneLake, REST API, Delta tables, and SQL.

    Prints its addresses, a token, and the variables with which a program for Fabric runs against it unchanged; with
    --json as one line. Ctrl-C stops it. One port answers everything, with TLS or plain HTTP, and is a proxy for
    Fabric's hosts. https://mirrorgate.github.io/mirrorgate/operate/emulator/ says where it differs from Fabric.

    For example:

        mirrorgate emulator --directory /tmp/fabric --fault throttle=0.1
    """
    from pydantic import ValidationError

    from mirrorgate_zone.emulator.emulator import running
    from mirrorgate_zone.emulator.faults import FaultRates, Faults

    try:
        rates = FaultRates.model_validate(named_values("--fault", faults or []))
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise Misconfigured(
            Code.BAD_SETTING,
            f"--fault {where}: {wrong['msg']}",
            remedy=f"The faults are {', '.join(FaultRates.model_fields)}. A share is a number from 0 to 1.",
        ) from error
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        suppress(KeyboardInterrupt),
        running(directory, port=port, faults=Faults(rates=rates), retention_seconds=retention_days * 86_400) as started,
    ):
        found = started.addresses
        if as_json:
            sys.stdout.write(f"{encoded(asdict(found))}\n")
        else:
            kept = "kept" if directory else "removed at the end"
            say(f"OneLake       {found.onelake}")
            say(f"Fabric REST   {found.fabric}")
            say(f"SQL           {found.sql}")
            say(f"token         {found.token}")
            say(f"landing zone  {found.landing_zone}")
            say(f"certificate   {found.certificate}")
            say(f"files         {found.directory} ({kept})\n")
            for name, value in found.environment.items():
                sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
            say("\nready. Paste these lines into the shell of a publisher. Ctrl-C stops the emulator.")
        sys.stdout.flush()
        while True:
            time.sleep(_SLICE_SECONDS)  # a slice, because a signal to another thread does not end this wait


def add_commands(root: typer.Typer) -> None:
    """Add `verify`, `certify` and `emulator` to the command line."""
    panel = "Work with any landing zone"
    root.command("verify", rich_help_panel=panel)(verify)
    root.command("certify", rich_help_panel=panel)(certify)
    root.command("emulator", rich_help_panel=panel)(emulator)
