"""The calls of Fabric's API that open mirroring needs, for one workspace and one mirrored database.

`FabricClient` has the calls, and `open_fabric` makes a client from the settings. Workspace and database are given by id
or by name; a name is looked up once. Source: Microsoft Learn, "Fabric mirroring public REST API", and Fabric's REST API
specification, version v1, with the definitions `Workspace`, `Capacity` and `MirroredDatabase`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

from app.domain.fabric import (
    DatabaseState,
    DatabaseStatus,
    FabricFault,
    TableMirroring,
    TableSync,
    parse_database_status,
    parse_fault,
    parse_table,
    parse_table_sync,
    split_address,
)
from app.fabric.definition import Definition, changed_parts, definition_parts, item_files, parse_definition
from app.fabric.transport import (
    Clock,
    FabricAnswer,
    FabricRejected,
    Parsed,
    TokenSource,
    Transport,
    fabric_tokens,
    require_azure,
)
from app.settings import Settings
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable

_GUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ITEM_TYPE: Final = ".MirroredDatabase"
PUBLIC_ONELAKE: Final = "onelake.dfs.fabric.microsoft.com"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace. Without a capacity no mirrored database in it runs."""

    id: str
    name: str
    capacity_id: str | None


@dataclass(frozen=True, slots=True)
class MirroredDatabase:
    """A mirrored database. `tables_path` and the SQL endpoint are known once Fabric has provisioned it."""

    id: str
    name: str
    workspace_id: str
    tables_path: str | None = None
    default_schema: str | None = None
    sql_provisioning: str | None = None
    sql_endpoint_id: str | None = None

    @property
    def landing_zone(self) -> str:
        """The landing zone's address by GUIDs, as `MIRRORGATE_LANDING_ZONE` takes it."""
        host = urlsplit(self.tables_path or "").hostname or PUBLIC_ONELAKE
        return f"abfss://{self.workspace_id}@{host}/{self.id}/Files/LandingZone"

    @property
    def tables_address(self) -> str:
        """The address of the Delta tables that Fabric writes, as `mirrorgate verify --against` takes it."""
        return self.landing_zone.removesuffix("Files/LandingZone") + "Tables"


def is_id(text: str) -> bool:
    """Return whether a string is an id and not a name."""
    return _GUID.fullmatch(text) is not None


def item_name(text: str) -> str:
    """Return the display name of a name as OneLake's addresses have it: without the item's type."""
    return text.removesuffix(_ITEM_TYPE)


def names_in_address(landing_zone: str) -> tuple[str, str] | None:
    """Return workspace and database, ids or names, of a landing zone's address in OneLake; None for any other.

    The landing zone itself is checked where it is opened; this reads no more than both names.
    """
    parts = split_address(landing_zone)
    path = [unquote(part) for part in parts.path.split("/") if part]
    if "onelake" not in (parts.hostname or ""):
        return None
    if parts.scheme == "abfss" and parts.username:
        path.insert(0, unquote(parts.username))
    return (path[0], item_name(path[1])) if len(path) > 1 else None


def parse_workspace(entry: Mapping[str, object]) -> Workspace:
    """Read a workspace."""
    return Workspace(str(entry["id"]), str(entry.get("displayName") or ""), _text(entry.get("capacityId")))


