"""Locations of the mirror's Delta tables in folders and object stores, and the landing files that each has applied.

`MirrorTarget` is a folder, ADLS Gen2, OneLake or S3; a table is at `<to>/<schema>/<table>`, or `<to>/<table>` without a
schema.

`table_path` names a folder by the name as it is, but for the characters that deltalake cannot have in a path (1.6
panics, or loses the history) and for a name that ends like a kept generation. Those become `~` and two hexadecimal
digits per byte.

`Position` is in the table's own log: Delta's application transactions are part of a commit, so it moves with the rows
or not at all, even if a kill ends the process. A second commit of the same file conflicts with the first one.

`store_error` decides by the text whether a setting has to be corrected or the store is unreachable, because deltalake
has one exception for all errors of a store. Invariant: of an answer's body only its code and message are shown
(`shown`). A rejected signature's body repeats the request with its session token. Options can have secrets: no text
shows them.
"""

import glob
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from app.azure_tokens import AzureTokens
from app.published.table_files import PublishedTable
from mirrorgate.errors import Code, MirrorgateError, Misconfigured, TemporarilyUnavailable
from mirrorgate.errors.store_faults import StoreFault, store_fault, without_queries

_MAX_TEXT: Final = 800
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


_DAMAGE: Final = re.compile(
    r"Kernel error: (?!.*(?:Generic \w+ error|Error performing)).*?"
    r"(?:contiguous commit files|No table metadata or protocol|(?:Json|Arrow|Parquet) error)"
    r"|.*Failed to fetch metadata for file .*(?:not found|Requested range was invalid|Corrupt footer)"
)
"""What deltalake says of a log that lacks a file, or has one that is not a commit or a checkpoint, and of a lost or
damaged data file. The rest of its text can have values."""


class DamagedTable(TemporarilyUnavailable):
    """A Delta table whose log or data cannot be read. A command treats the other tables nonetheless.

    `errors` names this table and, at the end of a command, all others that are damaged.
    """

    def __init__(self, detail: str) -> None:
        remedy = (
            "If the error persists, stop the mirror, delete the folder of this Delta table, and start the mirror: it "
            "builds the table again from the landing zone. If the zone lacks its first files, also rebuild the table."
        )
        super().__init__(Code.MIRROR_AWAY, detail, remedy=remedy)
        self.errors: list[dict[str, str]] = [{"code": self.code, "detail": detail}]


def is_store_error(error: Exception) -> bool:
    """Return whether an error is of deltalake's object store, and not of the landing zone or this machine."""
    is_plain = isinstance(error, OSError) and error.errno is None
    return (is_plain or isinstance(error, DeltaError)) and _OF_STORE.search(_COLOR.sub("", str(error))) is not None


def store_error(what: str, error: Exception) -> MirrorgateError:
    """Return the error to raise. `what` names the target or table that was read or written.

    It is Misconfigured `bad_setting` if only another setting helps, otherwise TemporarilyUnavailable `mirror_away`, as
    DamagedTable if the log or data of a table cannot be read.
    """
    damage = _DAMAGE.match(shown(error)) if isinstance(error, DeltaError) else None
    if damage is not None:
        return DamagedTable(f"{what} is damaged: {damage[0]}")
    if is_store_error(error):
        fault = store_fault(str(error))
        if fault is not None:
            return Misconfigured(Code.BAD_SETTING, f"{what}: {fault}: {shown(error)}", remedy=_REMEDIES[fault])
    return TemporarilyUnavailable(Code.MIRROR_AWAY, f"{what}: {shown(error)}")


def shown(error: Exception) -> str:
    """Return an error's text in one line: of a store's answer the code and message, of other errors the first line."""
    text = _COLOR.sub("", str(error)).partition("Preview of invalid data")[0].strip()
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


LOG_FOLDER: Final = "_delta_log"
_REQUESTS: Final = 16


def remote_tables(location: str, options: Mapping[str, str]) -> list[str]:
    """Return the paths of the Delta tables below an address, in any order. Raise OSError if the store fails.

    Two levels are listed: `<schema>/<table>` and `<table>`. Names with a leading `_` are not tables, such as the lease.
    """
    store = fs.PyFileSystem(DeltaStorageHandler(location, dict(options)))
    first = _tables(_folders(store, ""))
    with ThreadPoolExecutor(_REQUESTS) as threads:
        below = dict(zip(first, threads.map(lambda name: _folders(store, name), first), strict=True))
        found = [name for name in first if LOG_FOLDER in below[name]]
        inner = [f"{name}/{table}" for name in first if name not in found for table in _tables(below[name])]
        logs = threads.map(lambda path: store.get_file_info(f"{path}/{LOG_FOLDER}"), inner)
        return found + [path for path, log in zip(inner, logs, strict=True) if log.type is fs.FileType.Directory]


