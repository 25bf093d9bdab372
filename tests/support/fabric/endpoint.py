"""The emulator's REST API without storage, for tests that set its states themselves."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mirrorgate_zone.emulator.emulator import ApiSite, identity_environment
from mirrorgate_zone.emulator.fabric_api import FabricService
from mirrorgate_zone.emulator.onelake import Server


class Fabric:
    """The API at `api` with its `service`, and what a client's environment needs to reach and trust it."""

    def __init__(self, service: FabricService, api: str, authority_file: Path) -> None:
        self.service, self.api = service, api
        self.environment = {"MIRRORGATE_FABRIC_API": api, **identity_environment(api, authority_file)}


@contextmanager
def served(service: FabricService, context: ssl.SSLContext, authority_file: Path) -> Iterator[Fabric]:
    """Serve the API and the identity while the block runs."""
    server = Server(None, ApiSite(service).answer)
    server.start(context)
    try:
        yield Fabric(service, server.address, authority_file)
    finally:
        server.stop()
    assert not server.failures, server.failures
