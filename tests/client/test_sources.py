"""Folders and buckets as sources: tables in paths, names of unfinished files, orders, listings, and errors."""

from pathlib import Path

import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from mirrorgate import bucket as bucket_module
from mirrorgate import object_store as store_module
from mirrorgate.bucket import BucketStore
from mirrorgate.cli.send import check_readable
from mirrorgate.errors import Code, Misconfigured, RejectedInput, TemporarilyUnavailable
from mirrorgate.file_paths import FileNames, FileOrder, PathTemplate, TablePath, first_match, sort_key
from mirrorgate.folder import FolderStore, ObjectGone
from mirrorgate.object_store import open_store, read_small
from mirrorgate.send.job import given_files
from tests.api.objects.bridging import write


@pytest.mark.parametrize(
    ("template", "path", "table"),
    [
        ("{schema}/{table}/…", "sales/orders/2026/11/part-3.json", "sales.orders"),
        ("{schema}/{table}/...", "sales/orders/part-3.json", "sales.orders"),
        ("{schema}/{table}/", "sales/orders", None),
        ("{table}/", "orders/a", "orders"),
        ("{schema}.{table}/*.json", "sales.orders/part-3.json", "sales.orders"),
        ("{schema}.{table}/*.json", "sales.orders/2026/part-3.json", None),
        ("{schema}.{table}__ct/**", "dbo.orders__ct/20261122-1.csv.gz", "dbo.orders"),
        ("schema={schema}/table={table}/**", "schema=a/table=b.c/1", "a.b.c"),
        ("{table}_{date}.csv", "orders_20261122.csv", "orders"),
        ("**/{table}/*", "a/b/orders/1.json", "orders"),
        ("**/{table}/*", "orders/1.json", "orders"),
        ("{table}/{table}-*.json", "orders/orders-1.json", "orders"),
        ("{table}/{table}-*.json", "orders/items-1.json", None),
        ("a+(b)/{table}/*", "a+(b)/t/x", "t"),
        ("{mode}/{table}/*", "changes/t/x", None),
    ],
)
def test_a_template_finds_the_table_in_a_path(template: str, path: str, table: str | None) -> None:
    found = PathTemplate.parse(template).match(path)
    assert (found and found.table) == table


def test_a_path_can_give_parameters_and_the_first_template_that_matches_counts() -> None:
    templates = [PathTemplate.parse("{mode}/{table}/…"), PathTemplate.parse("{schema}/{table}/…")]
    assert first_match(templates, "snapshot/t/x") == TablePath("t", {"mode": "snapshot"})
    assert first_match(templates, "sales/t/x") == TablePath("sales.t")
    assert first_match(templates, "x") is None


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{schema}/…", r"has no \{table\}"),
        ("", "empty segment"),
        ("{schema}//{table}/x", "empty segment"),
        ("{schema}/{table}", r"ends with \{table\}"),
        ("{schema}{table}/x", "nothing between two placeholders"),
        ("{Table}/x", "cannot be read at '{Table}'"),
        ("{table/x", "cannot be read at '{'"),
    ],
)
def test_a_template_that_cannot_work_is_rejected_with_the_place(template: str, said: str) -> None:
    with pytest.raises(Misconfigured, match=said):
        PathTemplate.parse(template)


@given(st.text(alphabet="{}*/.tablesch_=…", max_size=30), st.text(alphabet="ab/._", max_size=12))
def test_any_text_is_a_template_or_a_clear_error(text: str, path: str) -> None:
    try:
        template = PathTemplate.parse(text)
    except Misconfigured:
        return
    template.match(path)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6)))
def test_the_order_of_names_is_that_of_their_bytes(paths: list[str]) -> None:
    assert sorted(paths, key=lambda path: sort_key(FileOrder.NAME, path, 0)) == sorted(paths, key=str.encode)


def test_full_loads_can_go_before_changes() -> None:
    paths = ["t/20261122-1.csv", "t/LOAD00000002.csv", "t/LOAD00000001.csv"]
    assert sorted(paths, key=lambda path: sort_key(FileOrder.LOAD_FIRST, path, 0)) == [*paths[:0:-1], paths[0]]


