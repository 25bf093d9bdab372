"""The endpoint of OneLake that tests run: its protocol, its mirroring, and clients that others wrote."""

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import httpx
import opendal
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError, ServiceResponseError
from azure.storage.filedatalake import DataLakeFileClient, FileSystemClient
from pyarrow import fs

from mirrorgate_zone.emulator import ITEM, LANDING_ZONE, WORKSPACE, Effect, Fault, OneLake, Trust, answer
from mirrorgate_zone.emulator.storage_tree import Request
from tests.support.onelake.clients import FixedToken, file_system
from tests.support.onelake.fixtures import NewOneLake
from tests.support.onelake.mirror import PROCESSED, Mirror
from tests.support.waiting import wait_until

NEW_ONLY = {"match_condition": MatchConditions.IfMissing}


@pytest.fixture
def workspace(onelake: OneLake, trust: Trust) -> FileSystemClient:
    return file_system(onelake, trust)


def at(workspace: FileSystemClient, path: str) -> DataLakeFileClient:
    return workspace.get_file_client(f"{LANDING_ZONE}/{path}")


def written(workspace: FileSystemClient, path: str, content: bytes = b"hello") -> DataLakeFileClient:
    file = at(workspace, path)
    file.create_file(**NEW_ONLY)
    file.append_data(content, 0)
    file.flush_data(len(content))
    return file


def rejection(call: Callable[[], Any]) -> tuple[int | None, str]:
    with pytest.raises(HttpResponseError) as caught:
        call()
    code = getattr(caught.value, "error_code", None)
    return caught.value.status_code, str(getattr(code, "value", code))


def rename(file: DataLakeFileClient, target: str, **conditions: Any) -> None:
    file.rename_file(f"{WORKSPACE[0]}/{LANDING_ZONE}/{target}", **conditions)


def test_a_written_file_reads_back_whole_and_in_ranges(workspace: FileSystemClient) -> None:
    file = written(workspace, "_a b/é.bin", b"0123456789")
    properties = file.get_file_properties()
    assert (properties.size, properties.metadata) == (10, {})
    assert file.download_file().readall() == b"0123456789"
    assert file.download_file(2, 3).readall() == b"234"
    assert rejection(lambda: file.download_file(10, 1)) == (416, "InvalidRange")
    assert workspace.get_directory_client(f"{LANDING_ZONE}/_a b").get_directory_properties().metadata == {
        "hdi_isfolder": "true"
    }


@pytest.mark.parametrize(("asked", "status"), [("bytes=5-2", 416), ("bytes=2", 400), ("bytes=0-1,3-4", 400)])
def test_what_is_no_range_of_the_file_is_rejected(
    onelake: OneLake, workspace: FileSystemClient, asked: str, status: int
) -> None:
    written(workspace, "_f", b"0123456789")
    request = Request("blob", "GET", f"{LANDING_ZONE}/_f", {}, {"x-ms-range": asked}, b"")
    assert onelake.answer(request).status == status


def test_metadata_given_at_creation_is_kept_forgotten_or_rejected(
    onelake: OneLake, workspace: FileSystemClient
) -> None:
    at(workspace, "_1").create_file(metadata={"attempt": "é"})
    badly_encoded = {"x-ms-properties": "attempt=é"}
    request = Request("dfs", "PUT", f"{LANDING_ZONE}/_0", {"resource": "file"}, badly_encoded, b"")
    assert onelake.answer(request).status == 400
    onelake.switches.user_metadata = "forgotten"
    at(workspace, "_2").create_file(metadata={"attempt": "x"})
    assert onelake.tree.find(f"{LANDING_ZONE}/_1").metadata == {"attempt": "é"}
    assert at(workspace, "_2").get_file_properties().metadata == {}
    onelake.switches.user_metadata = "rejected"
    assert rejection(lambda: at(workspace, "_3").create_file(metadata={"attempt": "x"}))[0] == 400


def test_creating_over_what_exists_is_rejected_when_asked_for(workspace: FileSystemClient) -> None:
    written(workspace, "_f")
    workspace.create_directory(f"{LANDING_ZONE}/_d")
    assert rejection(lambda: at(workspace, "_f").create_file(**NEW_ONLY)) == (409, "PathAlreadyExists")
    assert rejection(lambda: at(workspace, "_d").create_file(**NEW_ONLY)) == (409, "PathAlreadyExists")
    assert rejection(lambda: at(workspace, "_d").create_file()) == (409, "PathConflict")
    at(workspace, "_f").create_file()
    assert at(workspace, "_f").get_file_properties().size == 0


