"""The program of docs/producers.md, behind a proxy that loses the first answer to each of its requests."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from app import main
from app.settings import Settings
from tests.api.calls import ADMIN_KEY, Gateway, insert
from tests.support.documents import blocks
from tests.support.dropping_proxy import DroppingProxy, dropping_proxy
from tests.support.processes import REPOSITORY
from tests.support.server import served

TABLE = "sales.orders"


@pytest.fixture
def gateway(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setattr(main, "configure_logging", lambda _: None)
    settings = Settings(database_url=SecretStr(database_url), admin_key=SecretStr(ADMIN_KEY))
    with served(settings) as address, Gateway.at(address, ADMIN_KEY) as client:
        client.register(TABLE, {"id": "int64"}, ["id"]).raise_for_status()
        yield client


@pytest.fixture
def proxy(gateway: Gateway) -> Iterator[DroppingProxy]:
    with dropping_proxy(str(gateway.base_url).rstrip("/")) as proxy:
        yield proxy


@pytest.fixture
def key(gateway: Gateway) -> str:
    """What the document gives a producer: it may post, and no more."""
    created = gateway.post("/v1/keys", json={"rights": ["ingest"], "tables": ["sales.*"]}).raise_for_status()
    return str(created.json()["key"])


@pytest.fixture
def outbox(tmp_path: Path) -> Path:
    return tmp_path / "outbox.ndjson"


def add(outbox: Path, *lines: list[str]) -> None:
    """A line for each request, with an insert for each id."""
    with outbox.open("a") as file:
        for ids in lines:
            file.write(json.dumps([insert(TABLE, id=row) for row in ids]) + "\n")


def produce(outbox: Path, url: str, key: str) -> "subprocess.CompletedProcess[str]":
    """Run the program as it stands in the document."""
    (program,) = blocks((REPOSITORY / "docs" / "producers.md").read_text(encoding="utf-8"), "python")
    script = outbox.with_name("producer.py")
    script.write_text(program, encoding="utf-8")
    environment = os.environ | {"MIRRORGATE_URL": url, "MIRRORGATE_API_KEY": key}
    return subprocess.run(
        [sys.executable, str(script), str(outbox)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def staged_rows(gateway: Gateway) -> int:
    return int(gateway.status(TABLE)["staged"]["rows"])


def test_each_line_is_staged_once_although_every_first_answer_is_lost(
    gateway: Gateway, proxy: DroppingProxy, key: str, outbox: Path
) -> None:
    add(outbox, ["1"], ["2", "3"], ["4"])
    ran = produce(outbox, proxy.url, key)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [f"line {number}: durable already" for number in (1, 2, 3)]
    assert proxy.posted() == {1: 2, 2: 2, 3: 2}
    assert staged_rows(gateway) == 4


def test_a_producer_that_is_started_again_goes_on_behind_the_last_durable_line(
    gateway: Gateway, proxy: DroppingProxy, key: str, outbox: Path
) -> None:
    add(outbox, ["1"], ["2"])
    produce(outbox, proxy.url, key)
    proxy.seen.clear()
    add(outbox, ["3"])
    ran = produce(outbox, proxy.url, key)
    assert (ran.returncode, ran.stdout) == (0, "line 3: durable already\n")
    assert proxy.posted() == {3: 2}
    assert staged_rows(gateway) == 3


def test_a_line_that_is_refused_stops_the_producer_until_it_is_mended(gateway: Gateway, key: str, outbox: Path) -> None:
    add(outbox, ["1"], ["no number"], ["3"])
    refused = produce(outbox, str(gateway.base_url), key)
    assert (refused.returncode, refused.stdout) == (1, "line 1: accepted\n")
    assert refused.stderr.startswith("line 2: bad_value: ")
    outbox.write_text(outbox.read_text().replace("no number", "2"))
    mended = produce(outbox, str(gateway.base_url), key)
    assert (mended.returncode, mended.stdout) == (0, "line 2: accepted\nline 3: accepted\n")
    assert staged_rows(gateway) == 3


def test_a_producer_without_a_valid_key_says_so(gateway: Gateway, key: str, outbox: Path) -> None:
    add(outbox, ["1"])
    refused = produce(outbox, str(gateway.base_url), key + "x")
    assert (refused.returncode, refused.stderr) == (1, "the key is not valid\n")