def parse_database(entry: Mapping[str, object]) -> MirroredDatabase:
    """Read a mirrored database, of a list or alone."""
    found = entry.get("properties")
    properties: Mapping[str, object] = found if isinstance(found, Mapping) else {}
    sql = properties.get("sqlEndpointProperties")
    endpoint: Mapping[str, object] = sql if isinstance(sql, Mapping) else {}
    return MirroredDatabase(
        id=str(entry["id"]),
        name=str(entry.get("displayName") or ""),
        workspace_id=str(entry.get("workspaceId") or ""),
        tables_path=_text(properties.get("oneLakeTablesPath")),
        default_schema=_text(properties.get("defaultSchema")),
        sql_provisioning=_text(endpoint.get("provisioningStatus")),
        sql_endpoint_id=_text(endpoint.get("id")),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


Progress = Callable[[str, int | None], None]
"""Callback for the state of an operation or database, and the percentage that is complete, if Fabric says it."""

_POLL_SECONDS: Final = 5.0
_SUCCEEDED: Final = "Succeeded"
_FAILED: Final = "Failed"


def ignore(state: str, percent: int | None) -> None:
    """Report no progress."""


def finished(transport: Transport, answer: FabricAnswer, progress: Progress, wait_seconds: float) -> FabricAnswer:
    """Return an answer as it is, or for a 202 the result of its operation, empty if it has none.

    An answer 202 names an operation: by `x-ms-operation-id`, and by `Location`, of which only the id is used, because a
    token must not go to another address. Source: Microsoft Learn, "Long running operations" (Get Operation State, Get
    Operation Result), whose examples name Location without `/v1`.

    Raise FabricRejected for a failed operation, TemporarilyUnavailable for one that takes longer than `wait_seconds`;
    Fabric then continues it.
    """
    if answer.status != 202:
        return answer
    operation = _operation_id(answer)
    if operation is None:
        raise TemporarilyUnavailable(
            Code.FABRIC_UNAVAILABLE, "Fabric accepted the request without naming the operation that carries it out"
        )
    deadline = transport.clock.now() + wait_seconds
    while True:
        transport.clock.sleep(min(answer.retry_after(_POLL_SECONDS), max(0.0, deadline - transport.clock.now())))
        answer = transport.send("GET", f"operations/{operation}")
        state = str(answer.body.get("status") or "")
        percent = answer.body.get("percentComplete")
        progress(state, percent if isinstance(percent, int) else None)
        if state == _SUCCEEDED:
            return _result(transport, operation)
        if state == _FAILED:
            fault = parse_fault(answer.body.get("error")) or FabricFault("OperationFailed", "", "unknown")
            raise FabricRejected(Code.FABRIC_REJECTED, f"operation {operation} failed: {fault}", fault, 200)
        if transport.clock.now() >= deadline:
            raise TemporarilyUnavailable(
                Code.FABRIC_UNAVAILABLE, f"operation {operation} has not ended after {wait_seconds:g} seconds"
            )


def _result(transport: Transport, operation: str) -> FabricAnswer:
    """Return the result of an operation; empty for one without a result, which Fabric rejects."""
    try:
        return transport.send("GET", f"operations/{operation}/result")
    except FabricRejected as rejected:
        if rejected.status in (400, 404):
            return FabricAnswer(200, {})
        raise


def _operation_id(answer: FabricAnswer) -> str | None:
    named = answer.headers.get("x-ms-operation-id", "")
    path = urlsplit(answer.headers.get("Location", "")).path.rstrip("/").split("/")
    return next((text for text in (named, *reversed(path)) if is_id(text)), None)


_REMEDIES: Final = {
    "mirrored database": "Create it with `mirrorgate fabric init`, or check the name or id. A workspace on a paused "
    "capacity does not list its items: resume the capacity."
}
"""Remedies for names that are not found."""
_NAME_IN_USE: Final = "ItemDisplayNameAlreadyInUse"


class FabricClient:
    """One workspace, and one mirrored database in it. Close it, or use it as a context manager.

    Every method raises FabricRejected (`fabric_unauthorized`, `fabric_forbidden`, `fabric_not_found`,
    `fabric_rejected`), TemporarilyUnavailable (`fabric_throttled`, `fabric_unavailable`) and Misconfigured.
    """

    def __init__(
        self, transport: Transport, workspace: str | None, database: str | None, *, wait_seconds: float = 600.0
    ) -> None:
        """Use `transport`; wait for operations and state changes for at most `wait_seconds`."""
        self._transport = transport
        self._workspace, self._database = workspace, database
        self._wait_seconds = wait_seconds
        self._ids: dict[tuple[str, str], str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    @property
    def workspace_id(self) -> str:
        """The id of the workspace. Raise Misconfigured `fabric_not_found` for a name that no workspace has."""
        given = _required(self._workspace, "workspace", "MIRRORGATE_FABRIC_WORKSPACE")
        if is_id(given):
            return given
        return self._id_of("workspace", given, "workspaces")

    @property
    def database_id(self) -> str:
        """The id of the mirrored database. Raise Misconfigured `fabric_not_found` for a name that none has."""
        given = item_name(_required(self._database, "mirrored database", "MIRRORGATE_FABRIC_DATABASE"))
        if is_id(given):
            return given
        return self._id_of("mirrored database", given, f"workspaces/{self.workspace_id}/mirroredDatabases")

    @property
    def names_database(self) -> bool:
        """True if a mirrored database is given, by name or id."""
        return bool(self._database)

    def workspaces(self) -> list[Workspace]:
        """Return the workspaces in which the identity has a role."""
        return [*self._pages("GET", "workspaces", "value", parse_workspace)]

    def workspace(self) -> Workspace:
        """Return the workspace."""
        return self._transport.send("GET", f"workspaces/{self.workspace_id}").read(parse_workspace)

    def capacity_state(self, capacity_id: str) -> str | None:
        """Return Fabric's word for the state of a capacity, None where this identity may not see it."""
        entries = self._pages("GET", "capacities", "value", lambda one: (str(one["id"]), str(one.get("state") or "")))
        return next((state for known, state in entries if known.casefold() == capacity_id.casefold()), None)

    def find(self, name: str) -> MirroredDatabase | None:
        """Return the mirrored database of this name, None without one. Names differ by more than case."""
        found = self._pages("GET", f"workspaces/{self.workspace_id}/mirroredDatabases", "value", parse_database)
        return next((one for one in found if one.name.casefold() == name.casefold()), None)

    def database(self) -> MirroredDatabase:
        """Return the mirrored database."""
        return self._transport.send("GET", self._path()).read(parse_database)

    def definition(self, progress: Progress = ignore) -> Definition | None:
        """Return the database's definition, None for one that cannot be read. Needs the right to write the item."""
        answer = self._transport.send("POST", self._path("getDefinition"))
        return finished(self._transport, answer, progress, self._wait_seconds).read(parse_definition)

    def create(
        self, name: str, definition: Definition, *, description: str = "", progress: Progress = ignore
    ) -> tuple[MirroredDatabase, bool]:
        """Create a mirrored database. Return it, and whether it is new: one of this name may exist already.

        A lost answer does not lead to a second database, because Fabric rejects a name that is in use.
        """
        if existing := self.find(name):
            return existing, False
        body = {
            "displayName": name,
            "description": description,
            "definition": definition_parts(name, description, definition),
        }
        path, was_sent = f"workspaces/{self.workspace_id}/mirroredDatabases", False
        try:
            answer = self._transport.send("POST", path, body=body, repeatable=False)
            was_sent = True
            finished(self._transport, answer, progress, self._wait_seconds)
        except (FabricRejected, TemporarilyUnavailable) as failed:
            is_taken = isinstance(failed, FabricRejected) and failed.fault.code == _NAME_IN_USE
            is_unclear = isinstance(failed, TemporarilyUnavailable) and not was_sent
            created = self.find(name) if is_taken or is_unclear else None
            if created is None:
                raise
            return created, not is_taken
        created = self.find(name)
        if created is None:
            raise TemporarilyUnavailable(
                Code.FABRIC_UNAVAILABLE, f"Fabric has created the mirrored database {name} and does not list it yet"
            )
        return created, True

    def change_definition(self, change: Definition, progress: Progress = ignore) -> bool:
        """Change what `change` says, and nothing else. Return False if all of it is so already.

        Fabric replaces the definition as a whole: of two changes at the same time, one is lost.
        """
        answer = self._transport.send("POST", self._path("getDefinition"))
        found = finished(self._transport, answer, progress, self._wait_seconds).body
        try:
            parts = changed_parts(found, change)
        except ValueError as error:
            raise Misconfigured(
                Code.FABRIC_REJECTED, f"the definition of the mirrored database cannot be read: {error}"
            ) from None
        if parts is None:
            return False
        answer = self._transport.send("POST", self._path("updateDefinition"), body={"definition": parts})
        finished(self._transport, answer, progress, self._wait_seconds)
        return True

    def refresh_sql_endpoint(self, *, recreate: bool = False, progress: Progress = ignore) -> list[TableSync]:
        """Let the SQL analytics endpoint learn of new data, and return what it says of each table.

        With `recreate`, the endpoint drops its tables and creates them again. The caller needs the role Contributor.
        Raise Misconfigured `fabric_not_found` while Fabric has not provisioned the endpoint.
        """
        endpoint = self.database().sql_endpoint_id
        if endpoint is None:
            raise Misconfigured(
                Code.FABRIC_NOT_FOUND,
                "the mirrored database has no SQL analytics endpoint yet",
                remedy="Wait until `mirrorgate fabric status` shows another state than Initializing.",
            )
        body = {
            "recreateTables": recreate,
            "timeout": {"timeUnit": "Seconds", "value": max(1, int(self._wait_seconds))},
        }
        path = f"workspaces/{self.workspace_id}/sqlEndpoints/{endpoint}/refreshMetadata"
        answer = finished(self._transport, self._transport.send("POST", path, body=body), progress, self._wait_seconds)
        return answer.read(lambda found: [parse_table_sync(entry) for entry in found.get("value") or []])

    def item_files(self, progress: Progress = ignore) -> dict[str, bytes]:
        """Return the files of the database's definition by path, as Git and deployment tools have them."""
        database = self.database()
        answer = self._transport.send("POST", self._path("getDefinition"))
        found = finished(self._transport, answer, progress, self._wait_seconds).body
        return item_files(found, database.name, database.id)

    def delete(self) -> None:
        """Delete the mirrored database, and its landing zone and tables with it; one that is gone is as good."""
        try:
            self._transport.send("DELETE", self._path())
        except FabricRejected as rejected:
            if rejected.status != 404:  # what a repeat after a lost answer gets
                raise

    def start(self) -> None:
        """Ask Fabric to start mirroring; `wait_until` tells when it runs."""
        self._transport.send("POST", self._path("startMirroring"))

    def stop(self) -> None:
        """Ask Fabric to stop mirroring. A later start begins at the first file."""
        self._transport.send("POST", self._path("stopMirroring"))

    def database_status(self) -> DatabaseStatus:
        """Return the state of the mirrored database."""
        return self._transport.send("POST", self._path("getMirroringStatus")).read(parse_database_status)

    def tables_status(self) -> list[TableMirroring]:
        """Return the state of every table, of all pages; none unless the database runs."""
        try:
            return [*self._pages("POST", self._path("getTablesMirroringStatus"), "data", parse_table)]
        except FabricRejected as rejected:
            if rejected.code is Code.FABRIC_REJECTED and not self.database_status().state.is_running:
                return []
            raise

    def wait_until(self, *states: DatabaseState, left: DatabaseState, progress: Progress = ignore) -> DatabaseStatus:
        """Poll until the database has one of these states, or a lasting state other than `left`. Return its status.

        Raise TemporarilyUnavailable `fabric_unavailable` if neither is so after `wait_seconds`.
        """
        clock = self._transport.clock
        deadline = clock.now() + self._wait_seconds
        while True:
            status = self.database_status()
            progress(status.raw, None)
            is_at_rest = not status.state.is_passing and status.state not in (left, DatabaseState.UNKNOWN)
            if status.state in states or is_at_rest:
                return status
            if clock.now() >= deadline:
                raise TemporarilyUnavailable(
                    Code.FABRIC_UNAVAILABLE,
                    f"the mirrored database is {status.raw or 'in no state'} after {self._wait_seconds:g} seconds",
                    remedy="Fabric continues. `mirrorgate fabric status --watch` shows when the state changes.",
                )
            clock.sleep(_POLL_SECONDS)

    def _path(self, call: str = "") -> str:
        item = f"workspaces/{self.workspace_id}/mirroredDatabases/{self.database_id}"
        return f"{item}/{call}" if call else item

    def _id_of(self, kind: str, name: str, path: str) -> str:
        if (kind, name) not in self._ids:
            entries = self._pages("GET", path, "value", lambda one: (str(one["id"]), str(one.get("displayName") or "")))
            found = [known for known, displayed in entries if displayed.casefold() == name.casefold()]
            if not found:
                raise Misconfigured(
                    Code.FABRIC_NOT_FOUND,
                    f"this identity sees no {kind} of the name {name}",
                    remedy=_REMEDIES.get(kind),
                )
            if len(found) > 1:
                raise Misconfigured(
                    Code.FABRIC_NOT_FOUND,
                    f"{len(found)} of kind {kind} have the name {name}",
                    remedy=f"Give the id of the {kind}: its address in the portal has it.",
                )
            self._ids[kind, name] = found[0]
        return self._ids[kind, name]

    def _pages(
        self, method: str, path: str, member: str, parse: Callable[[Mapping[str, Any]], Parsed]
    ) -> Iterator[Parsed]:
        """Yield the entries of all pages. It uses the token of the next page, never the address beside it."""
        query: dict[str, str] | None = None
        while True:
            answer = self._transport.send(method, path, query=query)
            yield from answer.read(lambda body: [parse(one) for one in body.get(member) or []])
            token = answer.body.get("continuationToken")
            if not token or query == {"continuationToken": token}:
                return
            query = {"continuationToken": token}


def _required(value: str | None, what: str, variable: str) -> str:
    if value:
        return value
    raise Misconfigured(
        Code.BAD_SETTING,
        f"no {what} is given",
        remedy=f"Set {variable} to its name or id, or MIRRORGATE_LANDING_ZONE to the zone's address in OneLake.",
    )


_PATIENCE_SECONDS: Final = 60.0


def configured_names(settings: Settings) -> tuple[str | None, str | None]:
    """Return workspace and mirrored database, each by id or name: as set, else as the landing zone's address says."""
    workspace, database = names_in_address(settings.landing_zone or "") or (None, None)
    return settings.fabric_workspace or workspace, settings.fabric_database or database


def is_configured(settings: Settings) -> bool:
    """Return whether the settings name a mirrored database."""
    return all(configured_names(settings))


def open_fabric(
    settings: Settings,
    *,
    patience: float = _PATIENCE_SECONDS,
    wait_seconds: float = 600.0,
    tokens: TokenSource | None = None,
    clock: Clock | None = None,
) -> FabricClient:
    """Return a client of the workspace and mirrored database that the settings name; use it as a context manager.

    Nothing is sent yet. `patience` bounds the repeats of one request, `wait_seconds` the wait for an operation, both in
    seconds. Raise Misconfigured `extra_missing`.
    """
    if tokens is None:
        require_azure()
        tokens = fabric_tokens(settings.fabric_audience)
    workspace, database = configured_names(settings)
    transport = Transport(settings.fabric_api, tokens, patience=patience, clock=clock)
    return FabricClient(transport, workspace, database, wait_seconds=wait_seconds)
