"""A backfill that is killed at random places gives the images that a table has which kept them from its first batch."""

import random
from typing import Final

import pytest
import sqlalchemy as sa

from app.domain.model.change import Change
from tests.support.backfills import ask
from tests.support.gateway_parts import current, registered, stage, typed
from tests.support.processes import read_line, started
from tests.support.samples.changes import delete, insert, update
from tests.support.samples.images import KEEP, rows_of_images
from tests.support.samples.schemas import schema_of

KEYS: Final = 300
SEEDS: Final = range(5)
SCHEMA: Final = schema_of({"id": "int64", "name": "string", "at": "timestamp", "total": "decimal(9,2)"}, ["id"])


class Source:
    """A source that sends the same changes to two tables."""

    def __init__(self, engine: sa.Engine, seed: int) -> None:
        self.engine, self.random, self.keys = engine, random.Random(seed), set[int]()  # no secret

    def send(self, changes: int) -> None:
        sent: list[Change] = []
        for at in range(changes):
            key = self.random.randrange(KEYS)
            new = {"id": key, "name": f"{key} {self.random.random()}", "at": "2026-01-02 03:04:05", "total": "1.50"}
            if key not in self.keys:
                sent.append(insert(new, at))
                self.keys.add(key)
            elif self.random.random() < 0.7:
                sent.append(update(None, new, at))
            else:
                sent.append(delete({"id": key}, at))
                self.keys.remove(key)
        for name in ("kept", "late"):
            stage(self.engine, [typed(current(self.engine, name), sent)])


@pytest.mark.thorough
@pytest.mark.parametrize("seed", SEEDS)
def test_the_images_are_those_that_were_kept_from_the_start(engine: sa.Engine, seed: int) -> None:
    registered(engine, "kept", SCHEMA, KEEP)
    registered(engine, "late", SCHEMA)
    source = Source(engine, seed)
    for _ in range(5):
        source.send(100)
    registered(engine, "late", None, KEEP)
    source.send(100)
    ask(engine, "late")
    url = engine.url.render_as_string(hide_password=False)
    kills = 0
    while not current(engine, "late").images_complete:
        with started("tests.staging.images.killed_backfill", url, "late", 7) as process:
            for _ in range(source.random.randrange(1, 25)):
                if read_line(process) == "done":
                    process.wait()
                    break
            process.kill()
            process.wait()
        kills += 1
        source.send(3)
    assert kills > 1
    assert rows_of_images(engine, current(engine, "late")) == rows_of_images(engine, current(engine, "kept"))
