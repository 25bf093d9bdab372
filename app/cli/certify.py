"""`mirrorgate certify`: run any publisher of open mirroring through the exercises, on the emulator."""

import shlex
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.extras import require_extras
from mirrorgate.cli.console import ERRORS, OUTPUT, encoded, say, working
from mirrorgate.cli.exit_status import COULD_NOT_RUN
from mirrorgate.errors import Code, Misconfigured

if TYPE_CHECKING:
    from app.emulator.exercises import Exercise, Result

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
