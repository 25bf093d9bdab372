"""The requests of a landing zone to the DFS service, one per method.

Only this module and `app.azure_tokens` import Azure's SDK. The SDK's own retries are off: it would repeat a rename
whose answer was lost, and report that the source is missing (decision 0007). Its errors become `StorageRejected` or
`TransientStorageError`.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

import structlog
from azure.core import MatchConditions
from azure.core.credentials import AccessToken, TokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.identity import CredentialUnavailableError, DefaultAzureCredential
from azure.storage.filedatalake import DataLakeFileClient, DataLakeServiceClient
from azure.storage.filedatalake import PathProperties as ListedPath

from app.landing.adls.address import StorageAddress, StorageOptions
from app.landing.adls.retries import StorageRejected, TransientStorageError
from app.observability.repeated_lines import errors_only
from mirrorgate.errors import Code, Misconfigured

log = structlog.get_logger()

_MISSING_CODES: Final = frozenset({"", "BlobNotFound", "PathNotFound", "ResourceNotFound"})
"""Codes of a 404 about the path itself; other codes are about the account, workspace or item."""
_TRANSIENT_CODES: Final = frozenset({"DestinationPathIsBeingDeleted", "SourcePathIsBeingDeleted", "PathInUse"})
_IDENTITY_ERROR: Final = re.compile(r"AADSTS\d+")
"""Code of Entra ID: no token was given. Its answer has another status, which says nothing about the storage."""
_MAX_REASON_CHARACTERS: Final = 500
_ATTEMPT: Final = "mirrorgate_attempt"
_NEW_ONLY: Final[dict[str, Any]] = {"match_condition": MatchConditions.IfMissing}


_SCOPE: Final = "https://storage.azure.com/.default"
_PRINCIPAL: Final = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID")
_SECRETS: Final = ("AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_FEDERATED_TOKEN_FILE")


def require_credential(options: StorageOptions, environment: Mapping[str, str] = os.environ) -> None:
    """Raise Misconfigured `landing_zone_unusable` if no credential of the Azure SDK's chain is configured.

    Only the service knows whether the credential has access. A complete service principal is not tried, because the
    identity service may be away.
    """
    if options.credential is not None:
        return
    secret = next((name for name in _SECRETS if environment.get(name)), None)
    missing = [name for name in _PRINCIPAL if not environment.get(name)]
    if secret is not None and missing:
        raise _no_credential(f"{secret} is set without {' and '.join(missing)}")
    if secret is None and not _finds_identity():
        raise _no_credential("there is no service principal, managed identity or `az login`")


def _finds_identity() -> bool:
    """Return whether a managed identity, a workload identity or a developer's login answers on this machine."""
    with errors_only("azure.identity"), DefaultAzureCredential() as chain:
        for credential in chain.credentials:
            try:
                cast("TokenCredential", credential).get_token(_SCOPE)
            except CredentialUnavailableError:
                continue
            except AzureError:  # it is configured and fails now; the drain reports why
                return True
            return True
    return False


def _no_credential(why: str) -> Misconfigured:
    return Misconfigured(
        Code.LANDING_ZONE_UNUSABLE,
        f"no credential for the landing zone: {why}",
        remedy="Set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET of a service principal that may write it, "
        "or run where a managed identity or `az login` provides one.",
    )


@dataclass(frozen=True, slots=True)
class PathProperties:
    """The entry at a path; `attempt` is the name that its creator gave itself, if the service keeps such metadata."""

    folder: bool
    size: int
    etag: str
    attempt: str | None
    modified: datetime | None = None


