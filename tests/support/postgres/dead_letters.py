"""Read and replay dead letters as their routes do."""

import asyncio
from typing import Any

import sqlalchemy as sa

from app.domain.model.dead_letter import LetterState
from app.domain.model.names import TableName
from app.ingest import Replays
from app.ingest.replay import ReplayedLetters
from app.staging.batches.batch import Receipt
from app.staging.batches.dead_letters import StoredLetter, list_letters, read_message
from tests.support.ingest_harness import ADMIN, IngestHarness
from tests.support.postgres import sql


def letters(engine: sa.Engine, table: str = "t", state: LetterState | None = None) -> list[StoredLetter]:
    """Return the dead letters of a table, in order."""
    return sql.call(engine, list_letters, TableName.parse(table), state=state, after=0, limit=100_000)


def waiting(engine: sa.Engine, table: str = "t") -> list[StoredLetter]:
    return letters(engine, table, LetterState.WAITING)


def messages(engine: sa.Engine, table: str = "t") -> list[bytes]:
    """Return the contents of a table's dead letters."""
    with engine.begin() as connection:
        return [read_message(connection, letter.letter_id).content for letter in letters(engine, table)]


def codes(engine: sa.Engine, table: str = "t") -> list[tuple[int, set[Any]]]:
    """Index and codes of each letter."""
    return [(letter.message_index, {error["code"] for error in letter.errors}) for letter in letters(engine, table)]


def replay(harness: IngestHarness, letter_id: int, correction: bytes | None = None, table: str = "t") -> Receipt:
    return asyncio.run(Replays(harness.ingest).replay(TableName.parse(table), letter_id, ADMIN, correction))


def replay_all(harness: IngestHarness, table: str = "t", *, after: int = 0, limit: int = 100) -> ReplayedLetters:
    replays = Replays(harness.ingest)
    return asyncio.run(replays.replay_waiting(TableName.parse(table), ADMIN, after=after, limit=limit))
