"""Comparison with the source: a real Postgres as the source, row images and Delta tables on the other side."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pytest
import sqlalchemy as sa
from deltalake import write_deltalake

from app.api.routes import loads as source_checks
from app.api.schemas.operations import (
    BucketDifferenceModel,
    DigestModel,
    RowDifferencesModel,
    SourceCheckResultModel,
)
from app.checks.source_database import SourceDatabase
from app.cli.tables import check as comparison
from app.domain.model.table_schema import Column, ColumnType
from app.domain.source_checks import Dialect, SourceQueries
from app.local.embedded import PrivatePostgres
from app.staging.connection.database import open_engine
from mirrorgate.errors import MirrorgateError
from tests.api.calls import Gateway, own_gateway, problem
from tests.api.commands import Terminal
from tests.support.postgres import sql
from tests.support.postgres.databases import create_database, database_in

TABLE: Final = "shop.orders"
PATH: Final = f"/v1/tables/{TABLE}/checks"
COLUMNS: Final = {
    "id": "int64",
    "code": "string",
    "total": "decimal(12,8)",
    "placed_on": "date",
    "changed": "timestamp",
    "is_paid": "boolean",
    "digest": "binary",
    "small": "int16",
}
SOURCE_COLUMNS: Final = (
    "id bigint, code text, total numeric, placed_on date, changed timestamptz, is_paid boolean, digest bytea, "
    "small smallint, PRIMARY KEY (id, code)"
)


def row(key: int, **more: Any) -> dict[str, Any]:
    """Return a row with the values that databases like to write differently."""
    total = ["0.00000001", "-12.5", "0", None][key % 4]
    usual = {
        "id": key,
        "code": ["a", "ä\\N", 'x"\x1f', ""][key % 4],
        "total": total,
        "placed_on": ["0001-01-01", "2026-02-28", None][key % 3],
        "changed": ["2026-11-22T10:00:00.000001Z", "1970-01-01T00:00:00Z", None][key % 3],
        "is_paid": [True, False, None][key % 3],
        "digest": ["00ff", "", None][key % 3],
        "small": key - 7,
    }
    return usual | more


@pytest.fixture
def source(postgres: PrivatePostgres) -> Iterator[sa.Engine]:
    """Give a source with a table of 40 rows."""
    engine = open_engine(create_database(postgres.url, f"source_{uuid4().hex}"))
    sql.run(engine, "CREATE SCHEMA shop")
    sql.run(engine, f"CREATE TABLE shop.orders ({SOURCE_COLUMNS})")
    store(engine, *(row(key) for key in range(40)))
    yield engine
    engine.dispose()


def store(engine: sa.Engine, *rows: dict[str, Any]) -> None:
    names = ", ".join(f":{name}" for name in COLUMNS)
    statement = sa.text(f"INSERT INTO shop.orders ({', '.join(COLUMNS)}) VALUES ({names})")
    with engine.begin() as connection:
        for one in rows:
            digest = one["digest"]
            connection.execute(statement, one | {"digest": None if digest is None else bytes.fromhex(digest)})


def url_of(engine: sa.Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


@pytest.fixture
def orders(gateway: Gateway) -> Gateway:
    """Register the table with row images, and send the rows of the source."""
    gateway.register(TABLE, COLUMNS, ["id", "code"], row_images="on").raise_for_status()
    gateway.rows(TABLE, *(row(key) for key in range(40))).raise_for_status()
    return gateway


def check(terminal: Terminal, source: sa.Engine, *more: object) -> tuple[int, dict[str, Any]]:
    ended = terminal.run("tables", "check", TABLE, "--source", url_of(source), "--pause", 0, "--json", *more)
    return ended.status, ended.report


def test_equal_rows_are_equal_in_every_type(orders: Gateway, source: sa.Engine, terminal: Terminal) -> None:
    for setting in ("standard_conforming_strings = off", "client_encoding = SQL_ASCII"):
        sql.run(source, f'ALTER DATABASE "{source.url.database}" SET {setting}')
    status, found = check(terminal, source)
    assert (status, found["equal"], found["rows"], found["source_rows"]) == (0, True, 40, 40)
    assert found["columns"] == [*COLUMNS]


def test_a_row_of_each_kind_of_difference_is_named_by_its_key(
    orders: Gateway, source: sa.Engine, terminal: Terminal
) -> None:
    sql.run(source, "UPDATE shop.orders SET total = total + 0.00000001 WHERE id = 4")
    sql.run(source, "DELETE FROM shop.orders WHERE id = 8")
    store(source, row(100))
    status, found = check(terminal, source)
    keys = {kind: [key.split("\x1f")[0] for key in found["keys"][kind]] for kind in ("missing", "surplus", "changed")}
    assert status == 1
    assert keys == {"missing": ["100"], "surplus": ["8"], "changed": ["4"]}


def test_times_are_compared_in_utc_in_every_round(orders: Gateway, source: sa.Engine, terminal: Terminal) -> None:
    sql.run(source, f"ALTER DATABASE \"{source.url.database}\" SET timezone = 'Asia/Tokyo'")
    sql.run(source, "DELETE FROM shop.orders WHERE id = 8")
    _, found = check(terminal, source, "--digits", 1)
    assert [len(found["keys"][kind]) for kind in ("missing", "surplus", "changed")] == [0, 1, 0]


def test_a_source_with_a_key_twice_is_named(orders: Gateway, source: sa.Engine, terminal: Terminal) -> None:
    twice = "(SELECT * FROM shop.orders UNION ALL SELECT * FROM shop.orders WHERE id = 3)"
    ended = terminal.run("tables", "check", TABLE, "--source", url_of(source), "--pause", 0, "--relation", twice)
    assert ended.status != 0
    assert "two rows with the same key" in ended.errors


def test_only_the_chosen_columns_count(orders: Gateway, source: sa.Engine, terminal: Terminal) -> None:
    sql.run(source, "UPDATE shop.orders SET small = 0")
    assert check(terminal, source)[0] == 1
    assert check(terminal, source, "--column", "total")[0] == 0
    assert check(terminal, source, "--expression", "small=id - 7")[0] == 0


@pytest.fixture
def mirrored(database_url: str, tmp_path: Path) -> Iterator[tuple[Gateway, Path]]:
    """Give a gateway with a mirror's target, and the folder of its Delta tables of the schema `shop`."""
    with own_gateway(database_url, mirror_target=str(tmp_path)) as client:
        yield client, tmp_path / "shop"