def test_names_of_unfinished_files_and_folders_hold_no_changes() -> None:
    names = FileNames(only=("*.json", "logs/*"), ignored=("b*", "a/c.json"), done_marker=".ok")
    paths = ["a.json", "x/a.json", "logs/y/z", "_x/a.json", ".git/a.json", "b.json", "a/c.json", "a.json.ok", "c.tmp"]
    assert [path for path in paths if names.holds_changes(path)] == ["a.json", "x/a.json", "logs/y/z"]


def test_files_of_all_subfolders_are_listed_by_their_paths_and_links_to_folders_are_not_followed(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"folder/a/2": b"22", "folder/a/b/1": b"1", "folder/c": b"", "other/x": b""})
    (tmp_path / "folder/link").symlink_to(tmp_path / "other")
    (tmp_path / "folder/file").symlink_to(tmp_path / "other/x")
    store = FolderStore(tmp_path / "folder")
    assert sorted((found.key, found.size) for found in store.objects()) == [
        *(("a/2", 2), ("a/b/1", 1), ("c", 0), ("file", 0)),
    ]
    assert sorted(found.key for found in store.objects("a/", "a/2")) == ["a/b/1"]
    assert (store.folders(), store.folders("a/")) == (["a/"], ["a/b/"])


def test_a_file_has_another_etag_when_it_was_written_again(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    etags = set()
    for content in (b"1", b"12"):
        (tmp_path / "a").write_bytes(content)
        (found,) = store.objects()
        with store.reading("a") as (etag, blocks):
            assert (etag, b"".join(blocks)) == (found.etag, content)
        etags.add(etag)
    assert len(etags) == 2


def test_what_is_gone_is_told_apart(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with pytest.raises(Misconfigured, match="is not a folder") as raised:
        FolderStore(folder)
    assert raised.value.code is Code.SOURCE_REJECTED
    folder.mkdir()
    store = FolderStore(folder)
    with pytest.raises(ObjectGone), store.reading("a"):
        pass
    folder.rmdir()
    with pytest.raises(TemporarilyUnavailable, match="cannot be read: No such file or directory"):
        list(store.objects())


def test_a_folder_may_be_given_as_an_address(tmp_path: Path) -> None:
    (tmp_path / "a b#c?").mkdir()
    (tmp_path / "a b#c?" / "1.json").touch()
    address = (tmp_path / "a b#c?").as_uri()
    assert [found.key for found in open_store(address, {}).objects()] == ["1.json"]
    for file in (address, f"{address}/1.json"):
        check_readable(file)
        assert [one.found.key for one in given_files([file], {})] == [f"{tmp_path}/a b#c?/1.json"]


BUCKET = "https://account.blob.core.windows.net/c"


@pytest.mark.parametrize("query", ["sv=1&sig=secret", "se=2026-01-01T00:00:00Z&sig=secret"])
@pytest.mark.parametrize("following", ["", ": connection refused", " in 3ms"])
def test_an_error_shows_no_password_or_signature_of_an_address(query: str, following: str) -> None:
    address = BUCKET.replace("//", "//user:p@ss@")
    store = BucketStore(f"{address}?{query}", {})
    error = store.error(OSError(f"GET {address}?{query}{following}"))
    assert error.detail == f"{BUCKET}: GET {BUCKET}{following}"


@pytest.mark.parametrize("size", [0, 5, 6])
def test_an_object_is_read_whole_or_in_blocks_with_the_same_bytes(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(bucket_module, "_WHOLE_BYTES", 5)
    store = BucketStore(BUCKET, {})
    store._store = MemoryStore()
    obstore.put(store._store, "o", b"x" * size)
    assert read_small(store, "o") == b"x" * size


def test_a_description_beyond_its_limit_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_SMALL_BYTES", 20)
    store = open_store(str(tmp_path), {})
    for size in (20, 21):
        (tmp_path / f"{size}.dfm").write_bytes(b"x" * size)
    assert read_small(store, "20.dfm") == b"x" * 20
    with pytest.raises(RejectedInput) as rejected:
        read_small(store, "21.dfm")
    assert (rejected.value.code, "21.dfm" in rejected.value.detail) == (Code.UNREADABLE_RECORD, True)
