"""The steps of a run, from the sign-in to the deletion of the database."""

import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from app.domain.fabric import DatabaseState, parse_state
from app.fabric import FabricClient, open_fabric
from app.fabric.client import MirroredDatabase
from app.fabric.definition import Definition
from app.fabric.transport import FabricRejected
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.zone import LandingZone
from app.published.table_files import list_tables
from app.settings import Settings
from app.zone_settings import storage_options
from mirrorgate.errors import MirrorgateError
from mirrorgate_zone.verify.codes import Finding, FindingCode, Severity, guarded
from mirrorgate_zone.verify.compare_zone import compare_zone
from mirrorgate_zone.verify.table_verification import ROW_CHECKS, ZoneVerification
from tools.conformance import content
from tools.conformance.gateway import RunningGateway, running_gateway, until
from tools.conformance.report import Outcome, Report, RunEnded, StepFailed, say


def wrong_in_zone(zone: LandingZone) -> list[Finding]:
    """Return what breaks a rule of open mirroring in the zone."""
    verification = ZoneVerification(zone, tables=(), row_checks=ROW_CHECKS)
    found = verification.run(datetime.now(UTC), lambda *_: None)
    return [finding for finding in found if finding.severity is not Severity.ADVICE]


def differences(zone: LandingZone, tables: str, storage_options: Mapping[str, str]) -> list[Finding]:
    """Return what differs between the zone and the Delta tables at an address, also that those are behind."""
    compared = partial(compare_zone, zone, tables, storage_options=storage_options)
    found = guarded(compared, "comparison")
    return [one for one in found if one.severity is not Severity.ADVICE or one.code is FindingCode.AGAINST_BEHIND]


def table_names(zone: LandingZone) -> list[str]:
    """Return the tables of the zone."""
    return [str(table) for table in list_tables(zone)]


def in_words(findings: list[Finding], most: int = 3) -> str:
    """Return the first findings as one string."""
    texts = [f"{one.table or ''} {one.code}: {one.detail}".strip() for one in findings[:most]]
    return "; ".join(texts) + (f"; and {len(findings) - most} more" if len(findings) > most else "")


PREFIX: Final = "mirrorgate_conformance_"
"""Every database of a run has a name that begins so."""

_RUNNING: Final = (DatabaseState.RUNNING, DatabaseState.RUNNING_WITH_WARNING)
_STATE_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps and pauses of a run."""

    workspace: str
    database: str
    """The name of the database that it creates."""
    keep: bool = False
    """Leave the database when the run has ended."""
    timeout: float = 1_800.0
    """Seconds that Fabric may take for each round of files."""
    creation_seconds: float = 120.0
    """Seconds for which a database whose creation was not confirmed is looked for before it is deleted."""
    poll_seconds: float = 15.0
    environment: dict[str, str] = field(default_factory=dict)
    """More variables for the gateway."""
    tables_address: Callable[[MirroredDatabase], str] = lambda database: database.tables_address
    """Address of Fabric's Delta tables."""


