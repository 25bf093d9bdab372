"""Rows of a mirrored table over HTTP: which version, how many, as which JSON, and for whom."""

import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pydantic import SecretStr
from structlog.testing import capture_logs

from app import extras, main
from app.api import gateway as mirror_rows
from app.mirror import typed_rows
from app.settings import Settings
from tests.api.calls import ADMIN_KEY, Gateway, insert, own_gateway, problem
from tests.support.http.server import api_process, stopped
from tests.support.samples.schemas import schema_of

PATH = "/v1/tables/sales.orders/rows"
IDS = pa.schema([("id", pa.int64())])


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "mirror"


@pytest.fixture
def mirrored(database_url: str, target: Path) -> Iterator[Gateway]:
    """Give a client of an API that knows the target of a mirror, with the table `sales.orders` registered."""
    with own_gateway(database_url, mirror_target=str(target)) as client:
        client.register("sales.orders", {"id": "int64"}, ["id"]).raise_for_status()
        yield client


def write(target: Path, *versions: pa.Table) -> Path:
    """Append each of these to the Delta table of `sales.orders`, one version each."""
    path = target / "sales" / "orders"
    for rows in versions:
        write_deltalake(str(path), rows, mode="append", schema_mode="merge")
    return path


def ids(*keys: int) -> pa.Table:
    return pa.table({"id": list(keys)}, schema=IDS)


def read(client: Gateway, **query: Any) -> dict[str, Any]:
    page: dict[str, Any] = client.get(PATH, params=query).raise_for_status().json()
    return page


def keys(page: dict[str, Any]) -> list[int]:
    return sorted(row["id"] for row in page["rows"])


def test_rows_are_read_at_the_newest_and_at_any_older_version(mirrored: Gateway, target: Path) -> None:
    write(target, ids(1, 2), ids(3), ids(4, 5))
    page = read(mirrored)
    assert page | {"rows": []} == {
        "table": "sales.orders",
        "version": 2,
        "columns": [{"name": "id", "type": "int64"}],
        "rows": [],
        "has_more": False,
    }
    assert keys(page) == [1, 2, 3, 4, 5]
    assert [keys(read(mirrored, version=version)) for version in range(3)] == [[1, 2], [1, 2, 3], [1, 2, 3, 4, 5]]


def test_the_limit_is_a_hundred_rows_and_a_thousand_at_most(mirrored: Gateway, target: Path) -> None:
    write(target, ids(*range(600)), ids(*range(600, 1_001)))
    assert [(len(read(mirrored)["rows"]), read(mirrored)["has_more"])] == [(100, True)]
    page = read(mirrored, limit=1_000)
    assert (len({*keys(page)}), page["has_more"]) == (1_000, True)
    page = read(mirrored, limit=600, version=0)
    assert (keys(page), page["has_more"]) == ([*range(600)], False)
    for limit in (0, 1_001, "many", "1_0"):
        problem(mirrored.get(PATH, params={"limit": limit}), 400, "bad_request")


def test_a_version_that_does_not_exist_is_404_unknown_version(mirrored: Gateway, target: Path) -> None:
    path = write(target, ids(1), ids(2))
    told = problem(mirrored.get(PATH, params={"version": 2}), 404, "unknown_version")
    assert told["detail"] == "sales.orders has no version 2; its newest version is 1"
    problem(mirrored.get(PATH, params={"version": -1}), 400, "bad_request")
    table = DeltaTable(str(path))
    for _ in range(10):
        write(target, ids(9))
    DeltaTable(str(path)).create_checkpoint()
    log = sorted((path / "_delta_log").glob("*.json"))
    for entry in log[:5]:
        entry.unlink()
    problem(mirrored.get(PATH, params={"version": 1}), 404, "unknown_version")
    assert len(read(mirrored)["rows"]) == 12
    assert table.version() == 1


