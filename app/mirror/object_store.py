"""Delta tables in an object store, which deltalake reads and writes itself: options, listing and errors.

A local folder passes through unchanged. Options can have secrets: no text shows them.

deltalake has one exception for all errors of a store, so the text decides whether a setting has to be corrected or the
store is unreachable. Invariant: of an answer's body only its code and message are shown. A rejected signature's body
repeats the request with its session token.
"""

import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Final

from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from app.azure_tokens import AzureTokens
from mirrorgate.errors import Code, MirrorgateError, Misconfigured, TemporarilyUnavailable
from mirrorgate.errors.store_faults import StoreFault, store_fault, without_queries

_MAX_TEXT: Final = 400
_COLOR: Final = re.compile(r"\x1b\[[0-9;]*m")
_OF_STORE: Final = re.compile(r"Kernel error|Generic \w+ error|Error performing |The operation lacked |Unknown scheme")
_ATTEMPT: Final = re.compile(r"Error performing (\w+) (\S+) in [\d.]+\S*?,?(?: after \d+ retries.*?)? - ")
_REQUEST: Final = re.compile(r"\b(?:GET|PUT|POST|HEAD|DELETE) \S+(?<!:)")
_NOISE: Final = re.compile(r"Kernel error -> |Generic \w+ error: |Error performing (?:list|token) request: ")

_CREDENTIALS: Final = (
    "Give credentials in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AZURE_…) or with "
    "--storage-option. They need the rights to list, read, write and delete below the target."
)
_REMEDIES: Final = {
    StoreFault.NO_CREDENTIALS: _CREDENTIALS,
    StoreFault.MISSING: "Create the bucket or container, or correct the address of --to or MIRRORGATE_MIRROR_TARGET.",
    StoreFault.OTHER_REGION: "Give the bucket's region in AWS_REGION or with --storage-option aws_region=….",
    StoreFault.NO_TLS: "Give an https endpoint, or allow http with --storage-option aws_allow_http=true.",
    StoreFault.UNKNOWN_SCHEME: "Give a folder, abfss://… or s3://… with --to or MIRRORGATE_MIRROR_TARGET.",
    StoreFault.REJECTED: _CREDENTIALS,
}


def is_store_error(error: Exception) -> bool:
    """Return whether an error is of deltalake's object store, and not of the landing zone or this machine."""
    is_plain = isinstance(error, OSError) and error.errno is None
    return (is_plain or isinstance(error, DeltaError)) and _OF_STORE.search(_COLOR.sub("", str(error))) is not None


def store_error(what: str, error: Exception) -> MirrorgateError:
    """Return the error to raise. `what` names the target or table that was read or written.

    It is Misconfigured `bad_setting` if only another setting helps, otherwise TemporarilyUnavailable `mirror_away`.
    """
    if is_store_error(error):
        fault = store_fault(str(error))
        if fault is not None:
            return Misconfigured(Code.BAD_SETTING, f"{what}: {fault}: {shown(error)}", remedy=_REMEDIES[fault])
    return TemporarilyUnavailable(Code.MIRROR_AWAY, f"{what}: {shown(error)}")


def shown(error: Exception) -> str:
    """Return an error's text in one line: of a store's answer the code and message, of other errors the first line."""
    text = _COLOR.sub("", str(error)).strip()
    if not is_store_error(error):
        return next(iter(text.splitlines()), type(error).__name__)
    code, message = (re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL) for name in ("Code", "Message"))
    lines = (line.strip().removeprefix("↳").strip() for line in text.partition("<?xml")[0].splitlines())
    joined = ""
    for line in filter(None, lines):  # deltalake wraps long lines: only a capital or a status begins a new reason
        joined += f"{': ' if joined and not joined.endswith(' -') else ' '}{line}"
    joined = _ATTEMPT.sub(r"\1 \2: ", without_queries(joined.strip()))
    if code is not None:
        request = _REQUEST.search(joined)
        where = f"{request[0]}: " if request else ""
        joined = f"{where}{code[1]}" + (f": {message[1].splitlines()[0]}" if message and message[1] else "")
    return _NOISE.sub("", joined)[:_MAX_TEXT]


_AZURE: Final = ("abfss://", "abfs://", "az://", "azure://", "adl://")
_AZURE_CREDENTIALS: Final = (
    "_key",
    "sas",
    "token",
    "token_file",
    "client_secret",
    "msi_endpoint",
    "identity_endpoint",
    "msi_resource_id",
    "use_azure_cli",
    "skip_signature",
)
"""Ends of the option names that tell deltalake how to sign in at Azure."""
_WAITING: Final = {"retry_timeout": "30s"}
"""deltalake tries for 180 seconds, in which a table neither advances nor says why. The mirror retries by itself."""


STORAGE_TOKENS: Final = AzureTokens(
    "https://storage.azure.com/.default",
    "Azure storage",
    Code.BAD_SETTING,
    Code.MIRROR_AWAY,
    "Set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, use a managed identity or `az login`, or give "
    "deltalake's own options with --storage-option.",
)
"""The tokens of this process for Azure storage."""


def store_options(location: str, given: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options for one opening of a Delta table; None for a local folder without options.

    At Azure, options that name no credential are completed by a token of the credential that the landing zone uses. A
    token is valid for about an hour, so options must not be kept.

    Raise Misconfigured `bad_setting` if there is no credential.
    """
    if "://" not in location or location.startswith("file:"):
        return dict(given) or None
    options = _WAITING | dict(given)
    if location.startswith(_AZURE) and not _names_credential(given) and find_spec("azure.identity") is not None:
        options["bearer_token"] = STORAGE_TOKENS.get()
    return options


def _names_credential(given: Mapping[str, str]) -> bool:
    storage = [name for name in os.environ if name.upper().startswith("AZURE_STORAGE_")]
    return any(name.lower().endswith(_AZURE_CREDENTIALS) for name in (*given, *storage))


_LOG_FOLDER: Final = "_delta_log"
_REQUESTS: Final = 16


def remote_tables(location: str, options: Mapping[str, str]) -> list[str]:
    """Return the paths of the Delta tables below an address, in any order. Raise OSError if the store fails.

    Two levels are listed: `<schema>/<table>` and `<table>`. Names with a leading `_` are not tables, such as the lease.
    """
    store = fs.PyFileSystem(DeltaStorageHandler(location, dict(options)))
    first = _tables(_folders(store, ""))
    with ThreadPoolExecutor(_REQUESTS) as threads:
        below = dict(zip(first, threads.map(lambda name: _folders(store, name), first), strict=True))
        found = [name for name in first if _LOG_FOLDER in below[name]]
        inner = [f"{name}/{table}" for name in first if name not in found for table in _tables(below[name])]
        kinds = threads.map(lambda path: _is_table(store, path), inner)
        return found + [path for path, is_table in zip(inner, kinds, strict=True) if is_table]


def _folders(store: fs.FileSystem, path: str) -> list[str]:
    entries = store.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return [entry.base_name for entry in entries if entry.type is fs.FileType.Directory]


def _tables(names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith("_")]


def _is_table(store: fs.FileSystem, path: str) -> bool:
    return bool(store.get_file_info(f"{path}/{_LOG_FOLDER}").type is fs.FileType.Directory)
