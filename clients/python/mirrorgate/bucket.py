"""Buckets through obstore: listings, streams of objects, and what an error means.

Invariant: no text of an error has a secret.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError, UnknownConfigurationKeyError
from obstore.store import from_url

from mirrorgate.errors import Code, MirrorgateError, Misconfigured, TemporarilyUnavailable
from mirrorgate.errors.store_faults import StoreFault, store_fault, without_queries
from mirrorgate.folder import BLOCK_BYTES, Found, ObjectGone

_WHOLE_BYTES: Final = 8 * 2**20
"""Up to this size an object is read at once: a stream arrives in small pieces, at several times the cost."""
_MAX_TEXT: Final = 300
_RETRY: Final[Any] = {"max_retries": 2, "retry_timeout": timedelta(seconds=15)}
_TIMEOUTS: Final = {"connect_timeout": "10s", "timeout": "300s"}
_ENDPOINTS: Final = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT")
"""Environment variables from which obstore takes the address of a service."""
_CREDENTIALS: Final = (
    "Give the options of the store, or the environment variables of the service: AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, or AZURE_STORAGE_ACCOUNT_NAME with a key or token. Reading "
    "needs the rights to list and to get objects."
)
_BAD_NAME: Final = "Encountered object with invalid path"
_RENAME: Final = (
    "Rename or delete the object: nothing can be listed beside a name with `//`, with a segment `.` or `..`, or with "
    "control characters."
)
_REMEDIES: Final = {
    StoreFault.NO_CREDENTIALS: _CREDENTIALS,
    StoreFault.MISSING: "Correct the `url`: the bucket or container does not exist.",
    StoreFault.OTHER_REGION: "Give the bucket's `region` under `options`, or in AWS_REGION.",
    StoreFault.NO_TLS: "Give an https endpoint, or write `allow_http: true` under `options`.",
    StoreFault.UNKNOWN_SCHEME: "Write s3://…, gs://…, abfss://…, az://… or a folder.",
    StoreFault.REJECTED: _CREDENTIALS,
}


class BucketStore:
    """A bucket with a prefix. Its methods are those of ObjectStore."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        """Prepare the source without connecting. Raises Misconfigured `bad_setting`."""
        self.url = without_queries(url.partition("?")[0])
        self._store = self._opened(url, options)

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

    def found(self, key: str) -> Found:
        """Return an object as a listing shows it. Raises ObjectGone."""
        with self._errors():
            try:
                meta = obstore.head(self._store, key)
            except FileNotFoundError:
                raise ObjectGone(key) from None
        return Found(key, int(meta["size"]), _etag_of(meta), int(meta["last_modified"].timestamp() * 1000))

    @contextmanager
    def reading(self, key: str) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield the ETag of an object and the blocks of its content. Raises ObjectGone."""
        with self._errors():
            try:
                found = obstore.get(self._store, key)
            except FileNotFoundError:
                raise ObjectGone(key) from None
        yield _etag_of(found.meta), self._blocks(found)

    def _blocks(self, found: Any) -> Iterator[bytes]:
        with self._errors():
            is_small = found.meta["size"] <= _WHOLE_BYTES
            for block in _cut(found.bytes()) if is_small else found.stream(min_chunk_size=BLOCK_BYTES):
                yield bytes(block)

    def _opened(self, url: str, options: Mapping[str, str]) -> Any:
        config = dict(options)
        endpoints = (url, *config.values(), *(os.environ.get(name, "") for name in _ENDPOINTS))
        is_plain = any(text.startswith("http://") for text in endpoints)
        allows_http = config.pop("allow_http", "").lower() == "true" or is_plain
        client: Any = {**_TIMEOUTS, "allow_http": allows_http}
        given: Any = config
        try:
            return from_url(url, config=given, client_options=client, retry_config=_RETRY)
        except UnknownConfigurationKeyError as error:
            detail = f"{self.url}: {str(error).partition(chr(10))[0]}"
            remedy = "Correct the name under `options`: they are obstore's, such as endpoint, region, access_key_id."
            raise Misconfigured(Code.BAD_SETTING, detail, remedy=remedy) from error
        except (BaseError, OSError, ValueError, TypeError) as error:
            detail = f"{self.url} cannot be opened: {without_queries(str(error).partition(chr(10))[0])[:_MAX_TEXT]}"
            raise Misconfigured(Code.BAD_SETTING, detail, remedy="Correct the `url` and its `options`.") from error

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
        if _BAD_NAME in text:
            return Misconfigured(Code.SOURCE_REJECTED, f"{self.url}: {shown}", remedy=_RENAME)
        if fault is not None:
            return Misconfigured(Code.SOURCE_REJECTED, f"{self.url}: {fault}: {shown}", remedy=_REMEDIES[fault])
        return TemporarilyUnavailable(Code.SOURCE_UNAVAILABLE, f"{self.url}: {shown}")


def _cut(content: Any) -> Iterator[memoryview]:
    view = memoryview(content)
    return (view[at : at + BLOCK_BYTES] for at in range(0, len(view), BLOCK_BYTES))


def _etag_of(meta: Any) -> str:
    """Return the ETag without quotes: Azure writes them in the answer to GET, and not in a listing."""
    if meta["e_tag"]:
        return str(meta["e_tag"]).removeprefix("W/").strip('"')
    return str(meta["version"] or f"{meta['size']}-{int(meta['last_modified'].timestamp() * 1000)}")