def test_a_version_whose_files_were_vacuumed_is_404_unknown_version(mirrored: Gateway, target: Path) -> None:
    path = write(target, ids(1))
    write_deltalake(str(path), ids(2), mode="overwrite")
    DeltaTable(str(path)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    problem(mirrored.get(PATH, params={"version": 0}), 404, "unknown_version")
    assert keys(read(mirrored)) == [2]
    for file in path.glob("*.parquet"):
        file.unlink()
    told = problem(mirrored.get(PATH), 404, "unknown_version")
    assert ("or it was lost" in told["detail"], "delete the Delta table" in told["remedy"]) == (True, True)


def test_a_table_without_a_delta_table_is_404_not_mirrored(mirrored: Gateway) -> None:
    problem(mirrored.get(PATH), 404, "not_mirrored")
    problem(mirrored.get("/v1/tables/none/rows"), 404, "unknown_table")


def test_an_api_without_a_target_reads_no_rows(gateway: Gateway) -> None:
    gateway.register("sales.orders", {"id": "int64"}, ["id"])
    told = problem(gateway.get(PATH), 404, "not_mirrored")
    assert "MIRRORGATE_MIRROR_TARGET" in told["detail"]


def test_a_target_that_cannot_be_read_is_503_and_names_no_address(mirrored: Gateway, target: Path) -> None:
    path = write(target, ids(1))
    for file in path.glob("*.parquet"):
        file.write_bytes(b"no Parquet")
    told = problem(mirrored.get(PATH), 503, "mirror_away")
    assert str(target) not in json.dumps(told)


def test_a_target_that_does_not_answer_delays_no_other_route(
    mirrored: Gateway, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data file is a pipe that nothing writes into, so reading it waits until the end of the test."""
    monkeypatch.setattr(mirror_rows, "ANSWER_SECONDS", 0.5)
    path = write(target, ids(1))
    [file] = path.glob("*.parquet")
    file.unlink()
    os.mkfifo(file)
    try:
        with ThreadPoolExecutor(4) as callers:
            answers = [callers.submit(mirrored.get, PATH) for _ in range(4)]
            assert mirrored.get("/v1/tables").status_code == 200
            for answer in answers:
                problem(answer.result(), 503, "mirror_away")
    finally:
        os.close(os.open(file, os.O_WRONLY))
        file.unlink()


COLUMNS = {
    "id": "int64",
    "small": "int16",
    "flag": "boolean",
    "ratio": "float64",
    "price": "decimal(20,4)",
    "day": "date",
    "at": "timestamp",
    "note": "string",
    "bytes": "binary",
}
ROW = {
    "id": 2**63 - 1,
    "small": -3,
    "flag": True,
    "ratio": 0.1,
    "price": Decimal("1234567890123456.7800"),
    "day": date(1, 2, 3),
    "at": datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    "note": 'ü"\n',
    "bytes": b"\x00\xff",
}


def test_values_are_written_as_a_dry_run_writes_them(mirrored: Gateway, target: Path) -> None:
    mirrored.register("sales.typed", COLUMNS, ["id"]).raise_for_status()
    sent = {name: str(value) for name, value in ROW.items()} | {"flag": "true", "bytes": "00ff", "ratio": "0.1"}
    sent["at"] = "9999-12-31T23:59:59.999999Z"
    odd = dict.fromkeys(COLUMNS) | {"id": "1", "ratio": "NaN"}
    dry = mirrored.arcion(insert("sales.typed", **sent), insert("sales.typed", **odd), dry_run="true").json()
    expected = [{name: row[name] for name in COLUMNS} for row in dry["tables"][0]["rows"]]
    schema = schema_of(COLUMNS, ["id"]).arrow.remove(len(COLUMNS))  # the row marker
    rows = pa.Table.from_pylist([ROW, dict.fromkeys(ROW) | {"id": 1, "ratio": float("nan")}], schema=schema)
    write_deltalake(str(target / "sales" / "typed"), rows)
    page = mirrored.get("/v1/tables/sales.typed/rows").raise_for_status().json()
    assert page["rows"] == expected
    assert {column["name"]: column["type"] for column in page["columns"]} == COLUMNS


def test_a_column_that_is_younger_than_a_row_is_null_in_it(mirrored: Gateway, target: Path) -> None:
    write(target, ids(1), pa.table({"id": [2], "note": ["n"]}))
    assert sorted(read(mirrored)["rows"], key=lambda row: row["id"]) == [
        {"id": 1, "note": None},
        {"id": 2, "note": "n"},
    ]
    assert read(mirrored, version=0)["rows"] == [{"id": 1}]


def test_a_page_ends_when_it_is_large(mirrored: Gateway, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_rows, "MAX_PAGE_BYTES", 10_000)
    write(target, pa.table({"id": [*range(9)], "note": ["n" * 4_000] * 9}))
    page = read(mirrored)
    assert (len(page["rows"]), page["has_more"]) == (2, True)
    monkeypatch.setattr(typed_rows, "MAX_PAGE_BYTES", 1)
    page = read(mirrored)
    assert (len(page["rows"]), page["has_more"]) == (1, True)


@pytest.mark.slow
def test_row_values_are_in_no_log_and_in_no_error(database_url: str, target: Path) -> None:
    canary = "canary41x7391"
    path = write(target, pa.table({"id": [1], "note": [canary]}))
    with (
        api_process(database_url, ADMIN_KEY, MIRROR_TARGET=str(target)) as (process, address),
        Gateway.at(address, ADMIN_KEY) as client,
    ):
        client.register("sales.orders", {"id": "int64"}, ["id"]).raise_for_status()
        assert canary in client.get(PATH).text
        shutil.rmtree(path / "_delta_log")
        (path / "_delta_log").mkdir()
        (path / "_delta_log" / f"{0:020}.json").write_text(f'{{"{canary}')
        answer = client.get(PATH)
        problem(answer, 503, "mirror_away")
        written = stopped(process)
    assert canary not in answer.text + written
    assert "/v1/tables/{table}/rows" in written


def test_without_the_extra_the_api_starts_and_reads_no_rows(
    database_url: str, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "configure_logging", lambda _: None)
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "deltalake" else find_spec(name))
    with capture_logs() as logs:
        main.check_start(Settings(database_url=SecretStr(database_url), mirror_target=str(target)))
    [warning] = [line for line in logs if line.get("check") == "mirror_rows"]
    assert "mirrorgate-gateway[rows]" in warning["remedy"]
    with own_gateway(database_url, mirror_target=str(target)) as client:
        client.register("sales.orders", {"id": "int64"}, ["id"]).raise_for_status()
        check = {"buckets": {}, "against": "mirror"}
        for answer in (client.get(PATH), client.post("/v1/tables/sales.orders/checks", json=check)):
            assert "mirrorgate-gateway[rows]" in problem(answer, 404, "not_mirrored")["remedy"]