def test_nothing_can_be_made_below_a_plain_file(workspace: FileSystemClient) -> None:
    written(workspace, "_f")
    assert rejection(lambda: at(workspace, "_f/x").create_file()) == (409, "PathConflict")
    assert rejection(lambda: workspace.create_directory(f"{LANDING_ZONE}/_f/x/y")) == (409, "PathConflict")


def test_an_append_is_seen_only_after_a_flush_of_all_of_it(workspace: FileSystemClient) -> None:
    file = at(workspace, "_f")
    file.create_file()
    file.append_data(b"abc", 0)
    file.append_data(b"ghi", 6)
    assert file.get_file_properties().size == 0
    assert rejection(lambda: file.flush_data(9)) == (400, "InvalidFlushPosition")
    file.append_data(b"def", 3)
    file.append_data(b"def", 3)
    assert rejection(lambda: file.flush_data(8)) == (400, "InvalidFlushPosition")
    file.flush_data(9)
    assert file.download_file().readall() == b"abcdefghi"
    assert rejection(lambda: at(workspace, "_none").append_data(b"x", 0)) == (404, "PathNotFound")


def test_a_flush_under_an_old_etag_is_rejected(workspace: FileSystemClient) -> None:
    file = at(workspace, "_f")
    etag = file.create_file()["etag"]
    file.append_data(b"abc", 0)
    file.flush_data(3, etag=etag, match_condition=MatchConditions.IfNotModified)
    file.append_data(b"def", 3)
    late = rejection(lambda: file.flush_data(6, etag=etag, match_condition=MatchConditions.IfNotModified))
    assert late == (412, "ConditionNotMet")


def test_a_rename_moves_a_file_with_its_etag(workspace: FileSystemClient) -> None:
    file = written(workspace, "_a")
    etag = file.get_file_properties().etag
    rename(file, "b", source_etag=etag, source_match_condition=MatchConditions.IfNotModified, **NEW_ONLY)
    assert at(workspace, "b").get_file_properties().etag == etag
    assert rejection(lambda: rename(file, "c")) == (404, "SourcePathNotFound")


def test_a_rename_is_rejected_over_a_file_from_a_changed_source_and_into_nowhere(workspace: FileSystemClient) -> None:
    file, other = written(workspace, "_a"), written(workspace, "_b", b"other")
    assert rejection(lambda: rename(file, "_b", **NEW_ONLY)) == (409, "PathAlreadyExists")
    stale = {"source_etag": '"0x1"', "source_match_condition": MatchConditions.IfNotModified}
    assert rejection(lambda: rename(file, "c", **stale)) == (412, "SourceConditionNotMet")
    assert rejection(lambda: rename(file, "none/c")) == (404, "RenameDestinationParentPathNotFound")
    assert rejection(lambda: rename(file, "_b/c")) == (404, "RenameDestinationParentPathNotFound")
    assert other.download_file().readall() == b"other"
    rename(file, "_b")
    assert other.download_file().readall() == b"hello"


def test_the_condition_of_a_rename_may_be_ignored_or_rejected(onelake: OneLake, workspace: FileSystemClient) -> None:
    rejected: list[str | None] = []
    onelake.switches.rename_condition = "rejected"
    written(workspace, "_b")
    assert rejection(lambda: rename(written(workspace, "_a"), "_b", **NEW_ONLY)) == (400, "UnsupportedHeader")
    onelake.switches.rename_condition = "ignored"
    rename(
        at(workspace, "_a"),
        "_b",
        raw_response_hook=lambda response: rejected.append(response.http_response.headers.get("x-ms-rejected-headers")),
        **NEW_ONLY,
    )
    assert rejected == ["If-None-Match"]


def test_a_folder_is_renamed_with_all_that_is_in_it_unless_switched_off(
    onelake: OneLake, workspace: FileSystemClient
) -> None:
    written(workspace, "_d/deep/f")
    rename(at(workspace, "_d"), "t", **NEW_ONLY)
    assert at(workspace, "t/deep/f").get_file_properties().size == 5
    onelake.switches.folder_rename = False
    assert rejection(lambda: rename(at(workspace, "t"), "u"))[0] == 400


