"""The rules of publication: which batches make which file, what is recorded of it, and when a table takes no more.

Consecutive staged blocks make a file, and the same blocks always give the same plan. A description of a failure never
has a row value.

The metadata chain of a generation binds each schema and published file to the last by hash. Blocks are
`{sequenceNumber, prevBlockHash, systemTime, event}`, hashed as SHA-256 over RFC 8785 canonical JSON. `SetDataSchema` is
the event of the ODF specification: the Arrow schema of the files with the row marker, as a raw flatbuffer in base64.
"""

import base64
import errno
import hashlib
import json
import math
import os
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, Final, TypeAlias
from uuid import UUID

from app.domain.model.landing_file import BatchRange, FileIdentity
from app.domain.model.table import BatchSequence, Generation
from app.domain.model.table_schema import SchemaVersion
from mirrorgate.errors import Code, InvariantBroken, MirrorgateError, StorageError, TemporarilyUnavailable

MAX_WAIT_SECONDS: Final = 60
"""Upper limit of `Retry-After` in seconds, however long the backlog is."""

_MEMORY_SECONDS: Final = 30.0
"""About how far back the average rate of publication looks."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Payload bytes and rows."""

    bytes: int = 0
    rows: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.bytes + other.bytes, self.rows + other.rows)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.bytes - other.bytes, self.rows - other.rows)


@dataclass(frozen=True, slots=True)
class Rate:
    """Payload bytes and rows per second."""

    bytes: float = 0.0
    rows: float = 0.0

    def after(self, published: Amount, seconds: float) -> "Rate":
        """Return the rate after more was published in some seconds: an exponential moving average."""
        weight = -math.expm1(-seconds / _MEMORY_SECONDS)
        return Rate(
            self.bytes + weight * (published.bytes / seconds - self.bytes),
            self.rows + weight * (published.rows / seconds - self.rows),
        )


@dataclass(frozen=True, slots=True)
class Backlog:
    """The staged batches that are not published, the age of its oldest batch, and the recent rate of publication."""

    pending: Amount = Amount()
    oldest_seconds: float = 0.0
    rate: Rate = Rate()


@dataclass(frozen=True, slots=True)
class BacklogLimit:
    """Upper limits of what is pending and of the age of its oldest batch; None for no limit."""

    bytes: int | None = None
    rows: int | None = None
    seconds: float | None = None

    def check(self, what: str, backlog: Backlog) -> None:
        """Raise TemporarilyUnavailable `backlog_full` if a limit is reached; `what` starts the sentence of its text."""
        waits = [*self._waits(backlog)]
        if waits:
            reasons, seconds = zip(*waits, strict=True)
            detail = f"{what} {' and '.join(reasons)} not yet published"
            raise TemporarilyUnavailable(Code.BACKLOG_FULL, detail, retry_after=max(seconds))

    def share(self, backlog: Backlog) -> float:
        """Return the backlog as a share of the nearest limit; from 1 on, changes are rejected."""
        pairs = (
            (backlog.pending.bytes, self.bytes),
            (backlog.pending.rows, self.rows),
            (backlog.oldest_seconds, self.seconds),
        )
        return max((amount / limit for amount, limit in pairs if limit is not None), default=0.0)

    def _waits(self, backlog: Backlog) -> Iterator[tuple[str, int]]:
        """Yield each reason to reject with the seconds to wait."""
        pending, rate = backlog.pending, backlog.rate
        if self.bytes is not None and pending.bytes >= self.bytes:
            yield f"{pending.bytes} bytes", _seconds(pending.bytes - self.bytes, rate.bytes)
        if self.rows is not None and pending.rows >= self.rows:
            yield f"{pending.rows} rows", _seconds(pending.rows - self.rows, rate.rows)
        if self.seconds is not None and backlog.oldest_seconds >= self.seconds:
            yield f"a batch of {backlog.oldest_seconds:.0f} s", _seconds(0, rate.bytes)


def _seconds(excess: int, rate: float) -> int:
    """Return the seconds to publish the `excess` at this rate, from 1 to MAX_WAIT_SECONDS."""
    if rate <= 0 or excess >= rate * MAX_WAIT_SECONDS:
        return MAX_WAIT_SECONDS
    return max(1, math.ceil(excess / rate))


MIN_FILE_BYTES: Final = 8 * 2**20
"""Payload bytes of a file that is cut only to give more tasks work, at least."""


MAX_LANDED_BYTES: Final = 2**30
"""Bytes of the rows of a file once they are decoded: payloads of rows that repeat each other take a 200th of them."""


@dataclass(frozen=True, slots=True)
class PendingBlock:
    """The facts of a staged block that is in no file yet, for the plan."""

    first_sequence: BatchSequence
    last_sequence: BatchSequence
    schema_version: SchemaVersion
    changes: int
    rows: int
    payload_bytes: int
    digest: bytes
    age_seconds: float
    ends_transaction: bool = True
    """False if the source's transaction continues in the next block."""
    landed_bytes: int = 0
    """Bytes of its rows once they are decoded."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits at which a file is full or due.

    It ends before a block that would exceed these payload bytes, rows or decoded bytes (a single block may), or when
    its oldest block is `max_delay_seconds` old, see `is_due`.
    """

    payload_bytes: int
    rows: int
    max_delay_seconds: float
    landed_bytes: int = MAX_LANDED_BYTES


