"""Other accounts of the machine can neither reach the sockets of Spark and its Python workers nor its RPC port."""

import json
import os
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.local.locked_tempdir import locked_tempdir
from app.settings import Settings
from mirrorgate.errors import InvariantBroken
from spark_jobs.spark import session as spark_session
from tests.support.processes import REPOSITORY

pytestmark = pytest.mark.skipif(not Path("/proc/net/unix").exists(), reason="looks for sockets in /proc")

PROGRAM = """
import json, os, sys
os.umask(0)
from app.settings import Settings
from spark_jobs.spark.session import running_spark
from tests.spark.cluster.test_sockets import socket_files, use
with running_spark(Settings(spark_master="local[1]")) as spark:
    use(spark)
    assert any(file.name.startswith("blockmgr-") for file in next(iter(socket_files())).parent.iterdir())
    print(json.dumps([[str(file.parent), file.stat().st_mode, file.parent.stat().st_mode] for file in socket_files()]))
    sys.stdout.flush()
"""


def use(spark: SparkSession) -> None:
    """Run a job whose rows go to Python workers and back to the driver."""
    assert spark.sparkContext.parallelize([0, 1], 2).mapPartitions(iter).collect() == [0, 1]


def socket_files() -> set[Path]:
    """Return the sockets with a path that this process and those that it started have open."""
    lines = [line.split(maxsplit=7) for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    paths = {fields[6]: fields[7] for fields in lines if len(fields) == 8 and fields[7].startswith("/")}
    inodes = {inode for pid in family() for inode in socket_inodes(pid)}
    return {Path(path) for inode, path in paths.items() if inode in inodes}


def family() -> list[int]:
    """Return this process and those that it started; some can end meanwhile, as idle Python workers do."""
    found = [os.getpid()]
    for pid in found:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, children.read_text().split())
    return found


def socket_inodes(pid: int) -> set[str]:
    """Return the sockets that a process has open; none of one that has ended."""
    links = []
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                links.append(str(entry.readlink()))
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}


def is_private(folder: Path) -> bool:
    found = folder.stat()
    return stat.S_IMODE(found.st_mode) == 0o700 and found.st_uid == os.geteuid()


def test_every_socket_of_the_drain_lies_in_a_folder_that_only_its_account_enters(spark: SparkSession) -> None:
    use(spark)
    files = {file for file in socket_files() if file.suffix == ".sock"}
    assert files
    assert [file for file in files if not is_private(file.parent)] == []


RPC_REQUEST, RPC_RESPONSE = 3, 4


def ask_driver(spark: SparkSession, endpoint: str) -> bytes:
    """Ask the driver's RPC port without the secret whether an endpoint exists; return what it answers."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    question = getattr(jvm.org.apache.spark.rpc.netty, "RpcEndpointVerifier$CheckExistence")(endpoint)
    written = jvm.java.io.ByteArrayOutputStream()
    jvm.java.io.ObjectOutputStream(written).writeObject(question)
    port = int(str(spark.sparkContext.getConf().get("spark.driver.port")))
    host, name = b"127.0.0.1", b"endpoint-verifier"
    receiver = struct.pack(">?H", True, len(host)) + host + struct.pack(">iH", port, len(name)) + name
    body = struct.pack(">?", False) + receiver + bytes(written.toByteArray())
    message = struct.pack(">bqi", RPC_REQUEST, 1, len(body)) + body
    with socket.create_connection((host.decode(), port), timeout=20) as client:
        client.sendall(struct.pack(">q", 8 + len(message)) + message)
        return client.recv(4096)


def test_a_client_without_the_secret_cannot_use_the_rpc_port_of_the_driver(spark: SparkSession) -> None:
    answer = ask_driver(spark, "LocalSchedulerBackendEndpoint")
    assert answer[8:9] != bytes([RPC_RESPONSE])


def test_the_secret_is_in_no_argument_and_no_environment(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.authenticate") == "true"
    for pid in family():
        with suppress(ProcessLookupError, FileNotFoundError):  # it may end meanwhile
            shown = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
            assert b"authenticate.secret" not in shown
            assert b"_SPARK_AUTH_SECRET" not in shown


def test_every_tcp_socket_of_the_drain_listens_on_loopback_only(spark: SparkSession) -> None:
    use(spark)
    inodes = {inode for pid in family() for inode in socket_inodes(pid)}
    listening = [*listeners("tcp"), *listeners("tcp6")]
    addresses = {address for address, inode in listening if inode in inodes}
    assert addresses
    assert [address for address in addresses if not address.is_loopback] == []


def listeners(protocol: str) -> Iterator[tuple[IPv4Address | IPv6Address, str]]:
    """Yield each listening socket of this machine: its address and inode."""
    for line in Path(f"/proc/net/{protocol}").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A":
            words = bytes.fromhex(fields[1].partition(":")[0])
            packed = b"".join(words[start : start + 4][::-1] for start in range(0, len(words), 4))
            found = ip_address(packed)
            yield (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found, fields[9]


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Yield a folder in place of the system's temporary one; its path is short, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="m g ", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["returns", "is killed"])
def test_with_no_umask_at_all_too_and_nothing_is_left_at_the_end_or_the_next_start(
    temporary: Path, ending: str
) -> None:
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": str(REPOSITORY)}
    ends = "" if ending == "returns" else "    os.kill(os.getpid(), 9)\n"
    ran = subprocess.run([sys.executable, "-c", PROGRAM + ends], env=environment, capture_output=True, text=True)
    sockets = next(json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[["))
    assert any(stat.S_IMODE(socket) == 0o777 for _, socket, _ in sockets)
    assert {stat.S_IMODE(folder) for _, _, folder in sockets} == {0o700}
    (folder,) = {Path(folder) for folder, _, _ in sockets}
    assert folder.parent == temporary
    assert folder.exists() == (ending == "is killed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        with locked_tempdir("spark"):
            assert not folder.exists()
    assert [*temporary.iterdir()] == []


@pytest.mark.parametrize(("master", "has_folder"), [(None, True), ("local[2]", True), ("spark://master:7077", False)])
def test_only_where_all_of_spark_is_on_this_machine_a_folder_is_named(
    monkeypatch: pytest.MonkeyPatch, master: str | None, has_folder: bool
) -> None:
    """Executors elsewhere do not have it."""

    def asked(builder: SparkSession.Builder) -> SparkSession:
        raise ConnectionError("spark.python.unix.domain.socket.dir" in builder._options)

    monkeypatch.setattr(spark_session, "_launch_jvm", lambda *_: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", asked)
    monkeypatch.setattr(SparkSession, "builder", SparkSession.Builder())
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    with pytest.raises(InvariantBroken) as found, spark_session.running_spark(Settings(spark_master=master)):
        pass
    assert repr(found.value.__cause__) == f"ConnectionError({has_folder})"