def test_a_table_without_row_images_is_compared_with_its_delta_table(mirrored: tuple[Gateway, Path]) -> None:
    client, folder = mirrored
    client.register(TABLE, {"id": "int64", "total": "decimal(12,8)"}, ["id"]).raise_for_status()
    problem(client.post(PATH, json={"buckets": {}}), 409, "no_row_images")
    client.post(f"/v1/changes/rows?table={TABLE}", json=[{"id": 1, "total": None}]).raise_for_status()
    client.put(f"/v1/tables/{TABLE}", json={"options": {"row_images": "on"}}).raise_for_status()
    problem(client.post(PATH, json={"buckets": {}}), 409, "no_row_images")
    totals = [None if (total := row(key)["total"]) is None else Decimal(total) for key in range(40)]
    rows = {"id": range(40), "total": pa.array(totals, pa.decimal128(12, 8))}
    write_deltalake(str(folder / "orders"), pa.table(rows))
    found = client.post(PATH, json={"buckets": {}, "against": "mirror"}).raise_for_status().json()
    assert (found["rows"], found["sequence"], found["equal"]) == (40, None, False)
    buckets = {one["bucket"]: one["gateway"] for one in found["buckets"]}
    again = client.post(PATH, json={"buckets": buckets, "against": "mirror"}).raise_for_status().json()
    assert again["equal"]


def test_the_mirror_of_a_history_cannot_be_compared(mirrored: tuple[Gateway, Path]) -> None:
    client, _ = mirrored
    client.register(TABLE, {"id": "int64"}, ["id"], history="append_only", row_images="on").raise_for_status()
    problem(client.post(PATH, json={"buckets": {}, "against": "mirror"}), 422, "not_comparable")
    client.post(PATH, json={"buckets": {}}).raise_for_status()


def test_rows_that_are_flagged_as_deleted_are_compared_on_neither_side(mirrored: tuple[Gateway, Path]) -> None:
    client, folder = mirrored
    flag = {"deletes": "flag", "row_images": "on", "audit_columns": {"deleted": "gone"}}
    client.register(TABLE, {"id": "int64"}, ["id"], **flag).raise_for_status()
    client.rows(TABLE, {"id": 1}, {"id": 2}, {"id": 1, "__op__": "delete"}).raise_for_status()
    write_deltalake(str(folder / "orders"), pa.table({"id": [1, 2, 3], "gone": [True, False, None]}))
    for against, rows in (("images", 1), ("mirror", 2)):
        checked = client.post(PATH, json={"buckets": {}, "against": against}).raise_for_status().json()
        assert checked["rows"] == rows