class _RenewableCredential:
    """A credential that can be replaced. The SDK's credentials return a token until it ends, even after a rejection."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make
        self._made: TokenCredential | None = None

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """Return a token of the present credential. Two threads may make one each; one of them is kept."""
        made = self._made
        if made is None:
            self._made = made = cast("TokenCredential", self._make())
        return made.get_token(*scopes, **options)

    def renew(self) -> None:
        """Ask the next token of a new credential."""
        self._made = None


class AdlsClient:
    """One folder of OneLake or ADLS Gen2. Threads may share it.

    Methods raise StorageRejected and TransientStorageError.
    """

    def __init__(self, address: StorageAddress, options: StorageOptions) -> None:
        self._address = address
        self._endpoint = urlsplit(options.endpoint).netloc if options.endpoint else None
        self._credential = _RenewableCredential(options.credential or DefaultAzureCredential)
        self._version = options.api_version
        version = {"api_version": self._version} if self._version else {}
        try:
            service = DataLakeServiceClient(
                f"https://{address.host}",
                credential=self._credential,
                retry_total=0,
                connection_timeout=options.connect_seconds,
                read_timeout=options.answer_seconds,
                connection_verify=options.authority_file or True,
                raw_request_hook=self._adjust,
                **version,
            )
        except ValueError as error:
            raise Misconfigured(Code.BAD_SETTING, f"MIRRORGATE_STORAGE_API_VERSION: {error}") from None
        self._files = service.get_file_system_client(address.file_system)

    def head(self, path: str) -> PathProperties | None:
        """Return what is at a path, None if nothing is."""
        with self._translated_errors("read properties of", path):
            try:
                found = self._at(path).get_file_properties()
            except HttpResponseError as error:
                if error.status_code == 404 and _code(error) in _MISSING_CODES:
                    return None
                raise
        metadata = {name.lower(): value for name, value in (found.metadata or {}).items()}
        folder = metadata.get("hdi_isfolder") == "true"
        size, modified = int(found.size or 0), cast("datetime | None", found.last_modified)
        return PathProperties(folder, size, str(found.etag), metadata.get(_ATTEMPT), modified)

    def listed(self, folder: str) -> dict[str, PathProperties]:
        """Return what is in a folder by name, in any order, as far as a listing shows it: without attempts."""
        with self._translated_errors("list", folder):
            try:
                paths = list(self._files.get_paths(self._address.path(folder), recursive=False))
            except HttpResponseError as error:
                if error.status_code == 404 and _code(error) in _MISSING_CODES:
                    return {}
                raise
        return {path.name.rpartition("/")[2]: _listed(path) for path in paths}

    def create_file(self, path: str, attempt: str | None) -> str:
        """Create an empty file, with its attempt's name in the metadata if given, never replacing; return its ETag."""
        metadata = {_ATTEMPT: attempt} if attempt is not None else None
        with self._translated_errors("create", path):
            return str(self._at(path).create_file(metadata=metadata, **_NEW_ONLY)["etag"])

    def create_folder(self, path: str) -> None:
        """Create a folder and its parents, never replacing."""
        with self._translated_errors("create folder", path):
            self._files.get_directory_client(self._address.path(path)).create_directory(**_NEW_ONLY)

    def append(self, path: str, data: bytes, position: int) -> None:
        """Append a block at a position; `flush` makes it visible."""
        with self._translated_errors("append to", path):
            self._at(path).append_data(data, position, length=len(data))

    def flush(self, path: str, size: int, etag: str) -> str:
        """Make the first `size` appended bytes the content of the file with this ETag; return its new ETag."""
        with self._translated_errors("flush", path):
            unchanged: dict[str, Any] = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
            return str(self._at(path).flush_data(size, **unchanged)["etag"])

    def read(self, path: str, start: int, length: int, etag: str) -> bytes:
        """Return a range of the file while it has this ETag."""
        with self._translated_errors("read", path):
            unchanged: dict[str, Any] = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
            data = self._at(path).download_file(start, length, **unchanged).readall()
        if len(data) != length:
            raise TransientStorageError(f"read {path}: {len(data)} bytes instead of {length}", unclear=False)
        return data

    def rename(self, source: str, target: str, source_etag: str, *, new_only: bool) -> None:
        """Move a file or folder that has this ETag. Without `new_only` a file at the target is replaced."""
        with self._translated_errors("rename", source):
            self._at(source).rename_file(
                f"{self._address.file_system}/{self._address.path(target)}",
                source_etag=source_etag,
                source_match_condition=MatchConditions.IfNotModified,
                raw_response_hook=_note_rejected_condition if new_only else None,
                **(_NEW_ONLY if new_only else {}),
            )

    def delete(self, path: str, found: PathProperties) -> None:
        """Delete what was found, a folder with its contents, and nothing that has replaced it since."""
        unchanged: dict[str, Any] = {"etag": found.etag, "match_condition": MatchConditions.IfNotModified}
        with self._translated_errors("delete", path):
            if found.folder:
                self._files.get_directory_client(self._address.path(path)).delete_directory(**unchanged)
            else:
                self._at(path).delete_file(**unchanged)

    @contextmanager
    def _translated_errors(self, doing: str, path: str) -> Iterator[None]:
        """Raise what the module's function does; after a rejected token the next request has a new one."""
        try:
            with _translated_errors(doing, path):
                yield
        except TransientStorageError as error:
            if error.meaning is Code.STORAGE_CREDENTIAL:
                self._credential.renew()
            raise

    def _at(self, path: str) -> DataLakeFileClient:
        return self._files.get_file_client(self._address.path(path))

    def _adjust(self, request: Any) -> None:
        """Send a request to the endpoint, with the original host's name and the configured API version.

        The SDK sends a rename in its own newest version.
        """
        headers, parts = request.http_request.headers, urlsplit(request.http_request.url)
        if self._version is not None:
            headers["x-ms-version"] = self._version
        if self._endpoint is not None:
            headers["Host"] = parts.netloc
            request.http_request.url = urlunsplit(("https", self._endpoint, *parts[2:]))


