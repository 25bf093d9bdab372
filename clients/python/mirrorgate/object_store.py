"""The interface of a source: listings and contents, of a bucket or of a folder.

A folder is read without the package of object stores. Invariant: an error shows of an address only the part before the
query, which may hold a signature.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from mirrorgate.errors import Code, Misconfigured, RejectedInput
from mirrorgate.folder import FolderStore, Found

MAX_SMALL_BYTES: Final = 16 * 2**20
"""The largest object that is read into memory as a whole, such as the description of a file."""
_FOLDERS: Final = ("file", "")
_SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "https", "http", *_FOLDERS)
_GROWING: Final = ("az", "azure", "abfs", "abfss", "adl", "https", *_FOLDERS)
"""Schemes of stores that can show an object while it is written: Data Lake Storage Gen2 and folders."""


class ObjectStore(Protocol):
    """One source: a bucket with a prefix, or a folder. Threads share it.

    Methods raise TemporarilyUnavailable `source_unavailable` for a store that does not answer, and Misconfigured
    `source_rejected` for one that rejects the credentials or does not exist.
    """

    @property
    def url(self) -> str:
        """The address without its query."""

    def objects(self, prefix: str = "", after: str | None = None) -> Iterator[Found]:
        """Yield the objects below a prefix (`a/` or empty), in any order; with `after`, only keys that sort after it.

        Names that end with a slash are folders and are left out.
        """

    def folders(self, prefix: str = "") -> list[str]:
        """Return the folders directly below a prefix, each with a slash at its end."""

    def found(self, key: str) -> Found:
        """Return an object as a listing shows it. Raises ObjectGone."""

    def reading(self, key: str) -> AbstractContextManager[tuple[str, Iterable[bytes]]]:
        """Yield the ETag of an object and the blocks of its content. Raises ObjectGone."""


def open_store(url: str, options: Mapping[str, str]) -> ObjectStore:
    """Prepare a source without connecting. Raises Misconfigured `bad_setting`, or `source_rejected` for no folder."""
    scheme = scheme_of(url)
    if scheme not in _SCHEMES:
        remedy = "Write s3://…, gs://…, abfss://…, az://… or a folder."
        raise Misconfigured(Code.BAD_SETTING, f"{url.partition('?')[0]} has an unknown scheme", remedy=remedy)
    if is_folder(url):
        return FolderStore(Path(folder_path(url)).expanduser().resolve())
    try:
        from mirrorgate.bucket import BucketStore
    except ModuleNotFoundError as error:
        remedy = "Install the extra `mirrorgate[objects]`."
        raise Misconfigured(Code.EXTRA_MISSING, "Reading object storage needs obstore", remedy=remedy) from error

    return BucketStore(url, options)


def scheme_of(url: str) -> str:
    """Return the scheme of an address, empty for a path."""
    return urlsplit(url).scheme.lower() if "://" in url else ""


def is_folder(url: str) -> bool:
    """Return whether an address is a folder of this machine."""
    return scheme_of(url) in _FOLDERS


def folder_path(address: str) -> str:
    """Return the path in a `file://` address of this machine, decoded; a path as it is."""
    return unquote(urlsplit(address).path) if scheme_of(address) else address


def shows_growing_objects(url: str) -> bool:
    """Return whether a store can show an object that is not complete yet."""
    return scheme_of(url) in _GROWING


def read_small(store: ObjectStore, key: str) -> bytes:
    """Return the content of a small object. Raises ObjectGone, and RejectedInput `unreadable_record` if it is large."""
    content = bytearray()
    with store.reading(key) as (_, blocks):
        for block in blocks:
            content += block
            if len(content) > MAX_SMALL_BYTES:
                detail = f"{key} is larger than {MAX_SMALL_BYTES:,} bytes, which no description is"
                raise RejectedInput(Code.UNREADABLE_RECORD, detail, remedy="Restore the file that was written.")
    return bytes(content)


def without_folders(objects: list[Found]) -> list[Found]:
    """Leave out empty objects that represent folders. A Data Lake with a hierarchy lists them among the objects."""
    if all(found.size for found in objects):
        return objects
    folders = {folder for found in objects for folder in _folders_of(found.key)}
    return [found for found in objects if found.size or found.key not in folders]


def _folders_of(key: str) -> Iterator[str]:
    while "/" in key:
        key = key.rpartition("/")[0]
        yield key