def run(plan: Plan, report: Report) -> None:
    """Go through all steps, and delete the database in the end, whatever happens.

    Faults are in the report. Raise KeyboardInterrupt for Ctrl-C, after the deletion.
    """
    settings = Settings.from_environment(fabric_workspace=plan.workspace, fabric_database=plan.database)
    with open_fabric(settings, wait_seconds=plan.timeout) as client, ExitStack() as stack:
        try:
            _Run(plan, report, settings, client, stack).steps()
        except RunEnded:
            pass
        finally:
            with _undisturbed():
                stack.close()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore further Ctrl-C, SIGTERM and SIGHUP while the run cleans up, which takes some minutes at most."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class _Run:
    plan: Plan
    report: Report
    settings: Settings
    client: FabricClient
    stack: ExitStack
    is_unconfirmed: bool = False
    """Fabric may have been asked to create the database, and has neither confirmed nor rejected it."""

    def steps(self) -> None:
        """Go through the steps; what they open is closed by the stack."""
        database = self._create()
        zone = open_zone(ZoneAddress(database.landing_zone, storage_options(self.settings)))
        gateway = self._start_gateway(database)
        self._publish_first(gateway, zone)
        self._start_mirroring()
        tables = self.plan.tables_address(database)
        self._compare("Fabric has the rows of the first files", zone, tables)
        with self.report.step("The gateway shows the state that Fabric reports", is_needed=False):
            until(lambda: _not_running(gateway.fabric_state()), _STATE_SECONDS)
        self._change_tables(gateway)
        self._compare("Fabric has the rows after changes, rename, recreate and drop", zone, tables)
        self._check_dropped()
        with self.report.step("The landing zone breaks no rule", is_needed=False) as step:
            wrong = wrong_in_zone(zone)
            step.detail = in_words(wrong) or f"{len(table_names(zone))} tables"
            if wrong:
                raise StepFailed(step.detail)

    def _create(self) -> MirroredDatabase:
        with self.report.step("Find the workspace") as step:
            workspace = self.client.workspace()
            step.detail = workspace.name
        self.report.facts |= {
            "workspace": f"{workspace.name} ({workspace.id})",
            "Mirrorgate": version("mirrorgate"),
            "database": self.plan.database,
        }
        with self.report.step("Create the mirrored database") as step:
            self.stack.callback(self._delete)
            definition = Definition(default_schema="dbo", retention_days=1)
            description = "Created by `make conformance`; it may be deleted."
            self.is_unconfirmed = True
            try:
                database, _ = self.client.create(self.plan.database, definition, description=description)
            except FabricRejected:
                self.is_unconfirmed = False
                raise
            self.is_unconfirmed = False
            step.detail = database.id
        self.report.facts["database"] = f"{database.name} ({database.id})"
        return database

    def _delete(self) -> None:
        if self.plan.keep:
            say(f"kept the database {self.plan.database}; delete it in the portal")
            return
        with self.report.step("Delete the database", is_needed=False) as step:
            if self._exists():
                self.client.delete()
            else:
                step.detail = "there is none"
        if step.outcome is not Outcome.OK:
            say(f"delete the database {self.plan.database} in the portal")

    def _exists(self) -> bool:
        """Look for the database by its name: a request whose answer is lost can have created it.

        Fabric lists a new database with a delay, so one that is not confirmed is looked for repeatedly. Raise
        StepFailed if it does not appear: it still may.
        """

        def unlisted() -> str | None:
            if self.client.find(self.plan.database) is None:
                return "Fabric has not confirmed the creation and does not list the database; it may still appear"
            return None

        if self.is_unconfirmed:
            until(unlisted, self.plan.creation_seconds, self.plan.poll_seconds)
            return True
        return unlisted() is None

    def _start_gateway(self, database: MirroredDatabase) -> RunningGateway:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        environment = {
            "MIRRORGATE_LANDING_ZONE": database.landing_zone,
            "MIRRORGATE_FABRIC_WORKSPACE": database.workspace_id,
            "MIRRORGATE_FABRIC_DATABASE": database.id,
            "MIRRORGATE_FABRIC_POLL_SECONDS": "60",
            "MIRRORGATE_MAX_DELAY_SECONDS": "2",
        }
        with self.report.step("Start a gateway on the new landing zone") as step:
            step.detail = f"its logs are in {folder}"
            self.stack.callback(self._forget_logs, folder)
            gateway = self.stack.enter_context(running_gateway(folder, environment | self.plan.environment))
            step.detail = ""
        return gateway

    def _forget_logs(self, folder: Path) -> None:
        """Delete the gateway's files, unless its logs may explain a failure."""
        if self.report.is_conformant:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            self.report.facts["logs of the gateway"] = str(folder)

    def _publish_first(self, gateway: RunningGateway, zone: LandingZone) -> None:
        with self.report.step("Publish every type, marker and option") as step:
            for table in content.BEFORE_START:
                gateway.register(table)
            rows = gateway.post(content.FIRST_POSTS)
            step.detail = f"{rows} rows in {gateway.wait_published()} tables"
        with self.report.step("Repair a damaged file", is_needed=False):
            _damage_and_repair(gateway, zone)

    def _start_mirroring(self) -> None:
        with self.report.step("Start mirroring") as step:
            status = self.client.wait_until(DatabaseState.INITIALIZED, *_RUNNING, left=DatabaseState.INITIALIZING)
            if not status.state.is_running:
                self.client.start()
                status = self.client.wait_until(*_RUNNING, left=status.state)
            step.detail = status.raw
            if not status.state.is_running:
                raise StepFailed(f"the database is {status.raw}: {status.error or ''}")

    def _compare(self, name: str, zone: LandingZone, tables: str) -> None:
        """Wait until Fabric's tables have the rows of the zone; keep Fabric's own status of them."""

        def wrong() -> str | None:
            found = differences(zone, tables, self.settings.mirror_options)
            return in_words(found) if found else None

        with self.report.step(name, is_needed=False) as step:
            try:
                until(wrong, self.plan.timeout, self.plan.poll_seconds)
                step.detail = f"{len(table_names(zone))} tables are equal"
            finally:
                self._keep_status()

    def _keep_status(self) -> None:
        """Keep Fabric's own status of the tables; without an answer, the former one."""
        with suppress(MirrorgateError):
            self.report.tables = [
                (
                    f"{one.schema}.{one.name}",
                    one.state or "",
                    _shown(one.processed_rows),
                    _shown(one.processed_bytes),
                    str(one.error or ""),
                )
                for one in self.client.tables_status()
            ]

    def _change_tables(self, gateway: RunningGateway) -> None:
        with self.report.step("Rename, drop, recreate and evolve tables, and change rows") as step:
            old, new = content.RENAMED
            gateway.operate(old, "rename", {"name": new})
            gateway.drop(content.DROPPED)
            recreated = content.RECREATED.body()
            gateway.operate(content.RECREATED.name, "recreate", recreated)
            gateway.wait_published()
            gateway.register(content.EVOLVED)
            rows = gateway.post(content.LATER_POSTS)
            step.detail = f"{rows} rows in {gateway.wait_published()} tables"

    def _check_dropped(self) -> None:
        gone = {content.DROPPED.casefold(), content.RENAMED[0].casefold()}

        def listed() -> str | None:
            names = {f"{one.schema}.{one.name}".casefold() for one in self.client.tables_status()}
            return f"Fabric lists {', '.join(sorted(names & gone))}" if names & gone else None

        with self.report.step("Fabric no longer lists the dropped and the renamed table", is_needed=False):
            until(listed, self.plan.timeout, self.plan.poll_seconds)


def _damage_and_repair(gateway: RunningGateway, zone: LandingZone) -> None:
    """Cut the last file of a table, let the gateway write it again, and wait for its former bytes."""
    number = gateway.status(content.REPAIRED)["published"]["files"]
    folder = content.REPAIRED.replace(".", ".schema/")
    path = f"{folder}/{number:020}.parquet"
    with zone.read_file(path) as file:
        original = file.read()
    damaged = f"_scratchPad/{PREFIX}damaged"
    zone.create_file(damaged, original[: len(original) // 2])
    zone.replace_file(damaged, path)
    gateway.operate(content.REPAIRED, f"repair/{number}")

    def is_damaged() -> str | None:
        with zone.read_file(path) as file:
            return None if file.read() == original else f"file {number} is not as it was published"

    until(is_damaged, _STATE_SECONDS)


def _not_running(state: str | None) -> str | None:
    return None if parse_state(state or "").is_running else f"the gateway shows {state}"


def _shown(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
