"""Completing partial updates over HTTP: messages of both formats, rejections, dry runs, the option on and off."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.api.calls import EMPLOYEES, REGION, Gateway, insert, problem
from tests.api.conftest import ClientWith
from tests.support.samples.messages import arcion

COLUMNS: Final = {"r_regionkey": "int32", "r_name": "string", "r_comment": "string"}


def register(gateway: Gateway, partial_updates: str = "complete", columns: dict[str, str] | None = None) -> None:
    """Register the table of the documented realtime samples."""
    options = {"partial_updates": partial_updates}
    gateway.register(REGION, columns or COLUMNS, ["r_regionkey"], **options).raise_for_status()


def sample(samples: Path, name: str) -> dict[str, Any]:
    message: dict[str, Any] = json.loads((samples / "arcion" / f"{name}.json").read_bytes())
    return message


def region_update(key: str, new_key: str | None = None, **changed: str) -> dict[str, Any]:
    """Return an update as Replicant writes it by default: the key before, the changed columns after."""
    names, exists = list(COLUMNS), dict.fromkeys(COLUMNS, "0")
    exists |= {"r_regionkey": "2" if new_key is None else "3"} | dict.fromkeys(changed, "1")
    return insert(REGION) | {
        "opType": "U",
        "before": dict.fromkeys(names, "null") | {"r_regionkey": key},
        "after": dict.fromkeys(names, "null") | {"r_regionkey": new_key or "null"} | changed,
        "exists": exists,
    }


def images(gateway: Gateway, table: str = REGION) -> int:
    kept = gateway.status(table)["row_images"]
    return 0 if kept is None else int(kept["rows"])


def dry_rows(gateway: Gateway, *messages: Any, replicate: bool = False) -> list[dict[str, Any]]:
    """Return the rows of the one table for which these messages would land."""
    post = gateway.replicate if replicate else gateway.arcion
    response = post(*messages, dry_run=True)
    assert response.status_code == 200, response.text
    [table] = response.json()["tables"]
    rows: list[dict[str, Any]] = table["rows"]
    return rows


def test_the_documented_partial_update_is_completed_from_the_row_before_it(gateway: Gateway, samples: Path) -> None:
    register(gateway)
    assert gateway.arcion(sample(samples, "realtime_insert")).status_code == 202
    whole = {"r_regionkey": 10, "r_name": "India", "r_comment": "USA", "__rowMarker__": 1}
    assert dry_rows(gateway, sample(samples, "realtime_update")) == [whole]
    response = gateway.arcion(sample(samples, "realtime_update"))
    assert response.status_code == 202
    assert response.json()["receipts"][0]["sequence"] == 2
    assert dry_rows(gateway, region_update("10", r_name="Bharat"))[0]["r_comment"] == "USA"


def test_a_dry_run_shows_stored_values_only_to_a_key_with_read(gateway: Gateway, client_with: ClientWith) -> None:
    register(gateway)
    gateway.arcion(insert(REGION, r_regionkey="1", r_name="Asia", r_comment="SECRET"))
    sender = client_with("ingest")
    answer = sender.arcion(
        region_update("1", r_name="z"), insert(REGION, r_regionkey="1", r_name="q", r_comment="w"), dry_run=True
    )
    assert "SECRET" not in answer.text
    [table] = answer.json()["tables"]
    assert table["rows"][0] == {"r_regionkey": 1, "r_name": "z", "__rowMarker__": 1}
    assert table["rows"][1]["r_comment"] == "w"
    assert table["withheld"] == [{"row": 0, "columns": ["r_comment"]}]
    assert "Asia" not in sender.arcion(region_update("1", "2"), dry_run=True).text
    for reader in (client_with("ingest", "read"), gateway):
        shown = reader.arcion(region_update("1", r_name="z"), dry_run=True).json()["tables"][0]
        assert shown["rows"][0]["r_comment"] == "SECRET"
        assert "withheld" not in shown


def test_a_dry_run_shows_the_values_of_a_flagged_row_only_to_a_key_with_read(
    gateway: Gateway, client_with: ClientWith
) -> None:
    flag = {"deletes": "flag", "row_images": "on", "audit_columns": {"deleted": "gone"}, "rename": {"note": "memo"}}
    gateway.register("t", {"id": "int64", "note": "string"}, ["id"], **flag).raise_for_status()
    gateway.rows("t", {"id": 1, "note": "SECRET"}, {"id": 2, "note": "SECRET"}).raise_for_status()
    deletes = ({"__op__": "delete", "id": key} for key in (1, 2))
    answer = client_with("ingest").rows("t", {"id": 3, "note": "n"}, *deletes, dry_run=True)
    [table] = answer.json()["tables"]
    assert table["rows"][1:] == [{"id": key, "gone": True, "__rowMarker__": 1} for key in (1, 2)]
    assert table["withheld"] == [{"row": row, "columns": ["memo"]} for row in (1, 2)]
    moved = arcion("t", {"id": "1", "note": "SECRET"}, {"id": "4", "note": "n"})
    answer = client_with("ingest").arcion(insert("t", id="5", note="n"), moved, dry_run=True)
    assert "SECRET" not in answer.text
    assert [hidden["row"] for hidden in answer.json()["tables"][0]["withheld"]] == [0, 1, 2]


def replicate(samples: Path, name: str, **changes: Any) -> dict[str, Any]:
    """Return a sample message with some keys of its body replaced."""
    message: dict[str, Any] = json.loads((samples / "replicate" / f"{name}.json").read_bytes())
    message["message"] |= changes
    return message


def employee_update(samples: Path, mask: str, **data: Any) -> dict[str, Any]:
    message = replicate(samples, "dt_update", data=data, beforeData=None)
    message["message"]["headers"] |= {"columnMask": mask, "changeMask": None}
    return message


@pytest.fixture
def employees(gateway: Gateway, samples: Path) -> Gateway:
    """Give the sample table with `partial_updates=complete` and one row."""
    gateway.replicate(replicate(samples, "md_employees")).raise_for_status()
    gateway.put(f"/v1/tables/{EMPLOYEES}", json={"options": {"partial_updates": "complete"}}).raise_for_status()
    gateway.replicate(replicate(samples, "dt_insert")).raise_for_status()
    return gateway


def test_columns_that_the_mask_says_were_not_captured_come_from_the_image(employees: Gateway, samples: Path) -> None:
    message = employee_update(samples, "05", EMPLOYEE_ID=2, NAME=None, SALARY="7.50", BADGE="FF")
    [row] = dry_rows(employees, message, replicate=True)
    assert row == {
        "EMPLOYEE_ID": 2,
        "NAME": "Grace",
        "SALARY": "7.50",
        "HIRED": None,
        "CHANGED_AT": "2026-01-05T09:30:00Z",
        "BADGE": None,
        "__rowMarker__": 1,
    }
    assert employees.replicate(message).status_code == 202
    assert images(employees, EMPLOYEES) == 1


def test_a_masked_update_of_an_unknown_row_names_what_is_missing(employees: Gateway, samples: Path) -> None:
    response = employees.replicate(employee_update(samples, "0F", EMPLOYEE_ID=9, NAME="x", SALARY="1", HIRED=None))
    errors = problem(response, 422, "incomplete_update")["errors"]
    assert [(error["pointer"], error["column"]) for error in errors] == [
        ("/message/data/CHANGED_AT", "CHANGED_AT"),
        ("/message/data/BADGE", "BADGE"),
    ]
