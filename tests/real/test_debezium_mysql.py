"""Debezium's connector for MySQL, which reads a MariaDB that names itself MySQL 5.7.

The connector for MariaDB is not in the wheel, and that for MySQL asks a newer server for what MariaDB does not have.
"""

import json
import random
import struct
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.model.gateway import Gateway
from tests.real.counterparts import debezium_version, debian_program
from tests.real.debezium import SAFE, Rows, engine, landed, mirrored, pass_fence, verify_zone
from tests.real.report import Report
from tests.support.http.server import free_port
from tests.support.processes import program


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


COLUMNS: dict[str, tuple[str, list[str], Callable[[Any], Any]]] = {
    "tiny": ("tinyint", ["-128", "127"], int),
    "flag": ("tinyint(1)", ["0", "1"], int),
    "small": ("smallint unsigned", ["0", "65535"], int),
    "medium": ("mediumint", ["-8388608", "8388607"], int),
    "whole": ("int unsigned", ["4294967295"], int),
    "large": ("bigint unsigned", ["18446744073709551615", "9007199254740993"], int),
    "scaled": ("decimal(12,4)", ["-99999999.9999", "0.0001"], Decimal),
    "single": ("float", ["0.1", "-3.4e38"], lambda text: struct.unpack("f", struct.pack("f", float(text)))[0]),
    "float_": ("double", ["0.1", "-1.7976931348623157e308"], float),
    "day": ("date", ["'1000-01-01'", "'2024-02-29'"], date.fromisoformat),
    "moment": ("datetime(6)", ["'2024-02-29 23:59:59.999999'", "'1000-01-01 00:00:00'"], moment),
    "moment0": ("datetime", ["'1969-12-31 23:59:59'"], moment),
    "stamp": ("timestamp(3) NULL", ["'2024-02-29 23:59:59.999'"], moment),
    "clock": ("time(6)", ["'23:59:59.999999'", "'00:00:00'"], time.fromisoformat),
    "year_": ("year", ["1901", "2155"], int),
    "fixed": ("char(5)", ["'ab'", "''"], str),
    "varying_": ("varchar(20)", ["'\u00e9\U0001f600'", "'null'", "' x '"], str),
    "long_text": ("longtext", ["repeat('x', 20000)", "'a\"b\\\\c\\n'"], str),
    "bytes_": ("varbinary(10)", ["x'00ff10'", "x''"], bytes.fromhex),
    "blob_": ("blob", ["x'deadbeef'"], bytes.fromhex),
    "choice": ("enum('a','b c')", ["'b c'", "'a'"], str),
    "several": ("set('a','b','c')", ["'a,c'", "''"], str),
    "one_bit": ("bit(1)", ["1", "0"], bool),
    "bits": ("bit(10)", ["b'1000000011'"], lambda number: int(number).to_bytes(2, "little")),
}
"""Name, type, values as SQL, and the reader of what the query of `MariaDb.rows` prints."""

EXPRESSIONS = {"bytes_": "HEX(bytes_)", "blob_": "HEX(blob_)", "one_bit": "one_bit + 0", "bits": "bits + 0"}