def test_a_check_names_what_is_wrong_with_it(orders: Gateway) -> None:
    problem(orders.post(PATH, json={}), 422, "bad_check")
    problem(orders.post(PATH, json={"buckets": {"ab": {"rows": 1, "checksum": 1}}}), 422, "bad_check")
    problem(orders.post(PATH, json={"buckets": {}, "columns": ["nope"]}), 422, "unknown_column")


def test_columns_that_left_the_source_are_not_compared(orders: Gateway, source: sa.Engine, terminal: Terminal) -> None:
    sql.run(source, "ALTER TABLE shop.orders DROP COLUMN small")
    sql.run(source, "UPDATE shop.orders SET is_paid = NOT is_paid")
    staying = {name: of for name, of in COLUMNS.items() if name != "small"}
    orders.register(TABLE, staying, ["id", "code"], exclude=["is_paid"]).raise_for_status()
    assert orders.get(f"/v1/tables/{TABLE}/schema").json()["left_columns"] == ["is_paid", "small"]
    status, found = check(terminal, source)
    assert (status, found["equal"]) == (0, True)
    assert not {"is_paid", "small"}.intersection(found["columns"])
    problem(orders.post(PATH, json={"buckets": {}, "columns": ["small"]}), 422, "not_comparable")


def test_every_bucket_of_four_digits_fits_in_a_request(orders: Gateway) -> None:
    buckets = {f"{number:04x}": {"rows": 1_000_000, "checksum": 2**51} for number in range(16**4)}
    found = orders.post(PATH, json={"buckets": buckets, "digits": 4}).raise_for_status().json()
    assert len(found["buckets"]) == 16**4
    problem(orders.post(PATH, json={"rows": {"0": {"x" * 9 * 2**20: 1}}}), 413, "body_too_large")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_result_that_is_serialized_by_bucket_keeps_all_fields(count: int) -> None:
    digest = DigestModel(rows=1, checksum=2**31)
    buckets = [BucketDifferenceModel(bucket=f"{at:x}", source=digest, gateway=digest) for at in range(count)]
    keys = RowDifferencesModel(missing=['"},"buckets":[]', "ä\x1f"], surplus=[], changed=[], count=2)
    result = SourceCheckResultModel(
        equal=False, generation=1, sequence=None, columns=['"buckets"'], rows=3, buckets=buckets, keys=keys
    )
    assert SourceCheckResultModel.model_validate_json(result.to_json()) == result


