"""What Fabric's API keeps and how it answers: workspaces, mirrored databases, operations, states, roles and throttling.

Shapes and codes are those of the REST API specification (mirroredDatabase, platform, common), version v1.
"""

import base64
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from mirrorgate_zone.emulator.faults import Effect, Faults

HOST: Final = "api.fabric.microsoft.com"
AUDIENCE: Final = f"https://{HOST}"
STORAGE_AUDIENCE: Final = "https://storage.azure.com"
WORKSPACE_ID: Final = "6f1b1a52-0d7c-4a39-8f0e-3b5f6a1c9d01"
CAPACITY_ID: Final = "56bac802-080d-4f73-8a42-1b406eb1fcac"
_PASSING: Final = {"Initializing": "Initialized", "Starting": "Running", "Stopping": "Stopped"}
_ROLES: Final = ("None", "Viewer", "Contributor", "Member", "Admin")


@dataclass
class Answer:
    """One answer of the API."""

    status: int
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    lost: bool = False
    """The connection ends instead of the answer."""


class Rejection(Exception):
    """An `ErrorResponse`."""

    def __init__(self, status: int, code: str, message: str = "", **headers: str) -> None:
        super().__init__(code)
        body = {"requestId": str(uuid4()), "errorCode": code, "message": message or f"{code}.", "isRetriable": False}
        self.answer = Answer(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass
class Database:
    """One mirrored database; `polls` answers of a passing state come before the next state."""

    name: str
    parts: list[dict[str, str]]
    id: str = field(default_factory=lambda: str(uuid4()))
    status: str = "Initializing"
    error: dict[str, Any] | None = None
    tables: list[dict[str, Any]] = field(default_factory=list)
    sql_id: str = field(default_factory=lambda: str(uuid4()))
    synced: list[dict[str, Any]] | None = None
    """What a refresh of the SQL endpoint answers; None: success for each table."""
    refreshed: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of the refreshes that were asked for."""
    polls: int = 1
    started: int = 0
    left: int = 0

    def become(self, status: str) -> None:
        """Enter a state."""
        self.status, self.left = status, self.polls

    def polled(self) -> str:
        """Return the state, and continue with the next one after some polls."""
        now = self.status
        if now in _PASSING:
            self.left -= 1
            if self.left < 0:
                self.status = _PASSING[now]
                return self.status
        return now

    @property
    def mirroring(self) -> dict[str, Any]:
        """The content of `mirroring.json`."""
        payload = next(part["payload"] for part in self.parts if part["path"] == "mirroring.json")
        return dict(json.loads(base64.b64decode(payload)))

    @property
    def default_schema(self) -> str | None:
        """The schema of tables whose folder is in none, if the definition has one."""
        found = self.mirroring["properties"].get("target", {}).get("typeProperties", {}).get("defaultSchema")
        return None if found is None else str(found)


def table(name: str, status: str = "Replicating", *, rows: int = 6, schema: str = "dbo", **more: Any) -> dict[str, Any]:
    """Return one entry of getTablesMirroringStatus."""
    metrics = {
        "processedBytes": rows * 200,
        "processedRows": rows,
        "lastSyncDateTime": "2026-11-22T05:07:11.0663362Z",
        "lastSyncLatencyInSeconds": 15,
    }
    named = {"sourceObjectType": "Table", "sourceSchemaName": schema, "sourceTableName": name}
    return {**named, "status": status, "metrics": metrics, **more}


def sync(name: str, status: str = "Success", **more: Any) -> dict[str, Any]:
    """Return one entry of refreshMetadata, which names a table without its schema."""
    times = {"startDateTime": "2026-11-22T05:08:00.2708973Z", "endDateTime": "2026-11-22T05:08:04.9651741Z"}
    last = {"lastSuccessfulSyncDateTime": times["endDateTime"]} if status == "Success" else {}
    return {"tableName": name, "status": status, **times, **last} | more


@dataclass
class FabricService:
    """The API for one tenant with one workspace. Tests set the fields; requests arrive by `answer`."""

    workspace_name: str = "Sales workspace"
    role: str = "Contributor"
    capacity_state: str = "Active"
    has_capacity: bool = True
    page_size: int = 100
    slow_operations: int = 0
    """Polls that getDefinition and create take as long-running operations; 0: answered at once."""
    operation_error: dict[str, Any] | None = None
    faults: Faults = field(default_factory=Faults)
    fixed_token: str | None = None
    """A token for both audiences."""
    on_change: Callable[[], object] = lambda: None
    """Called after a database was created, changed or deleted."""
    remembers: bool = True
    """Whether `seen` gets each request."""
    onelake_host: str = "onelake.dfs.fabric.microsoft.com"
    next_ids: list[str] = field(default_factory=list)
    """Ids of the databases that are created next."""
    databases: dict[str, Database] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    """The audience of each token that is valid."""
    storage_tokens: set[str] = field(default_factory=set)
    """Tokens for OneLake, to be shared with its endpoint."""
    seen: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of each request, in the order of arrival."""
    planned: dict[str, deque[Answer]] = field(default_factory=dict)
    """Answers to the next requests of a call (the last part of the path), instead of the right one."""
    address: str = ""
    _operations: dict[str, tuple[int, Answer | None]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def issue(self, audience: str) -> str:
        """Return a new token for an audience."""
        token = f"token-{uuid4()}"
        self.tokens[token] = audience.rstrip("/")
        if self.tokens[token] == STORAGE_AUDIENCE:
            self.storage_tokens.add(token)
        return token

    def plan(self, call: str, *answers: Answer) -> None:
        """Give the next requests of a call (the last part of the path) these answers."""
        self.planned.setdefault(call, deque()).extend(answers)

    def throttle(self, call: str, seconds: int, *, times: int = 1) -> None:
        """Answer the next requests of a call with 429."""
        body = {"errorCode": "RequestBlocked", "message": "The request is blocked by the upstream service."}
        self.plan(call, *(Answer(429, body, {"Retry-After": str(seconds)}) for _ in range(times)))

    def add(self, name: str, status: str = "Running", *, parts: list[dict[str, str]] | None = None) -> Database:
        """Add a mirrored database."""
        database = Database(name, parts or [definition_part({"properties": {"source": {"type": "GenericMirror"}}})])
        if self.next_ids:
            database.id = self.next_ids.pop(0)
        database.status = status
        self.databases[database.id] = database
        return database

    def answer(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        """Answer one request, its path without the host."""
        with self._lock:
            try:
                if self.remembers:
                    self.seen.append((method, path))
                self._authorize(headers)
                segments = path.strip("/").split("/")
                if segments[:1] != ["v1"]:
                    raise Rejection(404, "EndpointNotFound")
                if planned := self.planned.get(segments[-1]):
                    instead = planned.popleft()
                    if not instead.lost:
                        return instead
                    self._route(method, segments[1:], query, headers, body)
                    return instead
                return self._meet(method, segments[1:], query, headers, body)
            except Rejection as rejected:
                return rejected.answer
            except (AttributeError, KeyError, TypeError, ValueError):  # JSON or a parameter of another form
                return Rejection(400, "InvalidInput", "The request is invalid.").answer

    def _meet(
        self, method: str, path: list[str], query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        """Answer a request, or meet a fault of `faults`."""
        fault = self.faults.next("head" if method == "GET" else "put", "/".join(path))
        if fault is not None and fault.effect is Effect.ANSWER:
            raise Rejection(429, "RequestBlocked", "The request is blocked.", Retry_After=fault.retry_after or "1")
        answer = self._route(method, path, query, headers, body)
        if method != "GET":
            self.on_change()
        return answer if fault is None else replace(answer, lost=True)

    def _authorize(self, headers: Mapping[str, str]) -> None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        is_valid = token and (token == self.fixed_token or self.tokens.get(token) == AUDIENCE)
        if scheme != "Bearer" or not is_valid or self.faults.has_expired(token, self.storage_tokens):
            if token != self.fixed_token:
                self.tokens.pop(token, None)
            challenge = 'Bearer realm="", authorization_uri="https://login.microsoftonline.com/common/oauth2/authorize"'
            raise Rejection(401, "InvalidToken", "Access token is invalid", WWW_Authenticate=challenge)

    def _route(
        self, method: str, path: list[str], query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        match method, path:
            case "GET", ["workspaces"]:
                visible = [] if self.role == "None" else [self._workspace()]
                return self._page("value", visible, query, path)
            case "GET", ["capacities"]:
                return self._page("value", [self._capacity()], query, path)
            case "GET", ["operations", operation]:
                return self._operation(operation)
            case "GET", ["operations", operation, "result"]:
                return self._result(operation)
            case _, ["workspaces", workspace, *rest]:
                if workspace != WORKSPACE_ID or self.role == "None":
                    raise Rejection(404, "WorkspaceNotFound", "The requested workspace was not found.")
                return self._in_workspace(method, rest, query, headers, body)
        raise Rejection(404, "EndpointNotFound")

    def _in_workspace(
        self, method: str, path: list[str], query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        match method, path:
            case "GET", []:
                return Answer(200, self._workspace())
            case "GET", ["mirroredDatabases"]:
                items = [self._item(one) for one in self.databases.values()]
                return self._page("value", items, query, ["workspaces", WORKSPACE_ID, *path])
            case "POST", ["mirroredDatabases"]:
                self._require("Contributor")
                return self._create(headers, body)
            case _, ["mirroredDatabases", identity, *call]:
                if identity not in self.databases:
                    raise Rejection(404, "ItemNotFound", "The requested item was not found.")
                return self._on_database(method, self.databases[identity], call, query, body)
            case "POST", ["sqlEndpoints", identity, "refreshMetadata"]:
                found = next((one for one in self.databases.values() if one.sql_id == identity), None)
                if found is None:
                    raise Rejection(404, "ItemNotFound", "The requested item was not found.")
                self._require("Contributor")
                return self._refresh(found, json.loads(body))
        raise Rejection(404, "EndpointNotFound")

    def _refresh(self, database: Database, request: dict[str, Any]) -> Answer:
        if not isinstance(request.get("recreateTables", False), bool) or "timeUnit" not in request.get("timeout", {}):
            raise Rejection(400, "InvalidInput", "The request is invalid.")
        database.refreshed.append(request)
        names = [one["sourceTableName"] for one in database.tables]
        now = datetime.now(UTC).isoformat()
        times = {"startDateTime": now, "endDateTime": now, "lastSuccessfulSyncDateTime": now}
        return self._long(Answer(200, {"value": database.synced or [sync(name, **times) for name in names]}))

    def _update(self, database: Database, body: bytes) -> Answer:
        parts = json.loads(body).get("definition", {}).get("parts", [])
        try:
            mirroring = Database(database.name, parts).mirroring
            target = mirroring["properties"]["target"]["typeProperties"]
        except (KeyError, StopIteration, ValueError):
            raise Rejection(400, "CorruptedPayload", "The provided payload is corrupted.") from None
        if not isinstance(target.get("enableDeltaChangeDataFeed", False), bool):
            raise Rejection(400, "CorruptedPayload", "The provided payload is corrupted.")
        others = [part for part in database.parts if part["path"] == ".platform"]  # without updateMetadata=true
        database.parts = [part for part in parts if part["path"] != ".platform"] + others
        return self._long(Answer(200))

    def _on_database(
        self, method: str, database: Database, call: list[str], query: Mapping[str, str], body: bytes
    ) -> Answer:
        match method, call:
            case "GET", []:
                return Answer(200, self._item(database))
            case "DELETE", []:
                self._require("Contributor")
                del self.databases[database.id]
                return Answer(200)
            case "POST", ["getDefinition"]:
                self._require("Contributor")
                return self._long(Answer(200, {"definition": {"parts": database.parts}}))
            case "POST", ["updateDefinition"]:
                self._require("Contributor")
                return self._update(database, body)
            case "POST", ["startMirroring"]:
                self._require("Contributor")
                if database.status == "Initializing":
                    raise Rejection(400, "OperationNotSupportedForItem", "The item is being initialized.")
                if database.status == "Stopping":
                    raise Rejection(400, "OperationNotSupportedForItem", "Mirroring is being stopped.")
                database.started += 1
                database.become("Starting")
                return Answer(200)
            case "POST", ["stopMirroring"]:
                self._require("Contributor")
                database.become("Stopping")
                return Answer(200)
            case "POST", ["getMirroringStatus"]:
                error = {"error": database.error} if database.error else {}
                status = "Paused" if self.faults.is_paused else database.polled()
                return Answer(200, {"status": status, **error})
            case "POST", ["getTablesMirroringStatus"]:
                if not database.status.startswith("Running") or self.faults.is_paused:
                    raise Rejection(400, "InvalidRequest", "Mirroring is not running.")
                path = ["workspaces", WORKSPACE_ID, "mirroredDatabases", database.id, *call]
                return self._page("data", database.tables, query, path)
        raise Rejection(404, "EndpointNotFound")

    def _create(self, headers: Mapping[str, str], body: bytes) -> Answer:
        if not headers.get("content-type", "").startswith("application/json"):
            raise Rejection(415, "UnsupportedMediaType")
        request = json.loads(body)
        parts = request.get("definition", {}).get("parts", [])
        try:
            database = Database(request["displayName"], parts)
            source = database.mirroring["properties"]["source"]["type"]
            target = database.mirroring["properties"]["target"]
        except (KeyError, StopIteration, ValueError):
            raise Rejection(400, "CorruptedPayload", "The provided payload is corrupted.") from None
        days = target["typeProperties"].get("retentionInDays", 7)
        is_wrong = source != "GenericMirror" or target["type"] != "MountedRelationalDatabase" or not 1 <= days <= 30
        if is_wrong or any(part.get("payloadType") != "InlineBase64" for part in parts):
            raise Rejection(400, "CorruptedPayload", "The provided payload is corrupted.")
        if any(one.name.casefold() == database.name.casefold() for one in self.databases.values()):
            raise Rejection(409, "ItemDisplayNameAlreadyInUse", "Requested item display name is already in use.")
        if self.next_ids:
            database.id = self.next_ids.pop(0)
        database.become("Initializing")
        self.databases[database.id] = database
        item = {name: value for name, value in self._item(database).items() if name != "properties"}
        return self._long(Answer(201, item))

    def _long(self, answer: Answer) -> Answer:
        """Answer at once, or as a long-running operation."""
        if not self.slow_operations:
            return answer
        operation = str(uuid4())
        self._operations[operation] = (self.slow_operations, answer)
        return Answer(202, None, self._operation_headers(operation))

    def _operation_headers(self, operation: str, result: str = "", **more: str) -> dict[str, str]:
        location = f"{AUDIENCE}/operations/{operation}{result}"  # the documented examples have no /v1
        return {"Location": location, "x-ms-operation-id": operation, "Retry-After": "20", **more}

    def _operation(self, operation: str) -> Answer:
        if operation not in self._operations:
            raise Rejection(404, "OperationNotFound")
        left, result = self._operations[operation]
        now = datetime.now(UTC).isoformat()
        times = {"createdTimeUtc": now, "lastUpdatedTimeUtc": now}
        if left > 1:
            self._operations[operation] = (left - 1, result)
            body = {"status": "Running", **times, "percentComplete": 100 // left}
            return Answer(200, body, self._operation_headers(operation))
        if self.operation_error:
            return Answer(200, {"status": "Failed", **times, "error": self.operation_error})
        body = {"status": "Succeeded", **times, "percentComplete": 100}
        return Answer(200, body, self._operation_headers(operation, "/result"))

    def _result(self, operation: str) -> Answer:
        _, result = self._operations.get(operation, (0, None))
        if result is None:
            raise Rejection(400, "OperationHasNoResult", "The operation has no result.")
        return Answer(200, result.body)

    def _page(self, member: str, items: list[dict[str, Any]], query: Mapping[str, str], path: list[str]) -> Answer:
        start = int(query.get("continuationToken", "0"))
        page = items[start : start + self.page_size]
        more: dict[str, Any] = {"continuationToken": None, "continuationUri": None}
        if start + self.page_size < len(items):
            token = str(start + self.page_size)
            uri = f"{AUDIENCE}/v1/{'/'.join(path)}?continuationToken={token}"
            more = {"continuationToken": token, "continuationUri": uri}
        return Answer(200, {member: page, **more})

    def _require(self, role: str) -> None:
        if _ROLES.index(self.role) < _ROLES.index(role):
            raise Rejection(403, "InsufficientPrivileges", "The caller does not have sufficient permissions.")

    def _workspace(self) -> dict[str, Any]:
        capacity = {"capacityId": CAPACITY_ID} if self.has_capacity else {}
        named = {"id": WORKSPACE_ID, "displayName": self.workspace_name, "description": "", "type": "Workspace"}
        return {**named, **capacity}

    def _capacity(self) -> dict[str, Any]:
        return {
            "id": CAPACITY_ID,
            "displayName": "F4 Capacity",
            "sku": "F4",
            "state": "Inactive" if self.faults.is_paused else self.capacity_state,
        }

    def _item(self, database: Database) -> dict[str, Any]:
        properties: dict[str, Any] = {
            "oneLakeTablesPath": f"https://{self.onelake_host}/{WORKSPACE_ID}/{database.id}/Tables",
            "sqlEndpointProperties": {
                "connectionString": "xxx.datawarehouse.fabric.microsoft.com",
                "id": database.sql_id,
                "provisioningStatus": "InProgress" if database.status == "Initializing" else "Success",
            },
        }
        if database.default_schema is not None:
            properties["defaultSchema"] = database.default_schema
        named = {"id": database.id, "type": "MirroredDatabase", "displayName": database.name, "description": ""}
        return {**named, "workspaceId": WORKSPACE_ID, "properties": properties}

    def calls(self) -> Iterator[str]:
        """Yield the last part of each path that was asked for."""
        return (path.rpartition("/")[2] for _, path in self.seen)


def definition_part(content: dict[str, Any]) -> dict[str, str]:
    """Return `mirroring.json` with this content, as a part of a definition."""
    payload = base64.b64encode(json.dumps(content).encode()).decode()
    return {"path": "mirroring.json", "payload": payload, "payloadType": "InlineBase64"}
