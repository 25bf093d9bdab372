"""The example of a history of Debezium, without the drain, and longer histories of their generator."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app.ingest import DebeziumJson
from tests.api.calls import ADMIN_KEY, own_gateway
from tests.support.documents import blocks, run_shell
from tests.support.gateway_parts import folded_rows
from tests.support.ingest_harness import open_harness
from tests.support.processes import REPOSITORY

PAGE = (REPOSITORY / "examples/debezium-history/README.md").read_text(encoding="utf-8")
GENERATOR = REPOSITORY / "examples/python/debezium_history.py"


@pytest.fixture
def address(database_url: str) -> Iterator[str]:
    with own_gateway(database_url) as gateway:
        yield gateway.address


def generated(*arguments: str) -> bytes:
    return subprocess.run([sys.executable, GENERATOR, *arguments], capture_output=True, check=True).stdout


def final_rows(*arguments: str) -> list[list[Any]]:
    """Return the rows that the generator's table has in the end, as the table of a gateway has them."""
    return [
        [row["id"], row["customer"], row["total"], moment(row["placed"]), row["paid"]]
        for row in map(json.loads, generated(*arguments, "--table").splitlines())
    ]


def moment(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def mirrored(rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """Apply landing rows in order, as Fabric does."""
    return [
        [row["id"], row["customer"], str(row["total"]), row["placed"], row.get("paid")]
        for _, row in sorted(folded_rows(rows, "id").items())
    ]


def test_the_page_can_be_followed_and_its_table_is_that_of_the_generator(
    address: str, engine: sa.Engine, tmp_path: Path
) -> None:
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / ".mirrorgate").mkdir()
    (tmp_path / ".mirrorgate" / "admin.key").write_text(ADMIN_KEY)
    start, send = blocks(PAGE, "sh")
    assert start.strip() == "make up ARGS=--mirror"
    script = send.replace("http://127.0.0.1:8480", address)
    assert blocks(PAGE, "text")[0].strip() in run_shell(script, tmp_path, COLUMNS="120")
    with open_harness(engine) as harness:
        rows = mirrored(harness.rows("public.orders"))
    assert rows == final_rows()
    shown = re.search(r"paid\n(.*?)\(5 rows\)", PAGE, re.DOTALL)
    assert shown is not None
    cells = [re.split(r"  +", line.strip()) for line in shown[1].splitlines()]
    assert cells == [[str(a), b, c, str(d), "NULL" if e is None else str(e).lower()] for a, b, c, d, e in rows]


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_a_longer_history_sent_in_parts_leaves_the_table_of_its_source(engine: sa.Engine, seed: str) -> None:
    arguments = ("--rows", "20", "--changes", "120", "--seed", seed)
    lines = generated(*arguments).splitlines()
    with open_harness(engine) as harness:
        for start in range(0, len(lines), 7):
            harness.accept(DebeziumJson(b"\n".join(lines[start : start + 7])))
        assert mirrored(harness.rows("public.orders")) == final_rows(*arguments)