def _folders(store: fs.FileSystem, path: str) -> list[str]:
    entries = store.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return [entry.base_name for entry in entries if entry.type is fs.FileType.Directory]


def _tables(names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith("_")]


def arrow_dataset(delta: DeltaTable) -> ds.Dataset:
    """Return the open version of a table as a dataset, without reading it.

    Of a local folder, Arrow itself reads the files. deltalake's file system is written in Python: when Arrow's threads
    release it while the interpreter ends, the process aborts (deltalake 1.6, one in 30 short runs).
    """
    address = urlsplit(delta.table_uri)
    if address.scheme != "file":
        return delta.to_pyarrow_dataset()
    return delta.to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(unquote(address.path), fs.LocalFileSystem()))


def live_files(delta: DeltaTable) -> dict[str, int]:
    """Return the bytes of each data file of the open version, by its path below the table's folder."""
    files = pa.table(delta.get_add_actions(flatten=True))
    return dict(zip(files.column("path").to_pylist(), files.column("size_bytes").to_pylist(), strict=True))


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


FILES: Final = "mirrorgate"
GENERATION: Final = "mirrorgate.generation"
FIRST_FILE: Final = "mirrorgate.first_file"
LAST_FILE: Final = "mirrorgate.last_file"
LAST_TIME: Final = "mirrorgate.last_time"
_PARTITION: Final = "mirrorgate.partition:"


