"""Sources, engine processes and landed rows of the tests of Debezium's connectors."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from app.landing.local_zone import LocalZone
from app.landing.publish import PARTNER_EVENTS
from app.local.embedded import find_java
from app.mirror.target import arrow_dataset
from demo.landing_reader import table_folder
from mirrorgate_zone.verify.table_verification import ZoneVerification
from tests.model.gateway import Gateway
from tests.real.counterparts import real_python
from tests.support.gateway_parts import Rows, folded
from tests.support.processes import start_program
from tests.support.waiting import wait_until

FENCE = "public.fence"
SAFE = {"source_order": "enforce", "reload": "upsert", "insert_marker": "upsert"}
"""The options of a table that documentation recommends against repeats."""

MAX_KILLS = 3
ENGINE = Path(__file__).with_name("debezium_engine.py")
_LOGGING = """\
rootLogger.level=WARN
rootLogger.appenderRef.stderr.ref=stderr
appender.stderr.type=Console
appender.stderr.name=stderr
appender.stderr.target=SYSTEM_ERR
appender.stderr.layout.type=PatternLayout
appender.stderr.layout.pattern=%d %p %c{1} %m%n
"""


@dataclass
class PostgresSource:
    """A database of the source, and the properties of a connector that reads it."""

    connection: psycopg.Connection
    address: dict[str, Any]
    number: int = 0

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement.encode())

    def rows(self, query: str, *keys: str) -> Rows:
        """Return the rows of a query by the values of their keys."""
        with self.connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            return {tuple([row[key] for key in keys]): row for row in cursor.execute(query.encode())}

    def columns(self, table: str) -> list[str]:
        return [column.name for column in self.connection.execute(f"SELECT * FROM {table} LIMIT 0").description or ()]

    def properties(self, name: str = "stream", **properties: Any) -> dict[str, Any]:
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            **{f"database.{key}": value for key, value in self.address.items()},
            "slot.name": f"{self.address['dbname']}_{name}",
            "plugin.name": "pgoutput",
            "publication.name": f"publication_{name}",
            **{key.replace("_", "."): value for key, value in properties.items()},
        }


@dataclass
class Engine:
    """Connectors that post to a gateway, in a process that can be killed and started again.

    With `kills`, a seed, the process kills itself at random points, `MAX_KILLS` times, and `check` starts it again.
    """

    gateway: Gateway
    folder: Path
    connectors: list[dict[str, Any]] = field(default_factory=list)
    process: "subprocess.Popen[bytes] | None" = None
    kills: int | None = None
    killed: int = 0

    def add(self, name: str, properties: dict[str, Any], **options: Any) -> None:
        """Add a connector with the settings that the documentation recommends."""
        common = {
            "name": name,
            "topic.prefix": name,
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": self.folder / f"{name}.offsets",
            "offset.flush.interval.ms": 100,
            "poll.interval.ms": 50,
            "tombstones.on.delete": "false",
            "key.converter.schemas.enable": "true",
            "value.converter.schemas.enable": "true",
            "key.converter.replace.null.with.default": "false",
            "value.converter.replace.null.with.default": "false",
        }
        text = {key: str(value) for key, value in (common | properties).items()}
        self.connectors.append({"properties": text, "parameters": "key_columns=id", **options})

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        given = {"url": self.gateway.url, "key": self.gateway.key, "connectors": self.connectors, "kills": self.kills}
        (self.folder / "engine.json").write_text(json.dumps(given))
        command = [real_python(), ENGINE, self.folder / "engine.json"]
        options = {"environment": java_environment(self.folder), "cwd": self.folder}
        with (self.folder / "answer.txt").open("w") as answer:
            self.process = start_program(self.folder / "log.txt", *command, **options, stdout=answer)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def check(self) -> None:
        """Fail with the gateway's answer and the engine's log if the engine has ended."""
        if self.process is None or (status := self.process.poll()) is None:
            return
        if status == -signal.SIGKILL and self.kills is not None:
            self.killed += 1
            self.kills = self.kills + 1 if self.killed < MAX_KILLS else None
            self.start()
        else:
            log = (self.folder / "log.txt").read_text()[-4000:]
            raise AssertionError(f"the engine ended with {status}: {(self.folder / 'answer.txt').read_text()}\n{log}")

    def rejection(self) -> str:
        """Wait until a request is rejected; return the code."""
        assert self.process is not None
        wait_until(lambda: self.process.poll() is not None, within=60, what="the gateway rejects an event")
        return str(json.loads((self.folder / "answer.txt").read_text())["code"])


def java_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a program with Java, whose logging a file in the folder sets."""
    (folder / "log4j2.properties").write_text(_LOGGING)
    return os.environ | {"JAVA_HOME": str(find_java(folder, os.environ))}


