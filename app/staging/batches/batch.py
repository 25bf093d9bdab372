"""Requests and batches as they enter staging, and the receipts that come out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple, TypeAlias

from app.domain.loads import LoadStep
from app.domain.model.dead_letter import NewLetter
from app.domain.model.request_identity import RequestIdentity, StoredAnswer
from app.domain.model.table import BatchSequence, Generation, Table, TableId
from app.domain.model.table_schema import SchemaVersion
from app.domain.rows.landing_projection import row_bytes
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.source_order import Advance

BlockKey: TypeAlias = tuple[TableId, Generation, SchemaVersion]
"""Key that all batches of one staged block share."""

BatchKey: TypeAlias = tuple[TableId, Generation, BatchSequence]
"""The identity of one staged batch, or of the block that begins with it."""


class TableMoved(Exception):
    """The table, or its source's position, has changed since the request was typed; type the request again."""


class MarkerNeeded(TableMoved):
    """Rows of a load repeat keys in a table whose files have no row marker; give it one, then type them again."""

    def __init__(self, table: Table) -> None:
        super().__init__(f"table {table.name} needs the row marker")
        self.table = table


class SchemaIdTables(NamedTuple):
    """A Replicate schema id, and the names of all live tables that it has described."""

    schema_id: str
    names: frozenset[str]


class Batch(NamedTuple):
    """The typed changes of one table from one request."""

    table: Table
    rows: LandingRows
    advances: Sequence[Advance] = ()
    """Moves of the last accepted positions of its source (`source_order=enforce`)."""
    found_by: SchemaIdTables | None = None
    """The schema id by which this process remembered the table; the sequence lock checks it."""

    @property
    def row_memory(self) -> int:
        """Return the most bytes that the rows take, beside the strings of their values."""
        return self.rows.rows * row_bytes(self.table)

    @property
    def block_key(self) -> BlockKey:
        """Return the key of the block that this batch goes into."""
        return (self.table.table_id, self.table.generation, self.table.schema_version)


@dataclass(frozen=True, slots=True)
class TableLetters:
    """The dead letters that one request leaves for one table."""

    table: Table
    letters: Sequence[NewLetter]
    principal: str


@dataclass(frozen=True, slots=True)
class LetterReplay:
    """The dead letter that a request replays, and who replays it."""

    letter_id: int
    principal: str
    corrected: bool
    """True if a corrected message is staged instead of the stored one."""


class StagingRequest(NamedTuple):
    """The batches of one request, and the other facts of its answer."""

    batches: Sequence[Batch]
    identity: RequestIdentity | None = None
    """The name under which the answer is stored, for a client that may repeat the request."""
    ignored: int = 0
    duplicates: int = 0
    letters: Sequence[TableLetters] = ()
    """The rejected messages to keep."""
    replay: LetterReplay | None = None
    """The dead letter that this request replays; it then has exactly one batch."""
    registered: Sequence[Mapping[str, str]] = ()
    """The tables that the request registered, as its answer has them."""
    load: LoadStep | None = None
    """The load session that the batches belong to; None for the stream of changes."""

    @property
    def table_ids(self) -> frozenset[TableId]:
        """Return the ids of all tables of the request."""
        ids = [batch.table.table_id for batch in self.batches]
        return frozenset([*ids, *[entry.table.table_id for entry in self.letters]] if self.letters else ids)

    @property
    def dead_letters(self) -> int:
        """Return the number of dead letters that the request leaves."""
        return sum(len(entry.letters) for entry in self.letters)

    def answer(self, receipts: Sequence["Receipt"]) -> StoredAnswer:
        """Return the answer in the form in which it is stored."""
        return {
            "receipts": [asdict(receipt) for receipt in receipts],
            "ignored": self.ignored,
            "duplicates": self.duplicates,
            "dead_letters": self.dead_letters,
            **({"registered": [*self.registered]} if self.registered else {}),
        }


class AlreadyStaged(Exception):
    """The same client has sent this request before, under the same key or number; `answer` is the stored answer."""

    def __init__(self, answer: StoredAnswer) -> None:
        super().__init__("staged before")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer for one batch, given only after COMMIT."""

    table: str
    generation: Generation
    sequence: BatchSequence
    changes: int
    rows: int
