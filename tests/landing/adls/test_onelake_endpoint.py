"""The endpoint rejects what OneLake rejects, as seen through the production SDK."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError, ServiceResponseError
from azure.storage.filedatalake import DataLakeFileClient, FileSystemClient

from mirrorgate_zone.emulator import ITEM, LANDING_ZONE, WORKSPACE, Effect, Fault, OneLake, Trust, answer
from mirrorgate_zone.emulator.storage_tree import Request
from tests.support.onelake.clients import FixedToken, file_system
from tests.support.onelake.fixtures import NewOneLake
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
