"""The bridge of object storage is killed and loses answers: every message lands once, in the order of its table."""

import gzip
import json
import random
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
import sqlalchemy as sa

from mirrorgate_bridge.objects.settings import BatchSettings
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import keys
from tests.api.objects.bridging import bridge_of, write
from tests.support.cli_output import first_json
from tests.support.http.faulty_proxy import Fault, Held, dropping_proxy, faulty_proxy
from tests.support.processes import started

TABLES = ("a", "b")


class History:
    """Random objects of two tables, and the messages of each table in the order of its keys."""

    def __init__(self, chance: random.Random, objects: int) -> None:
        self.files: dict[str, bytes] = {}
        self.expected: Mapping[str, list[int]] = {name: [] for name in TABLES}
        keys = sorted({f"{chance.choice('xyz')}/{chance.randrange(10**6):06}" for _ in range(objects)})
        for key in keys:
            name = chance.choice(TABLES)
            count = chance.choice([0, 1, 3, 20])
            first = len(self.expected[name])
            self.expected[name].extend(range(first, first + count))
            rows = [json.dumps({"id": number}) for number in range(first, first + count)]
            text = f"[{', '.join(rows)}]" if rows and chance.random() < 0.5 else "\n".join(rows)
            packed = chance.random() < 0.3
            self.files[f"{name}/{key}.json{'.gz' * packed}"] = gzip.compress(text.encode()) if packed else text.encode()


def landed(engine: sa.Engine) -> dict[str, list[int]]:
    return {name: keys(engine, name) for name in TABLES}


def configure(config: Path, source: Path, address: str, within: str = "30 s") -> None:
    """Write the file of the bridge: JSON is YAML."""
    settings = {
        "name": "lake", "gateway": {"url": address, "key": ADMIN_KEY, "requests": 2}, "batch": {"max_messages": 2},
        "sources": [{
            "url": str(source), "name": "in", "format": "rows", "table_from_path": "{table}/…", "settle": "0",
        }],
        "poll": "20 ms", "health": {"port": 0}, "stop": {"within": within},
    }  # fmt: skip
    config.write_text(json.dumps(settings))


def check_kills(
    gateway: Gateway, api_address: str, api_engine: sa.Engine, folder: Path, seed: int, *, kills: int, objects: int
) -> int:
    """Kill the bridge again and again at one of its next requests, while objects are added; then let it finish.

    Return how often it was killed during a request; a bridge that had little to send ended before.
    """
    chance = random.Random(seed)
    history = History(chance, objects)
    for name in TABLES:
        gateway.register(name, {"id": "int64"}, ["id"])
    config = folder / "objects.yaml"
    source = folder / "bucket"
    source.mkdir()
    names = list(history.files)

    killed = 0
    for number in range(kills):
        ready = names[len(names) * number // kills : len(names) * (number + 1) // kills]
        write(source, {name: history.files[name] for name in ready})
        kind, before = chance.choice(list(Held)), [Fault.NONE] * chance.randint(0, 5)
        with faulty_proxy(api_address, *before, kind) as proxy:
            configure(config, source, proxy.url)
            with started("mirrorgate.cli", "bridge", "objects", "--config", config, "--once") as process:
                while not proxy.held.wait(0.05) and process.poll() is None:
                    pass
                if proxy.held.is_set():
                    killed += 1
                process.kill()
                process.communicate()
            proxy.release.set()
            if proxy.held.is_set():
                assert proxy.passed.wait(60)
    configure(config, source, api_address)
    with started("mirrorgate.cli", "bridge", "objects", "--config", config, "--once", "--json") as process:
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert {table["table"] for table in first_json(output)["tables"]} == {name.partition("/")[0] for name in names}
    assert landed(api_engine) == history.expected
    return killed


def test_a_killed_bridge_continues_exactly(gateway: Gateway, tmp_path: Path) -> None:
    assert check_kills(gateway, gateway.address, gateway.engine, tmp_path, 1, kills=2, objects=12) > 0


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2, 10))
def test_a_bridge_that_is_killed_again_and_again_continues_exactly(gateway: Gateway, tmp_path: Path, seed: int) -> None:
    assert check_kills(gateway, gateway.address, gateway.engine, tmp_path, seed, kills=25, objects=200) > 15


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 6))])
def test_lost_answers_and_new_processes_repeat_nothing(gateway: Gateway, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    history = History(chance, 3 if seed == 0 else 12)
    for name in TABLES:
        gateway.register(name, {"id": "int64"}, ["id"])
    names = list(history.files)
    with dropping_proxy(gateway.address) as proxy:
        for part in (names[:1], names[1:2], names[2:]):
            write(tmp_path, {name: history.files[name] for name in part})
            bridge = bridge_of(proxy.url, tmp_path, "rows", "{table}/…")
            bridge.batch = BatchSettings(max_messages=chance.choice([7, 1000]))
            bridge.run()
    assert landed(gateway.engine) == history.expected


@pytest.mark.parametrize(("within", "sent"), [("30 s", 1), ("50 ms", 0)])
def test_sigterm_ends_the_bridge_after_its_requests_or_its_time_for_them(
    gateway: Gateway, tmp_path: Path, within: str, sent: int
) -> None:
    gateway.register("t", {"id": "int64"}, ["id"])
    source = tmp_path / "bucket"
    write(source, {"t/1": b'{"id": 1}'})
    with faulty_proxy(gateway.address, Held.ANSWERED) as proxy:
        configure(tmp_path / "objects.yaml", source, proxy.url, within)
        with started("mirrorgate.cli", "bridge", "objects", "--config", tmp_path / "objects.yaml", "--json") as process:
            assert proxy.held.wait(60)
            process.send_signal(signal.SIGTERM)
            assert process.stderr is not None
            while "Stopping after the answers" not in process.stderr.readline():
                pass
            if sent:
                proxy.release.set()
            output, _ = process.communicate(timeout=40)  # the client waits for an answer for 60 s
            proxy.release.set()
    assert process.returncode == 130
    assert first_json(output)["tables"][0]["messages"] == sent