def test_rows_are_compared_in_several_requests_if_they_do_not_fit_in_one(
    orders: Gateway, source: sa.Engine, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql.run(source, "UPDATE shop.orders SET total = 7")
    monkeypatch.setattr(comparison, "MAX_ROWS", 8)
    _, found = check(terminal, source, "--digits", 2)
    assert (len(found["keys"]["changed"]), found["keys"]["count"], found["buckets_not_compared"]) == (40, 40, 0)
    monkeypatch.setattr(comparison, "MAX_GROUPS", 2)
    status, found = check(terminal, source, "--digits", 2)
    assert (status, found["equal"]) == (1, False)
    assert len(found["keys"]["changed"]) <= 16
    assert found["buckets_not_compared"] > 0


def test_a_source_that_grows_between_its_queries_is_compared_in_more_requests(
    orders: Gateway, source: sa.Engine, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql.run(source, "UPDATE shop.orders SET total = 7")
    end_transaction, later = SourceDatabase.start_again, [[row(key) for key in range(100, 160)]]

    def insert(database: SourceDatabase) -> None:
        if later:
            store(source, *later.pop())
        end_transaction(database)

    monkeypatch.setattr(SourceDatabase, "start_again", insert)
    for module in (comparison, source_checks):
        monkeypatch.setattr(module, "MAX_ROWS", 8)
    status, found = check(terminal, source, "--digits", 2)
    assert (status, len(found["keys"]["changed"]), found["buckets_not_compared"]) == (1, 40, 0)
    assert found["keys"]["missing"]


def test_a_source_in_another_encoding_has_the_same_checksums(
    gateway: Gateway, postgres: PrivatePostgres, terminal: Terminal
) -> None:
    name = f"source_{uuid4().hex}"
    server = open_engine(postgres.url)
    with server.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        encoding = "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
        connection.execute(sa.text(f'CREATE DATABASE "{name}" {encoding}'))
    server.dispose()
    engine = open_engine(database_in(postgres.url, name))
    sql.run(engine, "CREATE TABLE words (word text PRIMARY KEY)")
    sql.run(engine, "INSERT INTO words VALUES ('Käse'), ('ß')")
    gateway.register("words", {"word": "string"}, ["word"], row_images="on").raise_for_status()
    gateway.rows("words", {"word": "Käse"}, {"word": "ß"}).raise_for_status()
    ended = terminal.run("tables", "check", "words", "--source", url_of(engine), "--json")
    engine.dispose()
    assert ended.report["equal"]


def test_the_printed_queries_give_what_a_check_takes(orders: Gateway, source: sa.Engine, terminal: Terminal) -> None:
    def answer(*more: object) -> list[tuple[str, ...]]:
        printed = terminal.run("tables", "check", TABLE, "--show-sql", "postgresql", "--digits", 1, *more).output
        with source.begin() as connection:
            connection.exec_driver_sql("SET LOCAL timezone = 'Asia/Tokyo'")
            session, query = printed.split(";\n")[:2]
            connection.exec_driver_sql(session)
            return [tuple(row) for row in connection.exec_driver_sql(query.rstrip(";\n")).all()]

    buckets = {name: {"rows": rows, "checksum": int(total)} for name, rows, total in answer()}
    assert orders.post(PATH, json={"digits": 1, "buckets": buckets}).raise_for_status().json()["equal"]
    one = min(buckets)
    rows = {one: dict(answer("--bucket", one))}
    assert orders.post(PATH, json={"digits": 1, "rows": rows}).raise_for_status().json()["equal"]


def test_an_expression_needs_a_column_that_is_compared(orders: Gateway, source: sa.Engine, terminal: Terminal) -> None:
    ended = terminal.run("tables", "check", TABLE, "--source", url_of(source), "--expression", "smal=1")
    assert ended.status == 2
    assert "'smal' is not compared" in ended.errors


def test_an_empty_source_has_only_surplus_in_the_gateway(orders: Gateway) -> None:
    found = orders.post(PATH, json={"buckets": {}, "digits": 1}).raise_for_status().json()
    assert sum(one["gateway"]["rows"] for one in found["buckets"]) == found["rows"] == 40


def test_a_source_that_cannot_be_read_is_named_without_its_password(orders: Gateway, terminal: Terminal) -> None:
    ended = terminal.run("tables", "check", TABLE, "--source", "postgresql://reader:hunter2@127.0.0.1:9/shop")
    assert ended.status != 0
    assert "the source could not be read" in ended.errors
    assert "hunter2" not in ended.errors
    assert "queries for sqlite" in terminal.run("tables", "check", TABLE, "--source", "sqlite://").errors


ANSWER: Final = {
    "equal": False,
    "generation": 1,
    "sequence": 7,
    "columns": ["id"],
    "rows": 3,
    "buckets": [{"bucket": "0a", "source": {"rows": 1, "checksum": 2}, "gateway": {"rows": 0, "checksum": 0}}],
    "keys": {"missing": ["1"], "surplus": [], "changed": [], "count": 1},
}


def test_an_answer_of_a_gateway_is_taken_only_as_it_should_be() -> None:
    """Names of buckets become SQL for the source."""
    assert comparison.checked_answer(ANSWER | {"more": 1}, 2, has_keys=True) == ANSWER
    assert comparison.checked_answer(ANSWER, 2, has_keys=False)["keys"] is None
    [bucket] = ANSWER["buckets"]
    others: list[Any] = [None, [], "{}", ANSWER | {"buckets": [bucket, bucket]}, ANSWER | {"keys": {"count": 1}}]
    others += [ANSWER | {"buckets": [bucket | {"bucket": name}]} for name in ("a') OR 1=1--", "", "a", "0A", "0g", 10)]
    others += [ANSWER | {"buckets": [bucket | {"source": one}]} for one in (None, {"rows": "1; DROP", "checksum": 1})]
    others += [ANSWER | {name: value} for name in ("rows", "sequence", "generation") for value in ("1", -1, True, 1.5)]
    others += [ANSWER | {"equal": "yes"}, ANSWER | {"columns": [1]}]
    others += [ANSWER | {"keys": ANSWER["keys"] | {"surplus": [1]}}]
    others += [{name: value for name, value in ANSWER.items() if name != missing} for missing in ANSWER]
    for other in others:
        with pytest.raises(MirrorgateError, match="not one to a comparison"):
            comparison.checked_answer(other, 2, has_keys=True)


@pytest.mark.parametrize("names", [["a') OR 1=1--"], ["0", "00"], ["0g"], ["A"], ["12345"], ["a\n"], ["\u0663"]])
def test_only_names_of_buckets_become_part_of_a_query(names: list[str]) -> None:
    column = Column("id", ColumnType.parse("int64"), nullable=False)
    queries = SourceQueries.of(Dialect.POSTGRESQL, "t", [column], ["id"], {}, is_table=True)
    with pytest.raises(ValueError, match="hexadecimal"):
        queries.rows(names)
