"""Checks of Fabric's side: token, rights, item, definition, landing zone and mirroring, each with its remedy.

The checks go from the outside in, and end at the first one that makes the next ones impossible. `mirrorgate fabric
doctor` runs all of them and changes nothing; `mirrorgate fabric init` runs those before the database exists, and writes
a probe file. `unprepared_tables` is what `mirrorgate fabric start` asks first.

No call tells the tenant settings to anyone but a Fabric administrator, so a check names the setting that its failure
points to.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final
from uuid import uuid4

from app.domain.fabric import STATES, remedy_for, table_trouble
from app.domain.preflight import Finding, Outcome
from app.fabric import DatabaseState, FabricClient
from app.fabric.client import MirroredDatabase, Workspace, names_in_address
from app.fabric.definition import RETENTION_DAYS
from app.landing.adls.address import StorageOptions
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.publish import METADATA, SCRATCH
from app.landing.zone import LandingZone, PathKind, ScratchRevoked
from app.published.table_files import PublishedTable, list_files
from app.staging.connection.database import disposed, open_engine, translated_errors
from app.staging.tables.registry import list_tables as list_registered
from mirrorgate.errors import Code, MirrorgateError

_FAILED_STATES = (DatabaseState.PAUSED, DatabaseState.FAILED)
_ONELAKE_REMEDY: Final = (
    "The identity needs the role Contributor in the workspace. A Fabric administrator has to enable the tenant setting "
    "`Users can access data stored in OneLake with apps external to Fabric` (OneLake settings) for it; a change takes "
    "up to 15 minutes. The network must reach OneLake on port 443."
)


def registered_tables(database_url: str) -> list[PublishedTable]:
    """Return the folders of the tables that the database has. Raise TemporarilyUnavailable."""
    engine = open_engine(database_url, pool_size=1, application="mirrorgate command")
    with disposed(engine), translated_errors(), engine.begin() as connection:
        return [PublishedTable.at(table.name.folder) for table in list_registered(connection)]


def unprepared_tables(zone: LandingZone, tables: Iterable[PublishedTable]) -> Iterator[str]:
    """Yield the tables without metadata or without any data file, and what they lack. Raise OSError."""
    for table in tables:
        if zone.kind(f"{table.folder}/{METADATA}") is not PathKind.FILE:
            yield f"{table}: no {METADATA}"
        elif not list_files(zone, table).last:
            yield f"{table}: no data file"


def examine_workspace(client: FabricClient) -> Iterator[Finding]:
    """Yield the findings on token, workspace and capacity, which the database needs before it can exist."""
    try:
        workspace = client.workspace()
    except MirrorgateError as failed:
        yield _failed(_CHECKS.get(failed.code, "fabric_workspace"), failed)
        return
    yield Finding("fabric_token", Outcome.OK, "Azure gives a token, and Fabric's API accepts it")
    yield Finding("fabric_workspace", Outcome.OK, f"{workspace.name} ({workspace.id})")
    yield _capacity(client, workspace.capacity_id)


def probe_landing_zone(location: str, options: StorageOptions) -> Finding:
    """Write, read and remove a file of the landing zone's `_scratchPad`, which mirroring ignores.

    A process that dies inside leaves a small file there.
    """
    path, content = f"{SCRATCH}/probe-{uuid4().hex}", b"mirrorgate"
    address = ZoneAddress(location, _briefly(options))
    try:
        address.check()
        address.check_credential()
        zone = open_zone(address)
        zone.create_folder(SCRATCH)
        zone.create_file(path, content)
        try:
            with zone.read_file(path) as opened:
                is_same = opened.read() == content
        finally:
            zone.remove(path)
    except (OSError, ScratchRevoked, MirrorgateError) as failed:
        return Finding("onelake_write", Outcome.UNSAFE, f"{location} cannot be written: {failed}", _ONELAKE_REMEDY)
    if not is_same:
        detail = f"{location} returns other bytes than were written"
        return Finding("onelake_write", Outcome.UNSAFE, detail, "Check MIRRORGATE_STORAGE_ENDPOINT and proxies.")
    return Finding("onelake_write", Outcome.OK, "a probe file was written, read and removed in the landing zone")


def examine_fabric(client: FabricClient, landing_zone: str | None, options: StorageOptions) -> Iterator[Finding]:
    """Yield one finding a check. `landing_zone` is the configured address, None for none.

    Without the name of a database, the checks end before it.
    """
    findings = [*examine_workspace(client)]
    yield from findings
    if findings[0].check != "fabric_token" or findings[0].outcome is not Outcome.OK:
        return
    if not client.names_database:
        detail = "none is named yet; what it needs is there"
        yield Finding("fabric_database", Outcome.OK, detail, "Create it with `mirrorgate fabric init`.")
        return
    try:
        workspace, database = client.workspace(), client.database()
    except MirrorgateError as failed:
        yield _failed(_CHECKS.get(failed.code, "fabric_database"), failed)
        return
    yield _database(database)
    yield from _definition(client)
    yield from _landing_zone(workspace, database, landing_zone, options)
    yield from _mirroring(client)


_CHECKS = {
    Code.FABRIC_UNAUTHORIZED: "fabric_token",
    Code.FABRIC_UNAVAILABLE: "fabric_api",
    Code.FABRIC_THROTTLED: "fabric_api",
    Code.BAD_SETTING: "settings",
}
"""The check that an error belongs to, if it is about neither the workspace nor the item."""


def _failed(check: str, failed: MirrorgateError) -> Finding:
    return Finding(check, Outcome.UNSAFE, f"{failed.code}: {failed.detail}", failed.remedy)


def _capacity(client: FabricClient, capacity: str | None) -> Finding:
    if capacity is None:
        detail = "the workspace has no capacity, so nothing in it runs"
        return Finding("fabric_capacity", Outcome.UNSAFE, detail, "Assign one: Workspace settings, License info.")
    try:
        state = client.capacity_state(capacity)
    except MirrorgateError:  # a right that the rest does not need
        state = None
    if state is None:
        return Finding("fabric_capacity", Outcome.OK, "assigned; this identity may not see whether it is paused")
    if state != "Active":
        return Finding(
            "fabric_capacity",
            Outcome.UNSAFE,
            f"the capacity is {state}: mirroring stops without an error",
            "Resume the capacity in the Azure portal, then resume replication of the database.",
        )
    return Finding("fabric_capacity", Outcome.OK, "active")


def _database(database: MirroredDatabase) -> Finding:
    ready = database.sql_provisioning
    if ready not in (None, "Success"):
        return Finding(
            "fabric_database",
            Outcome.WARNING,
            f"{database.name} ({database.id}); its SQL endpoint is {ready}",
            "Wait some minutes. If the state persists, create the database again.",
        )
    return Finding("fabric_database", Outcome.OK, f"{database.name} ({database.id})")


def _definition(client: FabricClient) -> Iterator[Finding]:
    """Yield the findings on the definition. Reading it needs the right to write the item, as start and stop do."""
    try:
        found = client.definition()
    except MirrorgateError as failed:
        yield _failed("fabric_rights", failed)
        return
    yield Finding("fabric_rights", Outcome.OK, "the identity may change the database")
    if found is None or not found.is_open_mirroring:
        yield Finding(
            "fabric_definition",
            Outcome.UNSAFE,
            f"the source is {found.source_type if found else 'unreadable'}, not GenericMirror: no landing zone is read",
            "Create another database for Mirrorgate with `mirrorgate fabric create`.",
        )
        return
    days = "its default" if found.retention_days is None else f"{found.retention_days} days"
    schema = found.default_schema or "none"
    is_short = found.retention_days == RETENTION_DAYS[0]
    yield Finding(
        "fabric_definition",
        Outcome.WARNING if is_short else Outcome.OK,
        f"open mirroring; default schema {schema}; old versions of the tables are kept for {days}",
        "Readers of older versions need more: set retentionInDays in the definition." if is_short else None,
    )


def _landing_zone(
    workspace: Workspace, database: MirroredDatabase, configured: str | None, options: StorageOptions
) -> Iterator[Finding]:
    named = names_in_address(configured or "")
    if configured is not None and named is None:
        yield Finding(
            "fabric_landing_zone",
            Outcome.WARNING,
            f"MIRRORGATE_LANDING_ZONE is {configured}, which is not in OneLake: Fabric does not read it",
            f"Set it to {database.landing_zone}.",
        )
    elif is_of_another(configured, workspace, database):
        yield Finding(
            "fabric_landing_zone",
            Outcome.UNSAFE,
            "MIRRORGATE_LANDING_ZONE is that of another item, or of another workspace, than this database",
            f"Set it to {database.landing_zone}, or name the other database.",
        )
        return
    address = ZoneAddress(configured if configured and named else database.landing_zone, _briefly(options))
    try:
        address.check()
        address.check_credential()
        names = open_zone(address).names("")
    except (OSError, MirrorgateError) as failed:
        yield Finding(
            "fabric_landing_zone",
            Outcome.UNSAFE,
            f"{address.location} cannot be read: {failed}",
            _ONELAKE_REMEDY,
        )
        return
    folders = sum(not name.startswith(("_", ".")) for name in names)
    yield Finding("fabric_landing_zone", Outcome.OK, f"{address.location} is reachable; {folders} folders")


def is_of_another(landing_zone: str | None, workspace: Workspace, database: MirroredDatabase) -> bool:
    """Return whether an address in OneLake is that of another item, or of another workspace, than this database."""
    items: tuple[Workspace | MirroredDatabase, ...] = (workspace, database)
    pairs = zip(names_in_address(landing_zone or "") or (), items, strict=False)
    return any(given.casefold() not in (item.id.casefold(), item.name.casefold()) for given, item in pairs)


def _briefly(options: StorageOptions) -> StorageOptions:
    return replace(options, retry_seconds=min(5.0, options.retry_seconds))


def _mirroring(client: FabricClient) -> Iterator[Finding]:
    try:
        status = client.database_status()
        tables = client.tables_status() if status.state.is_running else []
    except MirrorgateError as failed:
        yield _failed("fabric_mirroring", failed)
        return
    known = STATES[status.state]
    outcome = Outcome.OK if status.state is DatabaseState.RUNNING else Outcome.WARNING
    outcome = Outcome.UNSAFE if status.state in _FAILED_STATES else outcome
    error = f": {status.error}" if status.error else ""
    yield Finding("fabric_mirroring", outcome, f"{status.raw}: {known.meaning}{error}", known.remedy)
    for table in tables:
        if trouble := table_trouble(table):
            remedy = remedy_for(table.error.whose if table.error else "unknown")
            yield Finding("fabric_table", Outcome.UNSAFE, f"{table.schema}.{table.name} {trouble}", remedy)
