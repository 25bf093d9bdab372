"""Independent clients agree with the endpoint; each checks assumptions that the SDK and the endpoint may share.

All of them speak TLS to it and trust its authority through SSL_CERT_FILE. DuckDB's own Azure reader is an extension
that is not on the package index, so DuckDB reads here what another client fetched.
"""

import asyncio
from pathlib import Path

import duckdb
import opendal
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from mirrorgate_zone.emulator import OneLake, Trust
from tests.support.onelake.clients import file_system
from tests.support.onelake.fixtures import NewOneLake

KEY = "a2V5a2V5a2V5a2V5"
"""Any key will do: the endpoint does not check signatures."""


@pytest.fixture
def account(new_onelake: NewOneLake, trust: Trust, monkeypatch: pytest.MonkeyPatch) -> OneLake:
    """Give a plain storage account: these clients sign with an account key, which OneLake never takes."""
    monkeypatch.setenv("SSL_CERT_FILE", str(trust.authority_file))
    return new_onelake(account=True, account_keys=True)


def arrow(account: OneLake) -> fs.AzureFileSystem:
    port = account.server.port
    return fs.AzureFileSystem(
        "account",
        account_key=KEY,
        blob_storage_authority=f".blob.localhost:{port}",
        dfs_storage_authority=f".dfs.localhost:{port}",
    )


def test_arrow_finds_reads_moves_and_deletes(account: OneLake, trust: Trust) -> None:
    written = file_system(account, trust).get_file_client(f"{account.landing_zone}/a/x.bin")
    written.create_file()
    written.append_data(b"0123456789", 0)
    written.flush_data(10)
    store, root = arrow(account), f"container/{account.landing_zone}"
    assert [(info.base_name, info.is_file) for info in store.get_file_info(fs.FileSelector(root, recursive=True))] == [
        ("a", False),
        ("x.bin", True),
    ]
    with store.open_input_file(f"{root}/a/x.bin") as file:
        file.seek(4)
        assert file.read(3) == b"456"
    store.create_dir(f"{root}/b/c")
    store.move(f"{root}/a/x.bin", f"{root}/b/y.bin")
    assert account.names("b") == ["c", "y.bin"]
    assert store.get_file_info(f"{root}/a/x.bin").type == fs.FileType.NotFound
    store.delete_dir(f"{root}/b")
    assert account.names("") == ["a"]


def test_opendal_writes_reads_renames_and_lists(account: OneLake) -> None:
    async def use() -> list[str]:
        store = opendal.AsyncOperator(
            "azdls",
            endpoint=f"https://127.0.0.1:{account.server.port}",
            filesystem="container",
            root=f"/{account.landing_zone}",
            account_name="account",
            account_key=KEY,
        )
        await store.write("a b/é.bin", b"0123456789")
        assert await store.read("a b/é.bin") == b"0123456789"
        assert (await store.stat("a b/é.bin")).content_length == 10
        await store.rename("a b/é.bin", "y.bin")
        await store.create_dir("d/")
        paths = [entry.path async for entry in await store.list("/")]
        await store.delete("y.bin")
        return paths

    assert asyncio.run(use()) == ["/", "a b/", "d/", "y.bin"]
    assert account.names("") == ["a b", "d"]


def test_duckdb_reads_parquet_that_came_through(account: OneLake, trust: Trust, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "sent.parquet", row_group_size=2)
    sent = (tmp_path / "sent.parquet").read_bytes()
    file = file_system(account, trust).get_file_client("landing/x.parquet")
    file.create_file()
    for start in range(0, len(sent), 100):
        file.append_data(sent[start : start + 100], start)
    file.flush_data(len(sent))
    with arrow(account).open_input_stream("container/landing/x.parquet") as stream:
        (tmp_path / "fetched.parquet").write_bytes(stream.read())
    assert duckdb.sql(f"SELECT sum(id), count(*) FROM '{tmp_path}/fetched.parquet'").fetchall() == [(6, 3)]
