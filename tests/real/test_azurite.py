"""The object bridge and `mirrorgate send` on Azure Blob Storage, with Azurite as the service."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import obstore
import pytest
import sqlalchemy as sa
from azure.storage.blob import BlobServiceClient
from obstore.store import AzureStore, from_url

from tests.api.calls import Gateway
from tests.api.commands import Terminal, staged
from tests.api.conftest import api_address, api_database, api_engine, gateway, terminal
from tests.api.objects.bridging import bridge_of
from tests.real.counterparts import AZURITE, azurite, npm_version
from tests.real.report import Report
from tests.support.http.faulty_proxy import Fault, faulty_proxy
from tests.support.http.server import free_port, listens
from tests.support.processes import program
from tests.support.waiting import wait_until

__all__ = ["api_address", "api_database", "api_engine", "gateway", "terminal"]

ACCOUNT, KEY = "real", "YSBrZXkgb25seSBmb3IgdGVzdHM="
COUNTERPART = f"Azurite {npm_version('azurite', AZURITE)}, Blob"
PAGE = 5000
"""Objects in a page of a listing of Azure."""
OBJECTS = PAGE + 200
TABLES = ("sales.a", "sales.b")


@dataclass(frozen=True)
class Container:
    """A container with `OBJECTS` objects; each 20th one has ten rows, and the others are empty."""

    url: str
    options: dict[str, str]
    store: AzureStore

    def put(self, numbers: range) -> None:
        async def upload(number: int) -> None:
            content = b"".join(b'{"id": %d}\n' % row for row in rows_of(number))
            await obstore.put_async(self.store, self.key(number), content)

        async def upload_all() -> None:
            for first in range(numbers.start, numbers.stop, 50):
                await asyncio.gather(*(upload(number) for number in range(first, min(first + 50, numbers.stop))))

        asyncio.run(upload_all())

    @staticmethod
    def key(number: int) -> str:
        return f"in/{TABLES[number % 2].replace('.', '/')}/{number:05d}.json"


def rows_of(number: int) -> range:
    """Return the rows of an object. Most have none, so that a run takes seconds and not minutes."""
    return range(number * 10, number * 10 + 10) if number // 2 % 20 == 0 else range(0)


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    port, folder = free_port(), tmp_path_factory.mktemp("azurite")
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    arguments = ["--blobPort", port, "--disableTelemetry", "--silent", "--skipApiVersionCheck", "--location", folder]
    environment = os.environ | {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}

    options: dict[str, Any] = {"cwd": folder, "environment": environment, "ready": lambda: listens(port)}
    with program(folder / "log.txt", azurite(), *arguments, **options):
        given = {"account_name": ACCOUNT, "account_key": KEY}
        with BlobServiceClient(endpoint, credential=given) as service:
            lake = service.create_container("lake")
            at = given | {"endpoint": endpoint}
            store = from_url("az://lake", config=at, client_options={"allow_http": True})
            assert isinstance(store, AzureStore)
            filled = Container("az://lake/in", at, store)
            filled.put(range(OBJECTS))
            assert [len(list(page)) for page in lake.list_blobs().by_page()] == [PAGE, OBJECTS - PAGE]
        yield filled


def ids(engine: sa.Engine, table: str) -> list[int]:
    return [row[0] for row in staged(engine, table)]


def test_the_bridge_reads_objects_of_several_pages_once_and_continues_after_a_restart(
    gateway: Gateway, api_address: str, api_engine: sa.Engine, container: Container, report: Report
) -> None:
    for table in TABLES:
        gateway.register(table, {"id": "int64"}, ["id"])
    bridge = bridge_of(api_address, container.url, "rows", "{schema}/{table}/…", options=container.options)
    with bridge.running():
        wait_until(lambda: min(map(bridge.done, TABLES)) > 100, within=120, what="some objects are read")
    partly = sum(map(bridge.done, TABLES))
    assert 0 < sum(table.objects for table in bridge.run().values()) < OBJECTS, f"after {partly} it continues"
    container.put(range(OBJECTS, OBJECTS + 10))
    assert sum(table.objects for table in bridge.run().values()) < PAGE
    for remainder, table in enumerate(TABLES):
        wanted = [row for number in range(remainder, OBJECTS + 10, 2) for row in rows_of(number)]
        assert ids(api_engine, table) == wanted
        report.add(COUNTERPART, len(wanted))


def test_send_reads_objects_of_several_pages_once_and_continues_after_it_gave_up(
    gateway: Gateway, terminal: Terminal, api_engine: sa.Engine, container: Container, report: Report
) -> None:
    gateway.register("t", {"id": "int64"}, ["id"])
    options = [part for name, value in container.options.items() for part in ("--option", f"{name}={value}")]
    given = ["send", f"{container.url}/", "--table", "t", "--format", "rows", "--producer", "p", *options]
    address = terminal.address
    with faulty_proxy(address) as proxy:
        proxy.faults = [*[Fault.NONE] * 20, *[Fault.LOST] * 9]
        terminal.address = proxy.url
        ended = terminal.run(*given, "--give-up-after", 0)
    assert ended.status == 3, ended.errors
    terminal.address = address
    sent = terminal.run(*given, "--json")
    assert sent.status == 0, sent.errors
    numbers = [int(str(item["path"])[-10:-5]) for page in obstore.list(container.store, "in") for item in page]
    by_path = sorted(numbers, key=container.key)
    wanted = [row for number in by_path for row in rows_of(number)]
    assert ids(api_engine, "t") == wanted
    report.add(COUNTERPART, len(wanted))
