"""The producers of numbered requests, by name: the last number, position and time of each, for the console.

A producer stores no time. Its age is that of its last receipt, so it is unknown once retention has purged the receipt.
"""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

_SELECT_PRODUCERS = """
    SELECT p.principal, p.producer, p.last_sequence, p.position, r.created_at
    FROM mirrorgate.producers p
    LEFT JOIN mirrorgate.request_receipts r
      ON r.principal = p.principal AND r.name = p.producer AND r.producer_sequence = p.last_sequence
    WHERE p.last_sequence > 0 AND (CAST(:owner AS text) IS NULL OR p.principal = :owner)
      AND (strpos(lower(p.producer), :search) > 0 OR strpos(lower(p.principal), :search) > 0)"""
"""Read producers whose name or caller contains a text; the beginning of three statements."""

SELECT_FIRST = sa.text(f"{_SELECT_PRODUCERS} ORDER BY p.principal, p.producer LIMIT :limit")
"""Read the first producers."""

SELECT_FOLLOWING = sa.text(f"""{_SELECT_PRODUCERS}
    AND (p.principal, p.producer) > (:principal, :producer) ORDER BY p.principal, p.producer LIMIT :limit""")
"""Read the producers after one."""

SELECT_PRECEDING = sa.text(f"""{_SELECT_PRODUCERS}
    AND (p.principal, p.producer) < (:principal, :producer)
    ORDER BY p.principal DESC, p.producer DESC LIMIT :limit""")
"""Read the producers before one, in reverse."""


@dataclass(frozen=True, slots=True)
class ListedProducer:
    """A producer with its progress."""

    principal: str
    producer: str
    last_sequence: int
    position: str | None
    accepted_at: datetime | None
    """When its last number was accepted; None if the receipt is purged."""


@dataclass(frozen=True, slots=True)
class ProducerTurn:
    """Which page of the list is wanted: from its start, or from a producer on, forwards or backwards."""

    principal: str | None = None
    producer: str = ""
    backwards: bool = False


def list_producers(
    connection: sa.Connection, *, owner: str | None, search: str, turn: ProducerTurn, limit: int
) -> list[ListedProducer]:
    """Return up to `limit` producers of a page in the order of their names; those of one caller if `owner` is given."""
    parameters = {"owner": owner, "search": search.lower(), "limit": limit}
    if turn.principal is None:
        return [ListedProducer(*row) for row in connection.execute(SELECT_FIRST, parameters)]
    parameters |= {"principal": turn.principal, "producer": turn.producer}
    if not turn.backwards:
        return [ListedProducer(*row) for row in connection.execute(SELECT_FOLLOWING, parameters)]
    return [ListedProducer(*row) for row in reversed(connection.execute(SELECT_PRECEDING, parameters).all())]
