"""A landing zone on NFS 4.1, which NFS-Ganesha serves: two clients, a server that is killed, and a lost mount.

NFS has no rename without replacing, so files are linked. A client keeps what it has looked up, and a repeated call gets
the answer of the repetition. The kernel's client is needed: others answer differently.
"""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa

from app.landing.local_zone import rename_without_replacing
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.model.gateway import Gateway, small_gateway
from tests.real.counterparts import debian_program, output_of
from tests.real.debezium import Rows, landed, send_rows
from tests.real.report import Report
from tests.support.http.server import free_port
from tests.support.postgres import sql
from tests.support.processes import start_program
from tests.support.small_drain import publish_pending, small_drain

TABLE: Final = "shop.orders"
CONFIGURATION: Final = """
NFS_CORE_PARAM {{
  Protocols = 4; NFS_Port = {port}; Bind_addr = 127.0.0.1; Enable_NLM = false; Enable_RQUOTA = false;
  mount_path_pseudo = true;
}}
NFSv4 {{ Grace_Period = 1; Lease_Lifetime = 5; RecoveryBackend = fs; RecoveryRoot = {folder}/recovery; }}
EXPORT {{
  Export_Id = 1; Path = {folder}/export; Pseudo = /zone; Access_Type = RW; Squash = No_Root_Squash; SecType = sys;
  Protocols = 4; Transports = TCP; FSAL {{ Name = VFS; }}
}}
"""


class Server:
    """NFS-Ganesha, which serves a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._program = debian_program("nfs-ganesha-vfs", "ganesha.nfsd")
        debian_program("nfs-common", "mount.nfs4")
        self._folder, self._port = folder, free_port()
        (folder / "export").mkdir(parents=True)
        (folder / "ganesha.conf").write_text(CONFIGURATION.format(port=self._port, folder=folder))
        self._process: subprocess.Popen[bytes] | None = None

    def version(self) -> str:
        """Return the program's name and version."""
        return f"NFS-Ganesha {output_of(self._program, '-v').partition('V')[2].split()[0]}"

    def start(self) -> None:
        """Start, and return once it serves."""
        folder = self._folder
        log = folder / "log"
        log.unlink(missing_ok=True)
        command = [self._program, "-F", "-f", folder / "ganesha.conf", "-L", log, "-p", folder / "pid", "-N", "EVENT"]
        self._process = start_program(
            folder / "output", *command, ready=lambda: log.exists() and "NFS SERVER INITIALIZED" in log.read_text()
        )

    def kill(self) -> None:
        """Kill the server, as a crash of its machine would; what it has acknowledged is in its folder."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def mount(self, place: Path) -> None:
        """Mount the folder with its own cache. Skips with the reason if the kernel cannot."""
        place.mkdir(parents=True, exist_ok=True)
        options = f"vers=4.1,port={self._port},proto=tcp,hard,nosharecache,timeo=10"
        command = ["mount", "-t", "nfs4", "-o", options, "127.0.0.1:/zone", str(place)]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if told.returncode:
            pytest.skip(f"the kernel mounts no NFS: {told.stderr.strip()}")

    @contextmanager
    def mounted(self, place: Path) -> Iterator[None]:
        """Mount the folder while the block runs."""
        self.mount(place)
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "server")
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def mounted_gateway(server: Server, database_url: str, tmp_path: Path) -> Iterator[Gateway]:
    """Yield a gateway whose landing zone is mounted."""
    with server.mounted(tmp_path / "landing-zone"), small_gateway(database_url, tmp_path) as gateway:
        gateway.register(TABLE, {"id": "int64", "note": "string"})
        yield gateway
        gateway.close()


def send(gateway: Gateway, number: int, rows: Rows) -> None:
    """Send a batch of rows, and add them to `rows`."""
    batch = [{"id": 100 * number + place, "note": f"batch {number}"} for place in range(100)]
    rows |= send_rows(gateway, TABLE, batch)


def check_landed(gateway: Gateway, rows: Rows) -> None:
    gateway.until_published(TABLE)
    assert landed(gateway, TABLE, "id") == rows


def test_two_drains_that_take_the_table_from_each_other_publish_each_row_once(
    server: Server, mounted_gateway: Gateway, database_url: str, engine: sa.Engine, tmp_path: Path, report: Report
) -> None:
    rows: Rows = {}
    with server.mounted(tmp_path / "other"), small_drain(database_url, tmp_path / "other") as other:
        for number in range(6):
            send(mounted_gateway, number, rows)
            sql.run(engine, "DELETE FROM mirrorgate.workers")  # the lease of the owner has run out
            if number % 2:
                other.renew_lease(60)
                publish_pending(other)
            else:
                mounted_gateway.publish()
        files = sorted((tmp_path / "other").glob("**/*.parquet"))
        with pytest.raises(FileExistsError):
            rename_without_replacing(files[0], files[1])
    check_landed(mounted_gateway, rows)
    report.add(server.version(), len(rows))


def test_rows_land_once_if_the_server_is_killed_while_they_are_published(
    server: Server, mounted_gateway: Gateway, report: Report
) -> None:
    rows: Rows = {}
    with ThreadPoolExecutor(1) as pool:
        for number in range(5):
            send(mounted_gateway, number, rows)
            published = pool.submit(mounted_gateway.publish)
            server.kill()
            server.start()
            published.result(180)
    check_landed(mounted_gateway, rows)
    report.add(server.version(), len(rows))


def test_a_lost_mount_stops_publication_until_it_is_back(
    server: Server, mounted_gateway: Gateway, tmp_path: Path, report: Report
) -> None:
    rows: Rows = {}
    send(mounted_gateway, 0, rows)
    mounted_gateway.publish()
    send(mounted_gateway, 1, rows)
    zone = tmp_path / "landing-zone"
    subprocess.run(["umount", "--lazy", zone], check=True)
    with pytest.raises(TemporarilyUnavailable) as away:
        mounted_gateway.publish()
    assert away.value.code is Code.LANDING_ZONE_AWAY
    assert list(zone.iterdir()) == []
    server.mount(zone)
    check_landed(mounted_gateway, rows)
    report.add(server.version(), len(rows))
