"""How far `mirrorgate send` has come: in the current stream, and for each table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.client.chunking.chunks import Chunk


@dataclass
class TableProgress:
    """What one table has accepted in this run."""

    generation: int
    last_sequence: int
    changes: int = 0
    rows: int = 0


@dataclass
class Progress:
    """What was sent so far. Everything before `next_message` of the stream was accepted or skipped.

    The fields are keys of the output of `mirrorgate send --json`.
    """

    next_message: int = 0
    requests: int = 0
    changes: int = 0
    ignored: int = 0
    duplicates: int = 0
    repeated: int = 0
    """Requests that were already durable before this run."""
    bytes: int = 0
    """Bytes of the stream, decompressed, that are done."""
    files: int = 0
    """Streams that were sent completely."""
    tables: dict[str, TableProgress] = field(default_factory=dict)
    in_doubt: tuple[int, int] | None = None
    """First and last message of a request that was sent and never answered."""

    def begin(self, skip: int) -> None:
        """Start a stream, without its first `skip` messages."""
        self.next_message, self.bytes, self.in_doubt = skip, 0, None

    def record(self, chunk: Chunk, answer: Mapping[str, Any], *, is_earlier: bool = False) -> None:
        """Count an answered chunk; `is_earlier` if it was already durable before this run."""
        self.next_message, self.bytes, self.in_doubt = chunk.after, chunk.end, None
        if is_earlier:
            self.repeated += 1
            return
        self.requests += 1
        self.ignored += answer["ignored"]
        self.duplicates += answer["duplicates"]
        for receipt in answer["receipts"]:
            self.changes += receipt["changes"]
            table = self.tables.setdefault(receipt["table"], TableProgress(receipt["generation"], receipt["sequence"]))
            table.generation, table.last_sequence = receipt["generation"], receipt["sequence"]
            table.changes += receipt["changes"]
            table.rows += receipt["rows"]
