"""Object stores and folders through obstore: listings, streams of objects, and what an error means.

Invariant: no text of an error has a secret. Of an address only the part before the query is shown.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError, UnknownConfigurationKeyError
from obstore.store import LocalStore, from_url

from app.errors import Code, MirrorgateError, Misconfigured, RejectedInput, TemporarilyUnavailable
from app.errors.store_faults import StoreFault, store_fault, without_queries

_BLOCK_BYTES: Final = 2**18
_WHOLE_BYTES: Final = 8 * 2**20
"""Up to this size an object is read at once: obstore reads files in pieces of 8 KiB, at seven times the cost."""
MAX_SMALL_BYTES: Final = 16 * 2**20
"""The largest object that is read into memory as a whole, such as the description of a file."""
_MAX_TEXT: Final = 300
_SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "https", "file")
_GROWING: Final = ("az", "azure", "abfs", "abfss", "adl", "https", "file", "")
"""Schemes of stores that can show an object while it is written: Data Lake Storage Gen2 and folders."""
_RETRY: Final[Any] = {"max_retries": 2, "retry_timeout": timedelta(seconds=15)}
_TIMEOUTS: Final = {"connect_timeout": "10s", "timeout": "300s"}
_CREDENTIALS: Final = (
    "Give `options` in the bridge's file, or the environment variables of the service: AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, or AZURE_STORAGE_ACCOUNT_NAME with a key or token. Reading "
    "needs the rights to list and to get objects."
)
_REMEDIES: Final = {
    StoreFault.NO_CREDENTIALS: _CREDENTIALS,
    StoreFault.MISSING: "Correct the `url`: the bucket or container does not exist.",
    StoreFault.OTHER_REGION: "Give the bucket's `region` under `options`, or in AWS_REGION.",
    StoreFault.NO_TLS: "Give an https endpoint, or write `allow_http: true` under `options`.",
    StoreFault.UNKNOWN_SCHEME: "Write s3://…, gs://…, abfss://…, az://… or a folder.",
    StoreFault.REJECTED: _CREDENTIALS,
}


@dataclass(frozen=True, slots=True)
class Found:
    """An object of a listing. `key` is relative to the source's URL, `modified` in milliseconds since 1970."""

    key: str
    size: int
    etag: str
    modified: int


class ObjectGone(Exception):
    """The object was deleted since it was listed."""