@contextmanager
def engine(gateway: Gateway, folder: Path) -> Iterator[Engine]:
    running = Engine(gateway, folder / "engine")
    running.folder.mkdir()
    try:
        yield running
    finally:
        running.kill()


def pass_fence(source: PostgresSource, engine: Engine, fence: str = FENCE) -> None:
    """Change a table after all others, and wait until this change has landed."""
    source.number += 1
    source.run(f"INSERT INTO {fence} VALUES ({source.number})")

    def has_passed() -> bool:
        engine.check()
        engine.gateway.publish()
        folder = table_folder(engine.gateway.zone, fence)
        return folder.exists() and (source.number,) in landed(engine.gateway, fence, "id")

    wait_until(has_passed, within=300, what="the last change lands")


def landed(gateway: Gateway, table: str, *keys: str, strict: bool = True) -> Rows:
    """Return the rows that the landing files of a table make; see `folded`."""
    return folded(gateway.zone, table, *keys, strict=strict)


def by_id(rows: list[dict[str, Any]]) -> Rows:
    """Return rows as `landed` does."""
    return {(row["id"],): row for row in rows}


def send_rows(gateway: Gateway, table: str, rows: list[dict[str, Any]]) -> Rows:
    """Send rows in one request; return them as `landed` does."""
    answer = gateway.call("POST", "/v1/changes/rows", params={"table": table}, json=rows)
    assert answer.status_code < 300, answer.text
    return by_id(rows)


def mirrored(gateway: Gateway, table: str, *keys: str) -> Rows:
    """Return the rows of the Delta table that the mirror makes."""
    rows = arrow_dataset(gateway.mirror(table)).to_table().to_pylist()
    found = {tuple([row[name] for name in keys]): row for row in rows}
    assert len(found) == len(rows), f"{table}: the mirror has a key twice"
    return found


def compare(gateway: Gateway, source: PostgresSource, table: str, *keys: str, strict: bool = True) -> int:
    """Compare landing files and Delta mirror with a table of the source, as far as it has columns; return its rows.

    Columns that the source has dropped are not compared.
    """
    wanted = source.rows(f"SELECT * FROM {table}", *keys)
    columns = source.columns(table)
    for found in (landed(gateway, table, *keys, strict=strict), mirrored(gateway, table, *keys)):
        assert found.keys() == wanted.keys(), f"{table}: rows {sorted(found.keys() ^ wanted.keys())[:20]}"
        for key, row in wanted.items():
            have = {name: found[key].get(name) for name in columns}
            assert have == row, f"{table}, row {key}: {have} is not {row}"
    return len(wanted)


def verify_zone(gateway: Gateway, *accepted: str) -> None:
    """Let `mirrorgate verify` check all files and rows of the landing zone.

    It warns of updates that leave a row without values, which these sources have. `accepted`: other codes.
    """
    verification = ZoneVerification(LocalZone(gateway.zone))
    found = [one for one in verification.run(datetime.now(UTC), lambda *_: None) if one.file != PARTNER_EVENTS]
    wrong = [one for one in found if one.code not in ("update_without_values", *accepted)]
    assert not wrong, wrong[:5]
