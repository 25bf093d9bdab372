"""`mirrorgate verify` checks any landing zone against the rules, and `mirrorgate certify` any publisher."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.extras import require_extras
from mirrorgate.cli.console import COULD_NOT_RUN, ERRORS, OUTPUT, encoded, print_json, say, working
from mirrorgate.cli.options import AsJson
from mirrorgate.errors import Code, MirrorgateError, Misconfigured

if TYPE_CHECKING:
    from app.emulator.exercises import Exercise, Result
    from app.landing.zone import LandingZone
    from app.verify.codes import Finding
    from app.verify.table_verification import ZoneVerification


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
        from app.verify.codes import guarded
        from app.verify.compare_zone import compare_zone

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
        require_extras("verify", "mirror")
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
    from app.cli.verify_output import follow_zone, print_report, progress_bar
    from app.landing.open_zone import open_zone
    from app.observability.telemetry import configure_logging
    from app.settings import Settings
    from app.verify.codes import Severity
    from app.verify.table_verification import ROW_CHECKS, ZoneVerification, require_landing_zone
    from app.zone_settings import zone_address

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
    of `mirrorgate emulator` say where to publish. Requires the extra `emulator`.

    Exit status: 0 nothing failed; 1 an exercise failed; 2 the command could not be run.

    For example:

        mirrorgate certify --page certified.md -- python publish.py
    """
    require_extras("certify", "emulator")
    from app.emulator.exercises import EXERCISES, Verdict

    if list_them:
        _print_list()
        return
    names = [exercise.name for exercise in EXERCISES]
    if unknown := [name for name in only or [] if name not in names]:
        raise typer.BadParameter(f"--only {unknown[0]}: the exercises are {', '.join(names)}")
    if not command:
        raise typer.BadParameter("name the command that publishes, after `--`")
    wanted = [exercise for exercise in EXERCISES if not only or exercise.name in only]
    results = _run(command, wanted, timeout)
    if json_file is not None:
        document = {"command": command, "emulator": version("mirrorgate-gateway"), "exercises": results}
        json_file.write_text(f"{encoded(document)}\n", encoding="utf-8")
    if page_file is not None:
        from app.emulator.certify import page

        page_file.write_text(page(results, shlex.join(command), version("mirrorgate-gateway")), encoding="utf-8")
    _print_results(results)
    if any(result.verdict is Verdict.FAILED for result in results):
        raise typer.Exit(1)


def _run(command: list[str], wanted: "list[Exercise]", timeout: float) -> "list[Result]":
    import structlog

    from app.emulator.certify import Publisher, certify

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
    from app.emulator.exercises import EXERCISES, STEPS

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
