"""Commands run against the real API, and what they staged."""

import json
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from tests.api.calls import ADMIN_KEY, insert
from tests.support.cli_output import Ended
from tests.support.cli_output import Terminal as CommandLine
from tests.support.http.faulty_proxy import Fault, faulty_proxy
from tests.support.samples.images import staged_rows


@dataclass
class Terminal(CommandLine):
    """Runs `mirrorgate` in this process, with a gateway and a key."""

    address: str

    def run(self, *arguments: object, typed: str | None = None) -> Ended:
        return super().run(*arguments, "--url", self.address, "--key", ADMIN_KEY, typed=typed)

    def be_interrupted(self, requests: int, *arguments: object) -> None:
        """Run a command that gives up: after this many requests, its gateway is busy and stays so."""
        with faulty_proxy(self.address) as proxy:
            proxy.faults = [Fault.NONE] * requests + [Fault.BUSY] * 50
            ended = replace(self, address=proxy.url).run(*arguments, "--give-up-after", 0)
        assert ended.status == 3, ended.errors

    def succeed(self, *arguments: object) -> Ended:
        """Run a command that must end with 0."""
        ended = self.run(*arguments)
        assert ended.status == 0, ended.errors
        return ended


def keys(engine: sa.Engine, name: str = "t") -> list[int]:
    """Return the first column of what `staged` returns."""
    return [row[0] for row in staged(engine, name)]


def staged(engine: sa.Engine, name: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table as staged, without their markers."""
    return [tuple(row.values())[:-1] for row in staged_rows(engine, name)]


def lines(count: int, first: int = 0, table: str = "t", **changed: str) -> list[bytes]:
    """Return inserts into a table; `changed` replaces the keys of some, `_3="x"` that of message 3."""
    return [
        json.dumps(insert(table, id=changed.get(f"_{key}", str(key)), note="x" * 50)).encode()
        for key in range(first, first + count)
    ]
