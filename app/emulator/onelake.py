"""OneLake's storage services: their addresses, authentication, and the routing of requests."""

import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import trustme

from app.emulator.blob import Blob
from app.emulator.dfs import Aliases, Dfs
from app.emulator.fabric_api import HOST as API_HOST
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
    """One workspace with mirrored databases, served over TLS on 127.0.0.1.

    `address` is where it listens; clients ask for the hosts of production there. For a client that asks for an IP
    address, the form of a request tells the services apart. `account` makes it a plain storage account with one
    container instead.
    """

    account: bool = False
    workspace: tuple[str, str] = WORKSPACE
    """Id and name."""
    item: tuple[str, str] = ITEM
    """The first database: id and name."""
    folder: Path | None = None
    """Where the files are. None: a temporary folder."""
    switches: Switches = field(default_factory=Switches)
    faults: Faults = field(default_factory=Faults)
    tokens: set[str] = field(default_factory=lambda: {TOKEN})
    seen: list[Request] = field(default_factory=list)
    """Every request that was let in, in the order of arrival, with `remembers`."""
    remembers: bool = True
    on_done: Callable[[Request, Response], object] | None = None
    """Called with each request that was carried out, before another one is; for a journal."""

    def __post_init__(self) -> None:
        if self.account:
            self.workspace, self.item = ("container", "container"), ("", "")
        self.tree = Tree(self.folder)
        self.aliases = Aliases(self.workspace)
        if not self.account:
            self.add_item(*self.item)
        self.dfs = Dfs(self.tree, self.switches, self.aliases)
        self.blob = Blob(self.tree)
        self.server = Server(self)

    def add_item(self, identity: str, name: str) -> None:
        """Create the folders of an item that only Fabric creates."""
        self.aliases.items[identity] = name
        self.tree.manage([identity, f"{identity}/Files", f"{identity}/Tables"])

    def remove_item(self, identity: str) -> None:
        """Remove an item with all its files."""
        self.aliases.items.pop(identity, None)
        self.tree.remove_item(identity)

    def note(self, request: Request) -> None:
        """Remember a request that was let in."""
        if self.remembers:
            self.seen.append(request)

    @property
    def hosts(self) -> dict[str, str]:
        """The host of each service in production."""
        return ACCOUNT_HOSTS if self.account else HOSTS

    @property
    def landing_zone(self) -> str:
        """The zone's path below the workspace."""
        return "landing/zone" if self.account else f"{self.item[0]}/Files/LandingZone"

    @property
    def url(self) -> str:
        """The zone's address as an operator would set it."""
        return f"abfss://{self.workspace[0]}@{self.hosts['dfs']}/{self.landing_zone}"

    @property
    def address(self) -> str:
        """Where it listens."""
        return self.server.address

    def route(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
        """Return the request that arrived. Raises Rejected for an unknown workspace."""
        raw_path, _, raw_query = target.partition("?")
        query = dict(parse_qsl(raw_query, keep_blank_values=True))
        host = headers.get("host", "").split(":")[0]
        account = self.hosts["dfs"].partition(".")[0]
        service = _service(method, query, headers)
        for name, known in self.hosts.items():
            if host in (known, f"{account}.{name}.localhost"):
                service = name
        workspace, _, path = raw_path.strip("/").partition("/")
        path = self.aliases.path(unquote(workspace), unquote(path).strip("/")) if workspace else ""
        return Request(service, method, path, query, headers, body)

    def rejection(self, request: Request) -> Rejected | None:
        """Return what is wrong with the caller's credentials or with the API version."""
        scheme, _, credential = request.headers.get("authorization", "").partition(" ")
        if self.switches.account_keys and scheme == "SharedKey":
            return None
        if self.faults.is_paused:
            return Rejected(404, "FilesystemNotFound", "The specified filesystem does not exist.")
        if scheme != "Bearer" or credential not in self.tokens or self.faults.has_expired(credential, self.tokens):
            challenge = "Bearer authorization_uri=https://login.microsoftonline.com/t/oauth2/authorize "
            challenge += "resource_id=https://storage.azure.com"
            headers = {"WWW-Authenticate": challenge} if self.switches.challenge else {}
            return Rejected(401, "InvalidAuthenticationInfo", "Authentication failed.", headers)
        version = request.headers.get("x-ms-version")
        if version is None and request.service == "blob":  # the DFS service's reference calls it optional
            return Rejected(400, "MissingRequiredHeader", "x-ms-version")
        if version is not None and version > self.switches.newest_version:
            return Rejected(400, "InvalidHeaderValue", "x-ms-version")
        return None

    def answer(self, request: Request) -> Response:
        """Do what is asked and answer it."""
        if self.on_done is None:
            return self._carry_out(request)
        with self.tree.lock:
            response = self._carry_out(request)
            self.on_done(request, response)
            return response

    def _carry_out(self, request: Request) -> Response:
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


def _service(method: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    """Return the service that the Azure SDK means by a request, whatever host it names."""
    if "comp" in query or "restype" in query or "x-ms-blob-type" in headers:
        return "blob"
    is_read = method in ("GET", "HEAD") and not {"resource", "action"} & query.keys()
    return "blob" if is_read else "dfs"


@dataclass(frozen=True)
class Trust:
    """A certificate authority of this process: the server's side, and the file that clients trust."""

    server: ssl.SSLContext
    authority_file: Path


@contextmanager
def certificates(folder: Path | None = None) -> Iterator[Trust]:
    """Create an authority, and a certificate for 127.0.0.1 and the production hosts.

    The authority's file is in the folder, or in a temporary one until the block ends.
    """
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    names = ["127.0.0.1", "localhost", "*.dfs.localhost", "*.blob.localhost", *HOSTS.values(), *ACCOUNT_HOSTS.values()]
    names.append(API_HOST)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, key_type=trustme.KeyType.ECDSA).configure_cert(context)
    with tempfile.TemporaryDirectory() as temporary:
        file = (folder or Path(temporary)) / "authority.pem"
        authority.cert_pem.write_to_path(str(file))
        yield Trust(context, file)


@contextmanager
def served(endpoint: OneLake, trust: Trust) -> Iterator[OneLake]:
    """Run the endpoint; fail if a handler met something that it did not expect."""
    endpoint.server.start(trust.server)
    try:
        yield endpoint
    finally:
        endpoint.server.stop()
        endpoint.tree.close()
    assert not endpoint.server.failures, endpoint.server.failures