def test_a_listing_comes_in_pages_and_names_folders(onelake: OneLake, workspace: FileSystemClient) -> None:
    onelake.switches.page_size = 2
    for name in ("a", "b/c", "d"):
        written(workspace, name)
    entries = {path.name.rpartition("/")[2]: path.is_directory for path in workspace.get_paths(LANDING_ZONE, False)}
    assert entries == {"a": False, "b": True, "d": False}
    assert len(list(workspace.get_paths(LANDING_ZONE))) == 4
    assert rejection(lambda: list(workspace.get_paths(f"{LANDING_ZONE}/none"))) == (404, "PathNotFound")
    assert len([request for request in onelake.seen if request.operation == "list"]) == 5


def test_a_listing_may_be_stale_or_change_between_pages(onelake: OneLake, workspace: FileSystemClient) -> None:
    written(workspace, "a")
    written(workspace, "b")
    onelake.dfs.freeze_listing()
    written(workspace, "c")
    at(workspace, "a").delete_file()
    assert [path.name[-1] for path in workspace.get_paths(LANDING_ZONE)] == ["a", "b"]
    onelake.switches.stale_listing, onelake.switches.listing_changes, onelake.switches.page_size = False, True, 1
    assert [path.name[-1] for path in workspace.get_paths(LANDING_ZONE)] == ["b", "b", "c"]


def test_a_folder_is_deleted_whole_in_as_many_requests_as_it_takes(
    onelake: OneLake, workspace: FileSystemClient
) -> None:
    onelake.switches.delete_pages, onelake.switches.folder_in_use = 3, 1
    written(workspace, "d/f")
    folder = workspace.get_directory_client(f"{LANDING_ZONE}/d")
    assert rejection(folder.delete_directory) == (409, "PathInUse")
    folder.delete_directory()
    assert onelake.names("") == []
    assert rejection(folder.delete_directory) == (404, "PathNotFound")
    assert rejection(lambda: written(workspace, "d/f") and at(workspace, "d").delete_file()) == (
        409,
        "DirectoryNotEmpty",
    )


@pytest.mark.parametrize("path", [ITEM[0], f"{ITEM[0]}/Files", f"{ITEM[0]}/New"])
def test_what_fabric_manages_cannot_be_changed(onelake: OneLake, workspace: FileSystemClient, path: str) -> None:
    assert rejection(lambda: workspace.create_directory(path))[0] == 403
    assert rejection(lambda: workspace.get_directory_client(path).delete_directory())[0] in (403, 404)
    assert rejection(workspace.create_file_system)[0] == 403
    assert rejection(workspace.delete_file_system)[0] == 403
    assert workspace.exists()


def test_guids_or_names_address_the_same_but_not_mixed(onelake: OneLake, trust: Trust) -> None:
    written(file_system(onelake, trust), "f")
    onelake.workspace = (WORKSPACE[1], WORKSPACE[1])
    by_name = file_system(onelake, trust)
    assert by_name.get_file_client(f"{ITEM[1]}/Files/LandingZone/f").get_file_properties().size == 5
    assert rejection(by_name.get_file_client(f"{LANDING_ZONE}/f").get_file_properties)[0] == 400
    onelake.workspace = ("elsewhere", "elsewhere")
    assert rejection(file_system(onelake, trust).get_file_client("x").get_file_properties)[0] == 404


def test_who_has_no_token_or_a_newer_version_is_rejected(onelake: OneLake, trust: Trust) -> None:
    stranger = file_system(onelake, trust, credential=FixedToken("wrong"))
    assert rejection(at(stranger, "f").get_file_properties)[0] == 401
    onelake.switches.challenge = False
    assert rejection(at(stranger, "f").create_file)[0] == 401
    onelake.switches.newest_version = "2021-06-08"
    assert rejection(at(file_system(onelake, trust), "f").create_file)[0] == 400
    at(file_system(onelake, trust, api_version="2021-06-08"), "_f").create_file()


def test_access_control_is_not_changed_here(workspace: FileSystemClient) -> None:
    assert rejection(lambda: written(workspace, "_f").set_access_control(permissions="rwx------"))[0] == 400


def test_a_lease_keeps_others_from_writing(workspace: FileSystemClient) -> None:
    file = written(workspace, "_f")
    lease = file.acquire_lease(15)
    assert rejection(lambda: file.acquire_lease(15)) == (409, "LeaseAlreadyPresent")
    assert rejection(lambda: file.append_data(b"x", 5)) == (412, "LeaseIdMissing")
    file.append_data(b"x", 5, lease=lease)
    lease.release()
    file.flush_data(6)