def _listed(path: ListedPath) -> PathProperties:
    """Return a listed path. The SDK gives the service's time in GMT as a time without a zone."""
    modified = cast("datetime | None", path.last_modified)
    in_utc = modified and modified.replace(tzinfo=modified.tzinfo or UTC)
    return PathProperties(bool(path.is_directory), int(path.content_length or 0), str(path.etag), None, in_utc)


@contextmanager
def _translated_errors(doing: str, path: str) -> Iterator[None]:
    """Turn what the SDK raises into StorageRejected or TransientStorageError.

    The status and code decide, never the class alone.
    """
    try:
        yield
    except ClientAuthenticationError as error:
        if error.response is not None and _IDENTITY_ERROR.search(str(error.message)) is None:
            raise _translated(doing, path, error) from error
        reason = next(iter(str(error.message).splitlines()), "")[:_MAX_REASON_CHARACTERS]
        raise StorageRejected(f"{doing} {path}: no credential: {reason}", status=401, code="") from error
    except HttpResponseError as error:
        raise _translated(doing, path, error) from error
    except AzureError as error:
        raise TransientStorageError(f"{doing} {path}: {type(error).__name__}", unclear=True) from error


def _translated(doing: str, path: str, error: HttpResponseError) -> StorageRejected | TransientStorageError:
    status, code = error.status_code or 0, _code(error)
    headers: Mapping[str, str] = getattr(error.response, "headers", {})
    text = f"{doing} {path}: {status} {code} (request {headers.get('x-ms-request-id', '')})"
    retry_after = _seconds(headers.get("Retry-After"))
    if status == 429 or code in _TRANSIENT_CODES:
        return TransientStorageError(text, unclear=False, retry_after=retry_after, status=status)
    if status == 401:
        # The client has dropped the rejected token: the next attempt uses a new one.
        return TransientStorageError(text, unclear=False, few=True, status=status)
    if status in (0, 200, 206, 408) or status >= 500:
        return TransientStorageError(text, unclear=True, retry_after=retry_after, status=status)
    return StorageRejected(text, status=status, code=code)


def _code(error: HttpResponseError) -> str:
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


def _seconds(retry_after: str | None) -> float | None:
    """Return the seconds of a Retry-After header, which has seconds or a date; None for anything else."""
    if retry_after is None:
        return None
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        return max(0.0, (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _note_rejected_condition(response: Any) -> None:
    """Log that the service ignored the condition that a rename must not replace."""
    rejected = response.http_response.headers.get("x-ms-rejected-headers", "")
    if "if-none-match" in rejected.lower():
        log.warning("rename_condition_ignored", detail="the service would have replaced a file at the new name")