class MariaDb:
    """A server in a folder, and statements by its command line client."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.number = folder, free_port(), 0
        self.client = [str(debian_program("mariadb-server", "mariadb")), "--no-defaults", "-uroot"]
        self.client += [f"--socket={folder / 's'}", "--batch", "--raw", "--skip-column-names"]
        self.client += ["--default-character-set=utf8mb4"]

    def run(self, *statements: str) -> str:
        return subprocess.run(
            self.client, input=";\n".join([*statements, ""]), capture_output=True, encoding="utf-8", check=True
        ).stdout

    def rows(self) -> Rows:
        names = ", ".join(f"CONCAT({EXPRESSIONS.get(name, name)})" for name in COLUMNS)
        found: Rows = {}
        for line in self.run(f"SELECT JSON_ARRAY(id, {names}) FROM shop.types").splitlines():
            key, *values = json.loads(line)
            found[key,] = {
                name: None if text is None else read(int(text) if name == "one_bit" else text)
                for (name, (_, _, read)), text in zip(COLUMNS.items(), values, strict=True)
            }
        return found


@pytest.fixture
def maria(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """Start a server. MariaDB lets `--version` say what it answers; the connector asks newer ones for more."""
    folder = tmp_path_factory.mktemp("m")
    given = MariaDb(folder)
    install, server = (
        debian_program("mariadb-server", "mariadb-install-db"),
        debian_program("mariadb-server", "mariadbd"),
    )
    common = ["--no-defaults", "--user=root", f"--datadir={folder / 'data'}"]
    subprocess.run([install, *common, "--auth-root-authentication-method=normal"], capture_output=True, check=True)
    options = [f"--socket={folder / 's'}", f"--port={given.port}", "--bind-address=127.0.0.1", "--log-bin=b"]
    options += ["--version=5.7.19-log", "--binlog-format=ROW", "--server-id=7", "--default-time-zone=+00:00"]
    options += ["--character-set-server=utf8mb4", "--skip-innodb-flush-sync"]

    def answers() -> bool:
        return subprocess.run([*given.client, "-e", ""], capture_output=True).returncode == 0

    with program(folder / "log", server, *common, *options, ready=answers):
        given.run("CREATE USER d@'127.0.0.1' IDENTIFIED BY 'p'", "GRANT ALL ON *.* TO d@'127.0.0.1'")
        yield given


def sql_row(number: int) -> str:
    return f"({number}, {', '.join(samples[number % len(samples)] for _, samples, _ in COLUMNS.values())})"


def test_a_snapshot_and_the_stream_of_a_killed_engine_leave_the_rows_of_the_source(
    gateway: Gateway, maria: MariaDb, tmp_path: Path, report: Report
) -> None:
    maria.run(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.fence (id int PRIMARY KEY)",
        f"CREATE TABLE shop.types (id int PRIMARY KEY, {', '.join(f'{name} {c[0]}' for name, c in COLUMNS.items())})",
        f"INSERT INTO shop.types VALUES {', '.join(map(sql_row, range(30)))}",
        "INSERT INTO shop.types (id) VALUES (99)",
    )
    for table in ("types", "fence"):
        gateway.register(f"shop.{table}", {"id": "int32"}, **SAFE)
    properties = {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        **{
            "database.hostname": "127.0.0.1",
            "database.port": maria.port,
            "database.user": "d",
            "database.password": "p",
        },
        **{"database.server.id": 99, "database.include.list": "shop", "bigint.unsigned.handling.mode": "precise"},
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": tmp_path / "history.dat",
        "max.batch.size": 64,
    }
    dice = random.Random(5)
    with engine(gateway, tmp_path) as running:
        running.add("maria", properties, batch=5)
        running.kills = 9000
        running.start()
        pass_fence(maria, running, "shop.fence")
        for _ in range(200):
            number, name = dice.randrange(60), dice.choice([*COLUMNS])
            value = dice.choice(["NULL", *COLUMNS[name][1]])
            maria.run(
                dice.choice(
                    (
                        f"INSERT IGNORE INTO shop.types VALUES {sql_row(number)}",
                        f"UPDATE shop.types SET {name} = {value} WHERE id >= {number}",
                        f"UPDATE IGNORE shop.types SET id = id + 1 WHERE id = {number}",
                        f"DELETE FROM shop.types WHERE id BETWEEN {number} AND {number + 2}",
                        f"BEGIN; DELETE FROM shop.types; REPLACE INTO shop.types VALUES {sql_row(number)}; ROLLBACK",
                    )
                )
            )
        pass_fence(maria, running, "shop.fence")
        assert running.killed
    wanted = maria.rows()
    for table in (landed(gateway, "shop.types", "id"), mirrored(gateway, "shop.types", "id")):
        assert table.keys() == wanted.keys()
        for key, row in wanted.items():
            have = {name: table[key][name] for name in COLUMNS}
            have["clock"] = have["clock"] and time.fromisoformat(have["clock"])
            wrong = {name: (row[name], have[name]) for name in COLUMNS if row[name] != have[name]}
            assert not wrong, f"row {key}: {wrong}"
    verify_zone(gateway)
    report.add(f"Debezium {debezium_version()}, MariaDB as MySQL 5.7", len(wanted))
