"""`mirrorgate verify`: check any landing zone against the rules of open mirroring."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from app.extras import require_extras
from mirrorgate.cli.console import ERRORS, print_json
from mirrorgate.cli.exit_status import COULD_NOT_RUN
from mirrorgate.cli.options import AsJson
from mirrorgate.errors import Code, MirrorgateError, Misconfigured

if TYPE_CHECKING:
    from app.landing.zone import LandingZone
    from app.verify.finding import Finding
    from app.verify.zone_verification import ZoneVerification


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
        from app.verify.comparison.compare_zone import compare_zone
        from app.verify.finding import guarded

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
    from app.verify.table_verification import ROW_CHECKS
    from app.verify.zone_verification import ZoneVerification, require_landing_zone
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
