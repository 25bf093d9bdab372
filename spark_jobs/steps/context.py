"""The context that all steps of one drain share: the database, the claimed landing zone, and the names of both."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.checks.landing_zone import claim_landing_zone
from app.domain.model.table import Table
from app.landing.open_zone import open_zone
from app.landing.zone import LandingZone
from app.landing.zone_owner import ClaimedZone
from app.staging.connection.database import Engine, installation_id, open_engine, translated_errors
from spark_jobs.build_files import BuildConfig


@dataclass(frozen=True, slots=True)
class DrainContext:
    """The open resources of one drain. Threads share it."""

    worker_id: UUID
    config: BuildConfig
    engine: Engine
    zone: LandingZone
    claimed_zone: ClaimedZone
    installation_id: UUID


def open_context(worker_id: UUID, config: BuildConfig, *, database_seconds: float) -> DrainContext:
    """Open the database and the landing zone, and claim the zone for the database.

    `database_seconds` limits how long Postgres may take for an answer. The caller disposes of the engine. A process
    that dies inside leaves a zone that names this gateway, which the next start accepts. Raise Misconfigured
    `landing_zone_taken`, `landing_zone_changed` or `landing_zone_unusable`.
    """
    engine = open_engine(
        config.database_url, pool_size=8, application="mirrorgate drain", silence_seconds=database_seconds
    )
    try:
        zone = open_zone(config.landing_zone)
        known = claim_landing_zone(engine, config.landing_zone)
        with translated_errors(), engine.begin() as connection:
            installation = installation_id(connection)
    except Exception:
        engine.dispose()
        raise
    return DrainContext(worker_id, config, engine, zone, ClaimedZone(zone, known, installation), installation)


def log_fields(table: Table) -> dict[str, Any]:
    """Return the fields that name a table in every log line."""
    return {"table": str(table.name), "generation": table.generation}
