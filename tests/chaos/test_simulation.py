"""Chaos from a fixed seed, without Spark: drains die and pause everywhere, storage fails, and no change is lost."""

from pathlib import Path

import sqlalchemy as sa

from tests.chaos.simulation import simulation


def test_whatever_dies_or_fails_everything_acknowledged_lands_once_and_in_order(
    engine: sa.Engine, database_url: str, tmp_path: Path
) -> None:
    with simulation(engine, database_url, tmp_path, seed=4) as history:
        history.run(steps=150)
        events = history.drains.events
        assert history.oracle.rows_checked > 400
        assert sum(count for event, count in events.items() if event.startswith("killed")) > 10
        assert sum(count for event, count in events.items() if event.startswith("storage")) > 10
        assert sum(count for event, count in events.items() if event.startswith("unforeseen")) > 5
        assert events["clock set back"] > 2
        assert events["zone lost"] > 5