def test_the_first_request_of_each_operation_on_each_path_may_fail(
    onelake: OneLake, workspace: FileSystemClient
) -> None:
    onelake.faults.first_of_each, onelake.faults.spared = answer(503, "ServerBusy"), frozenset({"head"})
    for path in ("_a", "_b"):
        assert rejection(at(workspace, path).create_file)[0] == 503
        at(workspace, path).create_file()
        at(workspace, path).get_file_properties()


@pytest.mark.parametrize(
    ("effect", "done"),
    [
        (Effect.RESET_BEFORE, False),
        (Effect.RESET_AFTER, True),
        (Effect.SILENT_BEFORE, False),
        (Effect.SILENT_AFTER, True),
    ],
)
def test_a_lost_answer_says_nothing_about_what_was_done(
    onelake: OneLake, workspace: FileSystemClient, effect: Effect, done: bool
) -> None:
    onelake.faults.plan("create", Fault(effect))
    with pytest.raises(ServiceResponseError):
        at(workspace, "_f").create_file()
    assert (onelake.names("") == ["_f"]) is done
    assert onelake.faults.left == 0


def test_a_late_request_is_done_after_the_one_that_repeats_it(onelake: OneLake, workspace: FileSystemClient) -> None:
    onelake.faults.plan("create", Fault(Effect.LATE))
    with pytest.raises(ServiceResponseError):
        at(workspace, "_f").create_file()
    assert onelake.names("") == []
    at(workspace, "_g").create_file()
    wait_until(lambda: onelake.names("") == ["_f", "_g"], within=30, what="the late request is done")


def test_planned_answers_come_in_order_with_their_headers(onelake: OneLake, workspace: FileSystemClient) -> None:
    onelake.faults.plan("create", answer(429, "TooManyRequests", retry_after="7"), answer(500, "InternalError"), skip=1)
    at(workspace, "_f").create_file()
    with pytest.raises(HttpResponseError) as busy:
        at(workspace, "_g").create_file()
    assert busy.value.response is not None
    assert (busy.value.status_code, busy.value.response.headers["Retry-After"]) == (429, "7")
    assert rejection(at(workspace, "_g").create_file) == (500, "InternalError")
    assert onelake.names("") == ["_f"]


