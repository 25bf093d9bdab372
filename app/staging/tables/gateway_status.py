"""The database's facts about the whole gateway, for the probe and the metrics: counts only, no names."""

import time

import sqlalchemy as sa

from app.domain.health.facts import GatewayFacts
from app.staging.ledger.fabric_status import fabric_facts
from app.staging.ledger.failures import FAILING_AFTER, IS_FAILING
from app.staging.ledger.leases import IS_ALIVE
from app.staging.mirror import UNCONFIRMED_SECONDS

SELECT_FACTS = sa.text(f"""
    SELECT
        (SELECT count(*) FROM mirrorgate.workers w WHERE {IS_ALIVE}) AS drains,
        (SELECT count(w.waits_for) FROM mirrorgate.workers w WHERE {IS_ALIVE}) AS waiting_drains,
        (SELECT min(w.waits_for) FROM mirrorgate.workers w WHERE {IS_ALIVE}) AS waits_for,
        (SELECT count(*) FROM mirrorgate.fabric_states m
         JOIN mirrorgate.tables t ON t.table_id = m.table_id AND t.generation = m.generation
         WHERE (m.has_failed OR m.error IS NOT NULL) AND t.state <> 'dropped') AS fabric_tables,
        (SELECT count(*) FROM mirrorgate.mirror_reports m
         JOIN mirrorgate.tables t USING (table_id, generation)
         WHERE m.state IN ('waiting', 'stopped') AND t.state <> 'dropped'
         AND m.updated_at > clock_timestamp() - make_interval(secs => {UNCONFIRMED_SECONDS})) AS stopped_mirrors,
        (SELECT count(*) FROM mirrorgate.lag
         WHERE state <> 'dropped' AND oldest_at > clock_timestamp() + interval '1 second') AS future_batches,
        (SELECT w.clock_behind_seconds FROM mirrorgate.workers w WHERE {IS_ALIVE} AND w.clock_behind_seconds IS NOT NULL
         ORDER BY abs(w.clock_behind_seconds) DESC LIMIT 1) AS drain_clock_behind,
        extract(epoch FROM clock_timestamp())::float8 AS now""")  # noqa: S608  # constant text
"""Count live and waiting drains, replication errors, tables that a running mirror cannot apply, and clock faults."""

COUNT_STATES = sa.text(f"""
    SELECT CASE WHEN {IS_FAILING} THEN 'failing' ELSE t.state END AS shown, count(*)
    FROM mirrorgate.tables t LEFT JOIN mirrorgate.table_failures f USING (table_id, generation)
    WHERE t.state <> 'dropped' GROUP BY shown ORDER BY shown""")  # noqa: S608  # constant text
"""Count the tables per state; those that fail repeatedly count as failing."""


def gateway_facts(connection: sa.Connection) -> GatewayFacts:
    """Return the counts, and how far this process's clock is behind the database's.

    The clock is compared at the middle of the statement's round trip.
    """
    before = time.time()
    row = connection.execute(SELECT_FACTS).one()
    behind = row.now - (before + time.time()) / 2
    states: dict[str, int] = dict(map(tuple, connection.execute(COUNT_STATES, {"tries": FAILING_AFTER})))
    return GatewayFacts(
        drains=row.drains,
        waiting_drains=row.waiting_drains,
        waits_for=row.waits_for,
        tables=states,
        fabric=fabric_facts(connection),
        fabric_tables=row.fabric_tables,
        stopped_mirrors=row.stopped_mirrors,
        future_batches=row.future_batches,
        clock_behind_seconds=behind,
        drain_clock_behind_seconds=row.drain_clock_behind or 0.0,
    )
