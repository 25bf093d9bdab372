"""A folder as a source: which files it lists, and what it says of those that are gone."""

from pathlib import Path

import pytest

from mirrorgate.cli.send import check_readable
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable
from mirrorgate.folder import FolderStore, ObjectGone
from mirrorgate.object_store import open_store
from mirrorgate.send.job import given_files
from tests.api.objects.bridging import write


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