def test_a_body_may_end_half_way(
    onelake: OneLake, workspace: FileSystemClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("azure.storage.blob._download.time.sleep", lambda _: None)
    file = written(workspace, "_f", b"0123456789")
    onelake.faults.plan("read", *[Fault(Effect.SHORT)] * 3)
    with pytest.raises(AzureError):
        file.download_file().readall()
    onelake.faults.plan("read", Fault(Effect.SHORT))
    assert file.download_file().readall() == b"0123456789"


def test_plain_http_is_answered_at_the_same_port(onelake: OneLake) -> None:
    address = onelake.address.replace("https:", "http:")
    assert httpx.get(f"{address}/{WORKSPACE[0]}", trust_env=False).status_code == 401


def test_a_plain_account_takes_any_path(new_onelake: NewOneLake, trust: Trust) -> None:
    account = new_onelake(account=True)
    file_system(account, trust).get_file_client("anything").create_file()
    assert account.tree.get("anything") is not None


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


METADATA = json.dumps({"keyColumns": ["id"]}).encode()


def parquet(**columns: list[Any]) -> bytes:
    sink = io.BytesIO()
    rows = len(next(iter(columns.values())))
    pq.write_table(pa.table({**columns, "__rowMarker__": pa.array([0] * rows, pa.int32())}), sink)
    return sink.getvalue()


def put(onelake: OneLake, path: str, content: bytes, *, replace: bool = False) -> None:
    """Make one file visible by a rename."""
    onelake.tree.put(f"{onelake.landing_zone}/{path}", content, new_only=not replace, metadata={})


def name(number: int) -> str:
    return f"{number:020d}.parquet"


def delete(onelake: OneLake, path: str) -> None:
    onelake.tree.delete(f"{onelake.landing_zone}/{path}", recursive=True, etag=None, lease=None)


def test_files_are_consumed_in_order_and_all_but_the_last_are_moved(onelake: OneLake) -> None:
    mirror = Mirror(onelake)
    put(onelake, "s.schema/t/_metadata.json", METADATA)
    for number in (1, 2, 3):
        put(onelake, f"s.schema/t/{name(number)}", parquet(id=[number, number * 10]))
    mirror.check()
    table = mirror.tables["s.schema/t"]
    assert [row["id"] for row in table.rows] == [1, 10, 2, 20, 3, 30]
    assert onelake.names("s.schema/t") == [name(3), PROCESSED, "_metadata.json"]
    assert onelake.names(f"s.schema/t/{PROCESSED}") == [name(1), name(2)]
    status = json.loads(onelake.tree.find(f"{onelake.item[0]}/Files/Monitoring/tables.json").content)
    assert status["tables"] == [
        {"sourceSchemaName": "s", "sourceTableName": "t", "status": "Replicating", "processedRowCount": 6}
    ]


def test_a_slow_mirror_takes_files_when_told_and_may_purge_them(onelake: OneLake) -> None:
    mirror = Mirror(onelake, eager=False, purges=True)
    put(onelake, "t/_metadata.json", METADATA)
    for number in (1, 2, 3):
        put(onelake, f"t/{name(number)}", parquet(id=[number]))
    mirror.consume(most=2)
    assert onelake.names("t") == [name(2), name(3), "_metadata.json"]
    mirror.consume()
    mirror.check()
    assert [row["id"] for row in mirror.tables["t"].rows] == [1, 2, 3]


def test_a_folder_that_goes_ends_the_table_and_a_new_one_begins_another(onelake: OneLake) -> None:
    mirror = Mirror(onelake)
    for lifetime in (1, 2):
        put(onelake, "t/_metadata.json", METADATA)
        put(onelake, f"t/{name(1)}", parquet(id=[lifetime]))
        assert mirror.tables["t"].rows == [{"id": lifetime, "__rowMarker__": 0}]
        delete(onelake, "t")
        assert "t" not in mirror.tables
    mirror.check()
    assert [table.rows[0]["id"] for table in mirror.dropped] == [1, 2]


def test_hidden_names_are_none_of_its_business(onelake: OneLake) -> None:
    mirror = Mirror(onelake)
    put(onelake, "_scratchPad/1/1/x.parquet", b"")
    put(onelake, "_partnerEvents.json", b"{}")
    put(onelake, "t/_metadata.json", METADATA)
    put(onelake, "t/_half", b"half")
    mirror.check()
    assert mirror.tables["t"].rows == []


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([(name(1), parquet(id=[1]))], "data before _metadata.json"),
        ([("_metadata.json", METADATA), (name(2), parquet(id=[1]))], r"a gap: \[1\] are missing before 2"),
        ([("_metadata.json", METADATA), (name(1), b"")], "file 1 is empty"),
        ([("_metadata.json", METADATA), (name(1), parquet(id=[1])[:-9])], "file 1 is not whole Parquet"),
        ([("_metadata.json", METADATA), *[(name(1), parquet(id=[n])) for n in (1, 2)]], "file 1 was changed"),
        ([("_metadata.json", METADATA), *[(name(n), parquet(id=[n])) for n in (1, 2, 1)]], "number 1 came back"),
        ([("_metadata.json", METADATA), ("stray.parquet", b"x")], "names that mirroring does not know"),
        ([("_metadata.json", METADATA), ("_metadata.json", b'{"keyColumns": ["x"]}')], "keyColumns changed"),
        ([("_metadata.json", b"{")], "_metadata.json is not whole JSON"),
        (
            [("_metadata.json", METADATA), (name(1), parquet(id=[1])), (name(2), parquet(id=["x"]))],
            "column id was int64, is string",
        ),
        (
            [("_metadata.json", METADATA), (name(1), parquet(id=[1], note=["x"])), (name(2), parquet(note=["x"]))],
            "column id is missing",
        ),
    ],
)
def test_what_would_stop_a_table_is_a_problem(onelake: OneLake, steps: list[tuple[str, bytes]], problem: str) -> None:
    mirror = Mirror(onelake)
    for path, content in steps:
        put(onelake, f"t/{path}", content, replace=True)
    with pytest.raises(AssertionError, match=f"t: {problem}"):
        mirror.check()


def test_a_visible_file_that_somebody_takes_away_is_a_problem(onelake: OneLake) -> None:
    mirror = Mirror(onelake)
    put(onelake, "t/_metadata.json", METADATA)
    put(onelake, f"t/{name(1)}", parquet(id=[1]))
    delete(onelake, f"t/{name(1)}")
    with pytest.raises(AssertionError, match="visible files went away"):
        mirror.check()
