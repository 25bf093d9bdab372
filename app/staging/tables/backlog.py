"""The backlog: what each table has accepted and not yet published, read every second at little cost.

A reading looks only at tables that lag, and of their blocks only at those that were staged or published since the
reading before. So a long backlog is summed once.
"""

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from app.domain.model.table import Generation, TableId, TableLife
from app.domain.publication import Amount
from app.staging.connection.database import read_snapshot

SELECT_LAGGING = sa.text("""
    SELECT table_id, generation, published_through, last_sequence,
        greatest(extract(epoch FROM clock_timestamp() - oldest_at), 0)::float8 AS oldest_seconds
    FROM mirrorgate.lag WHERE state NOT IN ('dropping', 'dropped')""")
"""List the tables that lag, with their counters and the age of the oldest pending batch."""

SUM_BLOCKS = sa.text("""
    SELECT part.number, coalesce(b.bytes, 0)::bigint AS bytes, coalesce(b.rows, 0)::bigint AS rows
    FROM unnest(CAST(:table_ids AS bigint[]), CAST(:generations AS integer[]), CAST(:after AS bigint[]),
        CAST(:through AS bigint[])) WITH ORDINALITY AS part (table_id, generation, after, through, number)
    CROSS JOIN LATERAL (
        SELECT sum(payload_bytes) AS bytes, sum(row_count) AS rows FROM mirrorgate.staged_blocks
        WHERE table_id = part.table_id AND generation = part.generation
          AND first_sequence > part.after AND first_sequence <= part.through) b
    ORDER BY part.number""")
"""Sum payload bytes and rows of ranges of blocks."""

_Part: TypeAlias = tuple[TableId, Generation, int, int]
"""Blocks of a table after one sequence and through another."""

_STALE_SECONDS: Final = 60.0
"""After such a pause everything is summed again: blocks that were published meanwhile may be purged."""


@dataclass(frozen=True, slots=True)
class Lagging:
    """The pending batches of a table, the age of its oldest batch, and what was published since the reading before."""

    pending: Amount
    oldest_seconds: float
    published: Amount


@dataclass(frozen=True, slots=True)
class _Known:
    published_through: int
    last_sequence: int
    pending: Amount


@dataclass
class BacklogReader:
    """Reader of the backlog of all tables, which remembers the reading before."""

    _known: dict[TableLife, _Known] = field(default_factory=dict)
    _read_at: float = float("-inf")

    def read(self, engine: sa.Engine, now: float) -> dict[TableLife, Lagging]:
        """Return the tables that lag, or lagged at the reading before, at the monotonic time `now` in seconds.

        Raises the driver's errors.
        """
        if now - self._read_at > _STALE_SECONDS:
            self._known = {}
        with read_snapshot(engine) as connection:
            rows = connection.execute(SELECT_LAGGING).all()
            new, gone = [self._new_part(row) for row in rows], [self._gone_part(row) for row in rows]
            sums = _sums(connection, [*new, *gone])
        found = self._caught_up({(row.table_id, row.generation) for row in rows})
        known = {}
        for row, added, published in zip(rows, sums[: len(rows)], sums[len(rows) :], strict=True):
            life = (TableId(row.table_id), Generation(row.generation))
            before = self._followed(row)
            if before is None and life in self._known:  # all of it, unless an older state was restored
                published = self._known[life].pending
            pending = (before.pending - published if before else Amount()) + added
            known[life] = _Known(row.published_through, row.last_sequence, pending)
            found[life] = Lagging(pending, row.oldest_seconds, published)
        self._known, self._read_at = known, now
        return found

    def _caught_up(self, lagging: set[TableLife]) -> dict[TableLife, Lagging]:
        """Return the tables that lagged at the reading before and do not lag now."""
        return {
            life: Lagging(Amount(), 0.0, known.pending) for life, known in self._known.items() if life not in lagging
        }

    def _new_part(self, row: Any) -> _Part:
        before = self._followed(row)
        after = before.last_sequence if before else row.published_through
        return row.table_id, row.generation, after, row.last_sequence

    def _gone_part(self, row: Any) -> _Part:
        before = self._followed(row)
        after = before.published_through if before else row.published_through
        return row.table_id, row.generation, after, row.published_through

    def _followed(self, row: Any) -> _Known | None:
        """Return the reading before, if this one continues from within its backlog."""
        known = self._known.get((row.table_id, row.generation))
        if known is None or known.last_sequence > row.last_sequence:
            return None
        return known if known.published_through <= row.published_through <= known.last_sequence else None


def _sums(connection: sa.Connection, parts: list[_Part]) -> list[Amount]:
    """Return the sum of the blocks of each part; empty parts cost nothing."""
    filled = {number: part for number, part in enumerate(parts) if part[3] > part[2]}
    sums = [Amount()] * len(parts)
    if filled:
        table_ids, generations, after, through = (list(column) for column in zip(*filled.values(), strict=True))
        keys = {"table_ids": table_ids, "generations": generations, "after": after, "through": through}
        rows = connection.execute(SUM_BLOCKS, keys)
        for number, row in zip(filled, rows, strict=True):
            sums[number] = Amount(row.bytes, row.rows)
    return sums
