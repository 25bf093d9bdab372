"""Settles dead letters: replays them through ingestion, or discards them."""

from app.api.auth.dependencies import visible_name
from app.api.gateway import Gateway
from app.api.operations.table_operations import found_table
from app.domain.access.rights import Principal
from app.domain.model.dead_letter import WrittenMessage
from app.domain.model.names import TableName
from app.domain.model.table import Generation, Table
from app.ingest import Replays
from app.ingest.replay import ReplayedLetters
from app.observability.api_metrics import REPLAYED_LETTERS
from app.staging.batches.batch import Receipt
from app.staging.batches.dead_letters import (
    StoredLetter,
    discard_letters,
    find_letter,
    read_message,
    require_waiting,
    settled_letter,
    unknown_letter,
)
from app.staging.connection.database import Connection, translated_errors
from app.staging.tables.events import record_event
from app.staging.tables.operations import locked_table
from app.staging.tables.registry import find_table


def require_letter(connection: Connection, name: TableName, letter_id: int) -> StoredLetter:
    """Return a dead letter of a table that has or had this name. Raises RejectedInput `unknown_dead_letter`."""
    letter = find_letter(connection, name, letter_id)
    if letter is None:
        raise unknown_letter(letter_id)
    return letter


def letter_message(gateway: Gateway, table: str, letter_id: int, principal: Principal) -> WrittenMessage:
    """Return the message of a dead letter, which contains row values. Raises what `require_letter` raises."""
    name = visible_name(table, principal)
    with translated_errors(), gateway.engine.begin() as connection:
        require_letter(connection, name, letter_id)
        return read_message(connection, letter_id)


async def replay_one(
    gateway: Gateway, table: str, letter_id: int, principal: Principal, correction: bytes | None = None
) -> Receipt:
    """Accept the message of a waiting letter, or the correction in its place. Raises what `Replays.replay` raises."""
    name = visible_name(table, principal)
    receipt = await Replays(gateway.ingest).replay(name, letter_id, principal, correction)
    REPLAYED_LETTERS.inc()
    return receipt


async def replay_waiting(
    gateway: Gateway, table: str, principal: Principal, *, after: int, limit: int
) -> ReplayedLetters:
    """Accept the oldest waiting dead letters of a table, each in a separate transaction."""
    name = visible_name(table, principal)
    done = await Replays(gateway.ingest).replay_waiting(name, principal, after=after, limit=limit)
    REPLAYED_LETTERS.inc(done.replayed)
    return done


def discard_one(gateway: Gateway, table: str, letter_id: int, principal: Principal) -> int:
    """Discard a dead letter; return how many, 0 for a settled one. Raises what `require_letter` raises."""
    name = visible_name(table, principal)
    with translated_errors(), gateway.engine.begin() as connection:
        require_letter(connection, name, letter_id)
        return _discard(connection, found_table(connection, name), letter_id, letter_id, principal)


def discard_waiting(gateway: Gateway, table: str, letter_id: int, principal: Principal) -> None:
    """Discard a dead letter that waits in the table's present generation.

    Raises RejectedInput `unknown_dead_letter`, `generation_mismatch` or `dead_letter_settled`.
    """
    name = visible_name(table, principal)
    with translated_errors(), gateway.engine.begin() as connection:
        letter = require_letter(connection, name, letter_id)
        found = require_waiting(letter, find_table(connection, name))
        if not _discard(connection, found, letter_id, letter_id, principal):
            raise settled_letter(letter_id)  # another caller has settled it since


def discard_through(gateway: Gateway, table: str, generation: Generation, last: int, principal: Principal) -> int:
    """Discard the waiting dead letters of a generation through a dead letter; return how many.

    Raises RejectedInput `unknown_table` or `generation_mismatch`.
    """
    name = visible_name(table, principal)
    with translated_errors(), gateway.engine.begin() as connection:
        return _discard(connection, locked_table(connection, name, generation), 1, last, principal)


def _discard(connection: Connection, table: Table, first: int, last: int, principal: Principal) -> int:
    key_id = principal.key_id
    count = discard_letters(connection, table.table_id, table.generation, first=first, last=last, principal=key_id)
    if count:
        record_event(connection, table, key_id, "dead letters discarded", details={"letters": count, "through": last})
    return count
