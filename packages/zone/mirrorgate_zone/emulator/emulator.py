"""The whole emulator: OneLake, Fabric's REST API, tokens, the replicator, SQL and faults at one address.

Everything is in one folder: the files of OneLake as they are, the databases in `databases.json`, and the certificate
authority in `authority.pem`. Requests to the API's own paths are answered here: `/v1/…` as Fabric's REST API, `/token`
as the managed identity of Azure's App Service, `POST /sql` and `PUT /_emulator/faults` for the emulator itself.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import structlog
from pydantic import ValidationError

from app.local.data_directory import DataDirectory
from app.local.locked_tempdir import locked_tempdir
from app.mirror.inspection.query import run_query
from app.mirror.target import MirrorTarget
from app.observability.periodic_thread import PeriodicThread
from mirrorgate.errors import Code, MirrorgateError, Misconfigured
from mirrorgate_zone.emulator.fabric_api import Answer, Database, FabricService, definition_part
from mirrorgate_zone.emulator.faults import FaultRates, Faults
from mirrorgate_zone.emulator.onelake import OneLake, Trust, certificates
from mirrorgate_zone.emulator.replicator import RETENTION_SECONDS, Replicator

log = structlog.get_logger()

TOKEN: Final = "emulator"
WORKSPACE: Final = ("6f1b1a52-0d7c-4a39-8f0e-3b5f6a1c9d01", "emulator")
DATABASE: Final = "mirrored"
_DATABASE_ID: Final = "c2a7f4de-51b8-4b7e-9c35-7d90e1f2a604"
_IDENTITY_HEADER: Final = "mirrorgate-emulator"
_TOKEN_SECONDS: Final = 3_600
_LOOK_SECONDS: Final = 0.2
_KEPT: Final = ("name", "parts", "id", "status", "sql_id", "started")


class ApiSite:
    """Answers what is not storage: the REST API, tokens, SQL and the setting of faults."""

    def __init__(self, service: FabricService, tables: Path | None = None) -> None:
        """Serve SQL over the databases below `tables`; without it, none."""
        self._service, self._tables = service, tables

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer a request; `target` is its path and query."""
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query))
        match method, parts.path.strip("/").split("/"):
            case "GET", ["token"]:
                return self._token(query, headers)
            case "POST", ["sql"]:
                return self._sql(query.get("database"), body)
            case "GET", ["_emulator", "faults"]:
                return Answer(200, self._service.faults.rates.model_dump())
            case "PUT", ["_emulator", "faults"]:
                return self._set_faults(body)
        return self._service.answer(method, parts.path, query, headers, body)

    def _token(self, query: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        if headers.get("x-identity-header") != _IDENTITY_HEADER:
            return Answer(401, {})
        ends = str(int(time.time()) + _TOKEN_SECONDS)
        resource = query.get("resource", "")
        named = {"access_token": self._service.issue(resource), "expires_on": ends, "resource": resource}
        return Answer(200, {**named, "token_type": "Bearer"})

    def _set_faults(self, body: bytes) -> Answer:
        try:
            self._service.faults.rates = FaultRates.model_validate_json(body)
        except ValidationError as error:
            return _wrong("InvalidInput", str(error))
        return Answer(200, self._service.faults.rates.model_dump())

    def _sql(self, database: str | None, body: bytes) -> Answer:
        """Run one SELECT over the Delta tables of a database, by default of the first one."""
        known = [*self._service.databases.values()]
        found = next((one for one in known if database in (None, one.id, one.name)), None)
        if self._tables is None or found is None:
            return _wrong("ItemNotFound", f"there is no database {database}", status=404)
        target = MirrorTarget(str(self._tables / found.id / "Tables"))
        try:
            with run_query(target, body.decode()) as result:
                rows = [list(row) for batch in result.batches for row in batch]
                text = json.dumps({"columns": result.columns, "rows": rows}, default=str)
                return Answer(200, json.loads(text, parse_constant=str))  # JSON has no NaN: it becomes a string
        except (MirrorgateError, UnicodeDecodeError) as error:
            return _wrong(str(getattr(error, "code", "bad_query")), str(error))


def _wrong(code: str, message: str, *, status: int = 400) -> Answer:
    return Answer(status, {"errorCode": code, "message": message})


def identity_environment(address: str, authority_file: Path) -> dict[str, str]:
    """Return the variables by which Azure's SDK trusts the address and gets tokens there."""
    return {
        "SSL_CERT_FILE": str(authority_file),
        "REQUESTS_CA_BUNDLE": str(authority_file),
        "IDENTITY_ENDPOINT": f"{address.replace('https:', 'http:')}/token",
        "IDENTITY_HEADER": _IDENTITY_HEADER,
        "AZURE_TOKEN_CREDENTIALS": "ManagedIdentityCredential",
    }


@dataclass(frozen=True)
class Addresses:
    """Where a running emulator is, as it prints it."""

    onelake: str
    """OneLake's DFS and blob service."""
    fabric: str
    """Fabric's REST API."""
    sql: str
    token: str
    """A bearer token for both services."""
    workspace: str
    database: str
    """Ids."""
    landing_zone: str
    certificate: str
    directory: str
    environment: dict[str, str]
    """Variables for a program that uses production's addresses, and for Mirrorgate."""


class Emulator:
    """A running emulator; `running` opens one."""

    def __init__(self, folder: Path, trust: Trust, *, faults: Faults, retention_seconds: float) -> None:
        """Open the databases of a folder, or create the first one."""
        self._kept = folder / "databases.json"
        faults.lasting_tokens = frozenset({TOKEN})
        self.service = FabricService(WORKSPACE[1], faults=faults, fixed_token=TOKEN, remembers=False)
        self.service.storage_tokens.add(TOKEN)
        self._read_databases()
        first = next(iter(self.service.databases.values()))
        self.onelake = OneLake(
            workspace=WORKSPACE,
            item=(first.id, f"{first.name}.MirroredDatabase"),
            folder=folder,
            faults=faults,
            tokens=self.service.storage_tokens,
            remembers=False,
        )
        self.onelake.server.api = ApiSite(self.service, self.onelake.tree.root).answer
        self.service.on_change = self._keep
        self._keep()
        self.replicator = Replicator(self.onelake, self.service, retention_seconds=retention_seconds)
        self.trust, self._folder = trust, folder

    @property
    def addresses(self) -> Addresses:
        """Where it is."""
        address, item = self.onelake.address, self.onelake.item
        proxied = {"HTTPS_PROXY": address.replace("https:", "http:"), "NO_PROXY": "127.0.0.1,localhost"}
        own = {
            "MIRRORGATE_LANDING_ZONE": self.onelake.url,
            "MIRRORGATE_STORAGE_ENDPOINT": address,
            "MIRRORGATE_FABRIC_API": address,
            "MIRRORGATE_FABRIC_WORKSPACE": WORKSPACE[0],
            "MIRRORGATE_FABRIC_DATABASE": item[0],
        }
        return Addresses(
            onelake=address,
            fabric=f"{address}/v1",
            sql=f"{address}/sql",
            token=TOKEN,
            workspace=WORKSPACE[0],
            database=item[0],
            landing_zone=self.onelake.url,
            certificate=str(self.trust.authority_file),
            directory=str(self._folder),
            environment=proxied | identity_environment(address, self.trust.authority_file) | own,
        )

    def _read_databases(self) -> None:
        """Read the databases of the folder; without any, create the first one. Raises Misconfigured `bad_setting`."""
        try:
            for stored in json.loads(self._kept.read_bytes()) if self._kept.exists() else ():
                self.service.databases[stored["id"]] = Database(**stored)
        except (ValueError, TypeError, KeyError):
            remedy = "Restore the file, or remove the directory to start with an empty emulator."
            raise Misconfigured(Code.BAD_SETTING, f"{self._kept} is damaged", remedy=remedy) from None
        if not self.service.databases:
            target = {"type": "MountedRelationalDatabase", "typeProperties": {"format": "Delta"}}
            properties = {"source": {"type": "GenericMirror", "typeProperties": {}}, "target": target}
            self.service.next_ids.append(_DATABASE_ID)
            self.service.add(DATABASE, parts=[definition_part({"properties": properties})])

    def _keep(self) -> None:
        """Write the databases, and create or remove the folders of items that a request has created or deleted."""
        known = self.service.databases
        for identity in [identity for identity in self.onelake.aliases.items if identity not in known]:
            self.onelake.remove_item(identity)
        for database in known.values():
            self.onelake.add_item(database.id, f"{database.name}.MirroredDatabase")
            (self.onelake.tree.root / database.id / "Files" / "LandingZone").mkdir(exist_ok=True)
        stored = json.dumps([{name: getattr(database, name) for name in _KEPT} for database in known.values()])
        new = self._kept.with_suffix(".new")
        new.write_text(stored)
        new.replace(self._kept)


@contextmanager
def running(
    directory: Path | None = None,
    *,
    port: int = 0,
    faults: Faults | None = None,
    retention_seconds: float = RETENTION_SECONDS,
) -> Iterator[Emulator]:
    """Run an emulator while the block runs, in a folder that is kept, or in a temporary one.

    Raise Misconfigured: `bad_setting` if the port is taken or `databases.json` is damaged, `already_running` if another
    emulator has the folder.
    """
    with ExitStack() as stack:
        if directory is None:
            folder = stack.enter_context(locked_tempdir("emulator"))
        else:
            folder = stack.enter_context(DataDirectory(directory, owner="an emulator")).path.resolve()
        trust = stack.enter_context(certificates(folder))
        emulator = Emulator(folder, trust, faults=faults or Faults(), retention_seconds=retention_seconds)
        try:
            emulator.onelake.server.start(trust.server, port)
        except OSError as error:
            remedy = "Stop the program that uses the port, or give another --port; 0 chooses a free one."
            raise Misconfigured(Code.BAD_SETTING, f"--port {port}: {error.strerror}", remedy=remedy) from error
        stack.callback(emulator.onelake.server.stop)
        met = emulator.service.faults
        stack.enter_context(
            PeriodicThread(
                "replicator",
                lambda: met.rates.slow_replication or _LOOK_SECONDS,
                emulator.replicator.run_once,
                on_failure=lambda error: log.warning("emulator_round_failed", detail=str(error)),
            )
        )
        yield emulator
