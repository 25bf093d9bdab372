"""What goes into staging, and what comes out of it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

from app.domain.model.request_identity import Answer, RequestIdentity
from app.domain.model.table import BatchSequence, Generation, Table, TableId
from app.domain.model.table_schema import SchemaVersion
from app.domain.rows.landing_rows import LandingRows
from app.staging.batches.dead_letters import LetterReplay, TableLetters

BlockKey: TypeAlias = tuple[TableId, Generation, SchemaVersion]
BatchKey: TypeAlias = tuple[TableId, Generation, BatchSequence]


class TableMoved(Exception):
    """A table, or its source's position, is not as it was when the request was typed: type it again."""


@dataclass(frozen=True, slots=True)
class SourceAdvance:
    """How a batch moves the last accepted change sequence of a source task (`source_order=enforce`)."""

    task: str
    seen: str | None
    """The position under which duplicates were dropped."""
    last: str


@dataclass(frozen=True, slots=True)
class Batch:
    """The typed change batch of one table from one request."""

    table: Table
    rows: LandingRows
    advances: Sequence[SourceAdvance] = ()

    @property
    def block_key(self) -> BlockKey:
        return (self.table.table_id, self.table.generation, self.table.schema_version)


@dataclass(frozen=True, slots=True)
class StagingRequest:
    """The batches of one request, and what else its answer says."""

    batches: Sequence[Batch]
    identity: RequestIdentity | None = None
    """Under which the answer is kept, for a caller that may repeat the request."""
    ignored: int = 0
    duplicates: int = 0
    letters: Sequence[TableLetters] = ()
    """The rejected messages to keep."""
    replay: LetterReplay | None = None
    """The dead letter that this request replays; it has one batch."""

    @property
    def tables(self) -> list[Table]:
        """All tables that the request is for, as they were when it was typed."""
        return [batch.table for batch in self.batches] + [entry.table for entry in self.letters]

    @property
    def dead_letters(self) -> int:
        return sum(len(entry.letters) for entry in self.letters)

    def answer(self, receipts: Sequence["Receipt"]) -> Answer:
        """The answer as it is kept."""
        return {
            "receipts": [asdict(receipt) for receipt in receipts],
            "ignored": self.ignored,
            "duplicates": self.duplicates,
            "dead_letters": self.dead_letters,
        }


class AlreadyStaged(Exception):
    """The request was staged before, by the same caller under the same key or number; `answer` is what it got."""

    def __init__(self, answer: Answer) -> None:
        super().__init__("staged before")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer for one change batch, given only after commit."""

    table: str
    generation: Generation
    sequence: BatchSequence
    changes: int
    rows: int