def plan_files(blocks: Iterable[PendingBlock], limits: FileLimits) -> Iterator[tuple[PendingBlock, ...]]:
    """Yield blocks, given in sequence order, as files of one schema version each.

    A file ends at the end of a source transaction if it has one. The last group remains pending while it is neither
    full nor old enough.
    """
    file = _OpenFile()
    for block in blocks:
        if file.blocks and block.schema_version != file.blocks[0].schema_version:
            yield file.take(len(file.blocks))
        while file.blocks and file.would_exceed(block, limits):
            yield file.take(file.end_of_transaction())
        file.add(block)
    while file.is_full(limits) or _is_old(file.blocks[:1], limits):
        end = file.end_of_transaction()
        yield file.take(len(file.blocks) if _is_old(file.blocks[end : end + 1], limits) else end)


def plan_files_for(
    blocks: Sequence[PendingBlock], limits: FileLimits, *, slots: int
) -> Sequence[tuple[PendingBlock, ...]]:
    """Return the files of `plan_files`, cut so that each of `slots` tasks gets the same number of similar files.

    Files get no smaller than MIN_FILE_BYTES for this. The same blocks are planned, and the same remain pending.
    """
    files = list(plan_files(blocks, limits))
    planned = [block for file in files for block in file]
    size = sum(block.payload_bytes for block in planned)
    wanted = min(-(-len(files) // slots) * slots, size // MIN_FILE_BYTES)
    if slots == 1 or wanted < max(2, len(files)):
        return files
    # One block more than the share: otherwise what blocks do not fill would make one file more.
    max_bytes = -(-size // wanted) + max(block.payload_bytes for block in planned)
    return list(
        plan_files(planned, replace(limits, payload_bytes=min(max_bytes, limits.payload_bytes), max_delay_seconds=0))
    )


class _OpenFile:
    """Blocks that may become one file, with their sums."""

    def __init__(self) -> None:
        self.blocks: list[PendingBlock] = []
        self._rows = self._bytes = self._landed = 0

    def add(self, block: PendingBlock) -> None:
        """Add the next block."""
        self.blocks.append(block)
        self._rows, self._bytes = self._rows + block.rows, self._bytes + block.payload_bytes
        self._landed += block.landed_bytes

    def would_exceed(self, block: PendingBlock, limits: FileLimits) -> bool:
        """Return True if the file would exceed a limit with this block."""
        return (
            self._rows + block.rows > limits.rows
            or self._bytes + block.payload_bytes > limits.payload_bytes
            or self._landed + block.landed_bytes > limits.landed_bytes
        )

    def is_full(self, limits: FileLimits) -> bool:
        """Return True if the file has reached a limit."""
        is_large = self._bytes >= limits.payload_bytes or self._landed >= limits.landed_bytes
        return is_large or self._rows >= limits.rows

    def end_of_transaction(self) -> int:
        """Return the number of blocks up to the last end of a transaction, or of all blocks if there is none."""
        ends = (count for count in range(len(self.blocks), 0, -1) if self.blocks[count - 1].ends_transaction)
        return next(ends, len(self.blocks))

    def take(self, count: int) -> tuple[PendingBlock, ...]:
        """Remove and return the first blocks."""
        taken, rest = self.blocks[:count], self.blocks[count:]
        self.blocks, self._rows, self._bytes, self._landed = [], 0, 0, 0
        for block in rest:
            self.add(block)
        return tuple(taken)


def _is_old(blocks: Sequence[PendingBlock], limits: FileLimits) -> bool:
    return any(is_due(block.age_seconds, limits.max_delay_seconds) for block in blocks)


def is_due(age_seconds: float, max_delay_seconds: float) -> bool:
    """Return True if a batch of this age must be published now.

    A negative age means that the database's clock was set back after the batch was staged. Such a batch is due at
    once; otherwise publication would stop until the clock catches up.
    """
    return age_seconds >= max_delay_seconds or age_seconds < 0


def range_of(blocks: Sequence[PendingBlock]) -> BatchRange:
    """Return the batches that consecutive blocks contain."""
    return BatchRange(blocks[0].first_sequence, blocks[-1].last_sequence)


_REMEDIES: Final = {
    errno.ENOSPC: "Free space or inodes on that disk, or make it larger; the table is retried automatically.",
    errno.EDQUOT: "Raise the quota of the drain's account on that disk; the table is retried automatically.",
    errno.EROFS: "Mount the file system writable again; the table is retried automatically.",
    errno.EACCES: "Give the drain's account the right to read and write there.",
    errno.EPERM: "Give the drain's account the right to read and write there, and remove immutable attributes.",
    errno.EMFILE: "Raise the limit of open files of the drain's process (`ulimit -n`).",
    errno.ENFILE: "Raise the machine's limit of open files (`fs.file-max`).",
    errno.EIO: "Check the health of that disk or mount.",
    errno.ESTALE: "Mount the file system again.",
    errno.ENOENT: "Check that the landing zone is mounted on the machine of the drain and of each Spark executor; a "
    "lost file is built again automatically.",
}
_REPORT: Final = "Report it with this line and the version; the failed step is retried automatically."


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of an attempt: a stable code, a detail with its location, and a remedy."""

    code: Code
    detail: str
    remedy: str


def described(error: BaseException) -> Failure:
    """Describe any exception.

    Only strings of Mirrorgate's own errors and of the operating system are shown. Others can contain values, so the
    type and the line that raised it are shown instead.
    """
    if isinstance(error, MirrorgateError):
        return Failure(error.code, error.detail, error.remedy)
    if isinstance(error, OSError) and not isinstance(error, ConnectionError):  # Spark's gateway raises ConnectionError
        code = error.meaning if isinstance(error, StorageError) else Code.STORAGE_FAILED
        return Failure(code, _storage_text(error), _REMEDIES.get(error.errno or 0) or MirrorgateError(code, "").remedy)
    frames = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" in {frame.name} ({PurePath(frame.filename).name}:{frame.lineno})" for frame in frames)
    is_of_spark = any("py4j" in PurePath(frame.filename).parts for frame in frames)
    code, remedy = (Code.SPARK_FAILED, Code.SPARK_FAILED.remedy) if is_of_spark else (Code.INTERNAL, _REPORT)
    return Failure(code, f"{type(error).__name__}{place}", remedy)


def _storage_text(error: OSError) -> str:
    if error.errno is None:
        return str(error) or type(error).__name__
    name = errno.errorcode.get(error.errno, str(error.errno))
    where = " to ".join(str(path) for path in (error.filename, error.filename2) if path)
    return f"{name} ({error.strerror or os.strerror(error.errno)}){' at ' * bool(where)}{where}"


@dataclass(frozen=True, slots=True)
class KnownZone:
    """A landing zone as Postgres records it: its own id, and the address under which it was last used."""

    zone_id: UUID
    location: str

    def __str__(self) -> str:
        return f"zone {self.zone_id} at {self.location}"


ChainEvent: TypeAlias = Mapping[str, Any]
"""An event with its `kind`; keys are ASCII names, values are strings, integers or null."""


@dataclass(frozen=True, slots=True)
class ChainBlock:
    """One block. `previous_hash` is None for the first; `system_time` has an offset and whole microseconds."""

    sequence_number: int
    previous_hash: str | None
    system_time: datetime
    event: ChainEvent

    def canonical(self) -> bytes:
        """Return the RFC 8785 form: sorted keys, no whitespace. With integers and ASCII names only, this is exact."""
        values = {
            "event": self.event,
            "prevBlockHash": self.previous_hash,
            "sequenceNumber": self.sequence_number,
            "systemTime": self.system_time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical form, as hex."""
        return hashlib.sha256(self.canonical()).hexdigest()


def seed(table: str, generation: Generation, installation_id: UUID) -> ChainEvent:
    """Return the first event of a chain, which names its table, generation and gateway."""
    return {"kind": "Seed", "table": table, "generation": generation, "installationId": str(installation_id)}


def set_data_schema(flatbuffer: bytes) -> ChainEvent:
    """Return the event with the schema of all following files, as `schema_to_flatbuffer` writes it."""
    return {"kind": "SetDataSchema", "schema": base64.b64encode(flatbuffer).decode()}


def add_data(identity: FileIdentity, file_bytes: int, file_sha256: str, source_position: str | None) -> ChainEvent:
    """Return the event of a published file; `source_position` is that of its last change, if it has one."""
    return {
        "kind": "AddData",
        "fileNumber": identity.number,
        "rows": identity.rows,
        "firstSequence": identity.first_sequence,
        "lastSequence": identity.last_sequence,
        "contentDigest": identity.digest,
        "fileBytes": file_bytes,
        "fileSha256": file_sha256,
        "lastSourcePosition": source_position,
    }


def verify_chain(blocks: Iterable[ChainBlock]) -> int:
    """Return the number of blocks of a valid chain.

    Raises InvariantBroken `broken_chain` for a wrong number or hash, a first block that is not a Seed, data before a
    schema, or file numbers other than 1 to n.
    """
    count, files, previous, has_schema = 0, 0, None, False
    for block in blocks:
        kind = block.event["kind"]
        if block.sequence_number != count:
            raise _broken(count, f"has the number {block.sequence_number}")
        if block.previous_hash != previous:
            raise _broken(count, "does not have the hash of the block before it")
        if (kind == "Seed") != (count == 0):
            raise _broken(count, "breaks the rule that the first block, and no other, is a Seed")
        if kind == "AddData":
            files += 1
            if not has_schema:
                raise _broken(count, "adds data before a schema is set")
            if block.event["fileNumber"] != files:
                raise _broken(count, f"adds file {block.event['fileNumber']} where {files} is next")
        has_schema = has_schema or kind == "SetDataSchema"
        count, previous = count + 1, block.hash
    return count


def _broken(sequence_number: int, reason: str) -> InvariantBroken:
    return InvariantBroken(Code.BROKEN_CHAIN, f"block {sequence_number} {reason}")