class ObjectStore:
    """One source: a bucket with a prefix, or a folder. Threads share it.

    Methods raise TemporarilyUnavailable `source_unavailable` for a store that does not answer, and Misconfigured
    `source_rejected` for one that rejects the credentials or does not know the bucket.
    """

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        """Prepare the source without connecting. Raises Misconfigured `bad_setting`."""
        self.url = _shown(url)
        self._store = _opened(url, options)

    def objects(self, prefix: str = "", after: str | None = None) -> Iterator[Found]:
        """Yield the objects below a prefix (`a/` or empty), in any order; with `after`, only keys that sort after it.

        Names that end with a slash are folders and are left out.
        """
        with self._errors():
            for page in obstore.list(self._store, prefix.rstrip("/") or None, offset=after):
                for item in page:
                    key = str(item["path"])
                    if not key.endswith("/") and (after is None or key > after):
                        modified = int(item["last_modified"].timestamp() * 1000)
                        yield Found(key, int(item["size"]), _etag_of(item), modified)

    def folders(self, prefix: str = "") -> list[str]:
        """Return the folders directly below a prefix, each with a slash at its end."""
        with self._errors():
            listed = obstore.list_with_delimiter(self._store, prefix.rstrip("/") or None)
        return sorted(f"{folder.rstrip('/')}/" for folder in listed["common_prefixes"])

    @contextmanager
    def reading(self, key: str) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield the ETag of an object and the blocks of its content. Raises ObjectGone."""
        with self._errors():
            try:
                found = obstore.get(self._store, key)
            except FileNotFoundError:
                raise ObjectGone(key) from None
        yield _etag_of(found.meta), self._blocks(found)

    def read(self, key: str) -> bytes:
        """Return the content of a small object. Raises ObjectGone, and RejectedInput `unreadable_record` if large."""
        content = bytearray()
        with self.reading(key) as (_, blocks):
            for block in blocks:
                content += block
                if len(content) > MAX_SMALL_BYTES:
                    detail = f"{key} is larger than {MAX_SMALL_BYTES:,} bytes, which no description is"
                    raise RejectedInput(Code.UNREADABLE_RECORD, detail, remedy="Restore the file that was written.")
        return bytes(content)

    def _blocks(self, found: Any) -> Iterator[bytes]:
        with self._errors():
            is_small = found.meta["size"] <= _WHOLE_BYTES
            for block in _cut(found.bytes()) if is_small else found.stream(min_chunk_size=_BLOCK_BYTES):
                yield bytes(block)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise self.error(error) from error
        except (BaseError, OSError, ValueError) as error:
            raise self.error(error) from error

    def error(self, error: Exception) -> MirrorgateError:
        """Return the error to raise for one of obstore."""
        text = str(error)
        shown = without_queries(text.partition("\n")[0])[:_MAX_TEXT]
        fault = store_fault(text)
        if fault is None and isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError):
            fault = StoreFault.REJECTED
        if fault is not None:
            return Misconfigured(Code.SOURCE_REJECTED, f"{self.url}: {fault}: {shown}", remedy=_REMEDIES[fault])
        return TemporarilyUnavailable(Code.SOURCE_UNAVAILABLE, f"{self.url}: {shown}")


def shows_growing_objects(url: str) -> bool:
    """Return whether a store can show an object that is not complete yet."""
    return (urlsplit(url).scheme if "://" in url else "") in _GROWING


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


def _cut(content: Any) -> Iterator[memoryview]:
    view = memoryview(content)
    return (view[at : at + _BLOCK_BYTES] for at in range(0, len(view), _BLOCK_BYTES))


def _etag_of(meta: Any) -> str:
    """Return the ETag without quotes: Azure writes them in the answer to GET, and not in a listing."""
    if meta["e_tag"]:
        return str(meta["e_tag"]).removeprefix("W/").strip('"')
    return str(meta["version"] or f"{meta['size']}-{int(meta['last_modified'].timestamp() * 1000)}")


def _opened(url: str, options: Mapping[str, str]) -> Any:
    scheme = urlsplit(url).scheme.lower() if "://" in url else ""
    if scheme and scheme not in _SCHEMES:
        remedy = "Write s3://…, gs://…, abfss://…, az://… or a folder."
        raise Misconfigured(Code.BAD_SETTING, f"{_shown(url)} has an unknown scheme", remedy=remedy)
    try:
        if scheme in ("", "file"):
            folder = Path(urlsplit(url).path if scheme else url).expanduser()
            if not folder.is_dir():
                raise Misconfigured(Code.SOURCE_REJECTED, f"{folder} is no folder", remedy="Correct the `url`.")
            return LocalStore(folder.resolve())
        config = dict(options)
        endpoint = config.get("endpoint") or config.get("aws_endpoint") or config.get("endpoint_url") or ""
        allows_http = config.pop("allow_http", "").lower() == "true" or endpoint.startswith("http://")
        client: Any = {**_TIMEOUTS, "allow_http": allows_http}
        given: Any = config
        return from_url(url, config=given, client_options=client, retry_config=_RETRY)
    except UnknownConfigurationKeyError as error:
        detail = f"{_shown(url)}: {str(error).partition(chr(10))[0]}"
        remedy = "Correct the name under `options`: they are obstore's, such as endpoint, region, access_key_id."
        raise Misconfigured(Code.BAD_SETTING, detail, remedy=remedy) from error
    except (BaseError, OSError, ValueError, TypeError) as error:
        detail = f"{_shown(url)} cannot be opened: {str(error).partition(chr(10))[0][:_MAX_TEXT]}"
        raise Misconfigured(Code.BAD_SETTING, detail, remedy="Correct the `url` and its `options`.") from error


def _shown(url: str) -> str:
    return url.partition("?")[0]
