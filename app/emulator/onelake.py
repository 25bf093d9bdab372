"""The whole endpoint: its addresses, its authentication, and the routing of requests."""

import ssl
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import trustme

from app.emulator.blob import Blob
from app.emulator.dfs import Aliases, Dfs
from app.emulator.faults import Faults, Switches
from app.emulator.server import Server
from app.emulator.storage_tree import Rejected, Tree
from app.emulator.wire import Request, Response, error_response

WORKSPACE = ("6f1b1a52-0d7c-4a39-8f0e-3b5f6a1c9d01", "Sales workspace")
ITEM = ("c2a7f4de-51b8-4b7e-9c35-7d90e1f2a604", "orders.MirroredDatabase")
TOKEN = "test-token"
LANDING_ZONE = f"{ITEM[0]}/Files/LandingZone"
HOSTS = {"dfs": "onelake.dfs.fabric.microsoft.com", "blob": "onelake.blob.fabric.microsoft.com"}
ACCOUNT_HOSTS = {"dfs": "account.dfs.core.windows.net", "blob": "account.blob.core.windows.net"}


@dataclass
class OneLake:
    """One workspace with one mirrored database, served over TLS on 127.0.0.1; requests are told apart by Host.

    `address` is where it listens; clients ask for the hosts of production there. `account` makes it a plain
    storage account with one container instead.
    """

    account: bool = False
    switches: Switches = field(default_factory=Switches)
    faults: Faults = field(default_factory=Faults)
    tokens: set[str] = field(default_factory=lambda: {TOKEN})
    seen: list[Request] = field(default_factory=list)
    """Every request that was let in, in the order of arrival."""

    def __post_init__(self) -> None:
        self.workspace = ("container", "container") if self.account else WORKSPACE
        self.item = ("", "") if self.account else ITEM
        self.tree = Tree([] if self.account else [ITEM[0], f"{ITEM[0]}/Files", f"{ITEM[0]}/Tables"])
        self.aliases = Aliases(self.workspace, self.item)
        self.dfs = Dfs(self.tree, self.switches, self.aliases)
        self.blob = Blob(self.tree)
        self.closing = threading.Event()
        self.server = Server(self)

    @property
    def hosts(self) -> dict[str, str]:
        """The host of each service in production."""
        return ACCOUNT_HOSTS if self.account else HOSTS

    @property
    def landing_zone(self) -> str:
        """The zone's path below the workspace."""
        return "landing/zone" if self.account else LANDING_ZONE

    @property
    def url(self) -> str:
        """The zone's address as an operator would set it."""
        return f"abfss://{self.workspace[0]}@{self.hosts['dfs']}/{self.landing_zone}"

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self.server.port}"

    def route(self, method: str, target: str, headers: Mapping[str, str], body: bytes, service: str | None) -> Request:
        """Return the request that arrived. Raises Rejected for an unknown host or workspace."""
        raw_path, _, raw_query = target.partition("?")
        query = dict(parse_qsl(raw_query, keep_blank_values=True))
        host = headers.get("host", "").split(":")[0]
        account = self.hosts["dfs"].partition(".")[0]
        for name, known in self.hosts.items():
            if host in (known, f"{account}.{name}.localhost"):
                service = name
        workspace, _, path = raw_path.strip("/").partition("/")
        if service is None:
            raise Rejected(400, "InvalidUri", f"no service has the host {host}")
        path = self.aliases.path(unquote(workspace), unquote(path).strip("/")) if workspace else ""
        return Request(service, method, path, query, headers, body)

    def rejection(self, request: Request) -> Rejected | None:
        """Return what is wrong with the caller's credentials or with the API version."""
        scheme, _, credential = request.headers.get("authorization", "").partition(" ")
        if self.switches.account_keys and scheme == "SharedKey":
            return None
        if scheme != "Bearer" or credential not in self.tokens:
            challenge = "Bearer authorization_uri=https://login.microsoftonline.com/t/oauth2/authorize "
            challenge += "resource_id=https://storage.azure.com"
            headers = {"WWW-Authenticate": challenge} if self.switches.challenge else {}
            return Rejected(401, "InvalidAuthenticationInfo", "Authentication failed.", headers)
        version = request.headers.get("x-ms-version")
        if version is None:
            return Rejected(400, "MissingRequiredHeader", "x-ms-version")
        if version > self.switches.newest_version:
            return Rejected(400, "InvalidHeaderValue", "x-ms-version")
        return None

    def answer(self, request: Request) -> Response:
        """Do what is asked and answer it."""
        try:
            service = self.dfs if request.service == "dfs" else self.blob
            return service.answer(request)
        except Rejected as rejected:
            return error_response(request, rejected)
        except FileNotFoundError:  # the replicator has moved it
            return error_response(request, Rejected(404, "PathNotFound", "The specified path does not exist."))

    def file(self, path: str) -> bytes:
        """Content of a file below the landing zone, past all faults."""
        return self.tree.find(f"{self.landing_zone}/{path}").content

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder of the landing zone, bypassing all faults."""
        start = f"{self.landing_zone}/{folder}".rstrip("/")
        return [path[len(start) + 1 :] for path, _ in self.tree.below(start, recursive=False)]


@dataclass(frozen=True)
class Trust:
    """A certificate authority of the tests: the server's side, and the file that clients trust."""

    server: ssl.SSLContext
    authority_file: Path


@contextmanager
def certificates() -> Iterator[Trust]:
    """Create an authority, and a certificate for 127.0.0.1 and the production hosts."""
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    names = ["127.0.0.1", "localhost", "*.dfs.localhost", "*.blob.localhost", *HOSTS.values(), *ACCOUNT_HOSTS.values()]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, key_type=trustme.KeyType.ECDSA).configure_cert(context)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "authority.pem"
        authority.cert_pem.write_to_path(str(file))
        yield Trust(context, file)


@contextmanager
def served(endpoint: OneLake, trust: Trust) -> Iterator[OneLake]:
    """Run the endpoint; fail if a handler met something that it did not expect."""
    endpoint.server.start(trust.server)
    try:
        yield endpoint
    finally:
        endpoint.closing.set()
        endpoint.server.stop()
        endpoint.tree.close()
    assert not endpoint.server.failures, endpoint.server.failures
