"""The sockets: the API over TLS, and a managed identity that issues tokens, as Azure's App Service has one."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from app.emulator.fabric_api import FabricService
from tests.support.http.stand_in import StandIn, serving

IDENTITY_HEADER = "test-identity"


class Fabric:
    """The API at `api` with its `service`, and what a client's environment needs to reach and trust it."""

    def __init__(self, service: FabricService, api: str, identity: str, authority_file: Path) -> None:
        self.service, self.api = service, api
        self.environment = {
            "MIRRORGATE_FABRIC_API": api,
            "SSL_CERT_FILE": str(authority_file),
            "REQUESTS_CA_BUNDLE": str(authority_file),
            "IDENTITY_ENDPOINT": identity,
            "IDENTITY_HEADER": IDENTITY_HEADER,
            "AZURE_TOKEN_CREDENTIALS": "ManagedIdentityCredential",
        }


@contextmanager
def served(service: FabricService, context: ssl.SSLContext, authority_file: Path) -> Iterator[Fabric]:
    """Serve the API and the identity while the block runs."""

    class Api(StandIn):
        def respond(self) -> None:
            parts = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = service.answer(self.command, parts.path, dict(parse_qsl(parts.query)), headers, self.body())
            if answer.lost:
                self.close_connection = True
                self.connection.close()
                return
            content = b"" if answer.body is None else json.dumps(answer.body).encode()
            kind = {} if answer.body is None else {"Content-Type": "application/json; charset=utf-8"}
            named = {name.replace("-", "_"): value for name, value in (answer.headers | kind).items()}
            self.answer(answer.status, content, **named)

    class Identity(StandIn):
        def respond(self) -> None:
            query = dict(parse_qsl(urlsplit(self.path).query))
            if self.headers["X-IDENTITY-HEADER"] != IDENTITY_HEADER:
                return self.answer(401, b"{}")
            token, ends = service.issue(query["resource"]), int(time.time()) + 3600
            body = {"access_token": token, "expires_on": str(ends), "resource": query["resource"]}
            content = json.dumps({**body, "token_type": "Bearer"}).encode()
            return self.answer(200, content, Content_Type="application/json")

    with serving(Identity) as identity, ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Fabric(service, f"https://127.0.0.1:{server.server_port}", identity, authority_file)
        finally:
            server.shutdown()
            thread.join()