@dataclass(frozen=True, slots=True)
class Position:
    """The generation of a table and its last applied file, with the fingerprints of its first and last file."""

    generation: int
    file_number: int
    first_file: int = 0
    """0: unknown."""
    last_file: int = 0
    last_time: int = 0
    """Microseconds since 1970 of the last file, in a table whose files are ordered by time."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    """Numbers of the last applied files of those partitions that the commit changes."""

    def transactions(self) -> list[Transaction]:
        """Return the application transactions of a commit that reaches this position."""
        return [
            Transaction(FILES, self.file_number),
            Transaction(GENERATION, self.generation),
            Transaction(FIRST_FILE, self.first_file),
            Transaction(LAST_FILE, self.last_file),
            *([Transaction(LAST_TIME, self.last_time)] if self.last_time else []),
            *(Transaction(f"{_PARTITION}{name}", number) for name, number in self.partitions.items()),
        ]


def read_position(table: DeltaTable) -> Position | None:
    """Return the position of a table; None for a table that the mirror did not write."""
    file_number, generation = table.transaction_version(FILES), table.transaction_version(GENERATION)
    if file_number is None or generation is None:
        return None
    first_file, last_file = table.transaction_version(FIRST_FILE), table.transaction_version(LAST_FILE)
    last_time = table.transaction_version(LAST_TIME)
    return Position(generation, file_number, first_file or 0, last_file or 0, last_time or 0)


def partition_number(table: DeltaTable, partition: str) -> int:
    """Return the number of the last file of a partition that is applied to a table; 0 for none."""
    return table.transaction_version(f"{_PARTITION}{partition}") or 0


VACUUMED: Final = "mirrorgate.vacuumed"
"""Application transaction whose number is the time of the last vacuum that deleted files, in seconds."""


def vacuum_time(table: DeltaTable) -> datetime | None:
    """Return when a vacuum of this program last deleted files of a table."""
    seconds = table.transaction_version(VACUUMED)
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


PIN: Final = "mirrorgate.pin."
"""Begins the names of table properties whose values are pinned versions; a pin that was removed is empty."""


def read_pins(table: DeltaTable) -> dict[str, int]:
    """Return the versions of a table that are kept from every vacuum, by the names of their pins."""
    properties = table.metadata().configuration
    pins = {name.removeprefix(PIN): value for name, value in properties.items() if name.startswith(PIN)}
    return {name: int(version) for name, version in sorted(pins.items()) if version.isdigit()}


KEPT: Final = "@g"
"""Separates the name of a table from the number of a kept generation."""

_UNSAFE: Final = re.compile(r"[#?\[\]^|\\%~\x00-\x1f\x7f]|@(?=g\d+$)", re.ASCII)
_KEPT_NAME: Final = re.compile(r"(.+)@g(\d{1,18})", re.ASCII | re.DOTALL)
_ESCAPED: Final = re.compile(r"(?:~[0-9a-f]{2})+", re.ASCII)


def table_path(table: PublishedTable, generation: int | None = None) -> str:
    """Return the path of a table; with `generation`, of one that is kept."""
    kept = "" if generation is None else f"{KEPT}{generation}"
    parts = [part for part in (table.schema, table.name) if part is not None]
    return "/".join(_UNSAFE.sub(_escape, part) for part in parts) + kept


def table_paths(name: str) -> list[str]:
    """Return the paths that a name can mean, the likeliest first.

    The first dot separates a schema or is part of the name. `@g1` at the end means a kept generation or is part of it.
    """
    schema, dot, rest = name.partition(".")
    tables = [PublishedTable(schema, rest, "")] if dot else []
    tables.append(PublishedTable(None, name, ""))
    return [path for table in tables for path in (*_kept_paths(table), table_path(table))]


def _kept_paths(table: PublishedTable) -> list[str]:
    found = _KEPT_NAME.fullmatch(table.name)
    return [table_path(PublishedTable(table.schema, found[1], ""), int(found[2]))] if found else []


def table_name(path: str) -> str:
    """Return the name of the table at a path: `schema.name` or `name`, with `@g1` for a kept generation."""
    return ".".join(_ESCAPED.sub(_unescape, part) for part in path.split("/"))


def _escape(found: re.Match[str]) -> str:
    return "".join(f"~{byte:02x}" for byte in found[0].encode())


def _unescape(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("~", "")).decode(errors="replace")


@dataclass(frozen=True, slots=True)
class MirrorTarget:
    """The root of mirrored tables, and the options that deltalake needs to reach it. It pickles, for executors."""

    location: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The options that were given; they can have secrets."""

    @property
    def is_remote(self) -> bool:
        """True if the target is an object store."""
        return "://" in self.location

    def open_options(self) -> dict[str, str] | None:
        """Return the options for one opening of a table, as `store_options`."""
        return store_options(self.location, self.storage_options)

    def uri(self, table: PublishedTable, *, generation: int | None = None) -> str:
        """Return the address of a table; with `generation`, of one that is kept beside it."""
        return self._at(table_path(table, generation))

    def _at(self, path: str) -> str:
        return f"{self.location.rstrip('/')}/{path}"

    def open(self, table: PublishedTable | str, *, version: int | None = None) -> DeltaTable | None:
        """Open a table at its last or the given version; None if there is none.

        A name is `schema.name` or `name`, with `@g1` for a kept generation. A name with a dot can be either.

        Raise deltalake's DeltaError, also for a version that does not exist, and OSError if the store fails.
        """
        paths = [table_path(table)] if isinstance(table, PublishedTable) else table_paths(table)
        opened = (self.open_at(self._at(path), version=version) for path in paths)
        return next((delta for delta in opened if delta is not None), None)

    def open_at(self, uri: str, *, version: int | None = None) -> DeltaTable | None:
        """Open the Delta table at an address, as `open`."""
        if not self.is_remote and not (Path(uri) / LOG_FOLDER).is_dir():
            return None
        try:
            return DeltaTable(uri, version=version, storage_options=self.open_options())
        except TableNotFoundError:
            return None

    def tables(self) -> list[str]:
        """Return the names of the Delta tables in the target, kept generations (`name@g1`) included, sorted."""
        found = remote_tables(self.location, self.open_options() or {}) if self.is_remote else self._local_tables()
        return sorted(table_name(path) for path in found)

    def kept_generations(self, table: PublishedTable) -> list[int]:
        """Return the generations of a table that are kept beside it. In an object store, none is ever moved."""
        if self.is_remote:
            return []
        place = Path(self.uri(table))
        beside = place.parent.glob(f"{glob.escape(place.name)}{KEPT}*")
        found = (path.name.removeprefix(f"{place.name}{KEPT}") for path in beside)
        return sorted(int(number) for number in found if number.isascii() and number.isdigit())

    def _local_tables(self) -> list[str]:
        root = Path(self.location)
        one, two = root.glob(f"*/{LOG_FOLDER}"), root.glob(f"*/*/{LOG_FOLDER}")
        return [log.parent.relative_to(root).as_posix() for log in (*one, *two)]
