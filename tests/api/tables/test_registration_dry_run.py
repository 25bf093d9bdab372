"""A dry run of a registration answers what would change, and changes nothing."""

from typing import Any

import pytest

from tests.api.calls import Gateway, problem
from tests.support.postgres import sql

T = "/v1/tables/t"
NOTHING: dict[str, Any] = {"key_columns": [], "columns": [], "nullable": [], "options": []}


def body(*columns: str, key: list[str] | None = None, **options: Any) -> dict[str, Any]:
    """Return a registration; a column is `name type` or `name type!` if it is required."""
    declared = []
    for text in columns:
        name, _, of = text.partition(" ")
        declared.append({"name": name, "type": of.removesuffix("!"), "nullable": not of.endswith("!")})
    return {"columns": declared, "key_columns": key or []} | ({"options": options} if options else {})


def changes(gateway: Gateway, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return what a dry run would change, after checking that the registration then does just that."""
    tried = gateway.put(T, params={"dry_run": True}, json=wanted)
    done = gateway.put(T, json=wanted)
    found: dict[str, Any] = tried.json()["changes"]
    assert (tried.status_code, found) == (200, done.raise_for_status().json()["changes"])
    return found


def test_a_new_table_is_told_with_its_key_columns_and_chosen_options(gateway: Gateway) -> None:
    wanted = body("id int64!", "note string", key=["id"], row_images="on", seed_file=False)
    assert gateway.put(T, params={"dry_run": True}, json=wanted).json()["generation"] == 1
    problem(gateway.get(T), 404, "unknown_table")
    assert sql.value(gateway.engine, "SELECT count(*) FROM mirrorgate.tables") == 0
    assert changes(gateway, wanted) == {
        "outcome": "created",
        "key_columns": ["id"],
        "columns": [
            {"name": "id", "type": "int64", "nullable": False},
            {"name": "note", "type": "string", "nullable": True},
        ],
        "nullable": [],
        "options": [
            {"option": "seed_file", "before": True, "after": False},
            {"option": "row_images", "before": "off", "after": "on"},
        ],
    }


def test_what_an_existing_table_gets_is_told(gateway: Gateway) -> None:
    gateway.put(T, json=body("id int64", "note string", source_timezone="Europe/Berlin")).raise_for_status()
    wanted = body("id int64", "note string", "seen date", key=["id"], source_timezone="UTC")
    assert changes(gateway, wanted) == {
        "outcome": "evolved",
        "key_columns": ["id"],
        "columns": [{"name": "seen", "type": "date", "nullable": True}],
        "nullable": [],
        "options": [{"option": "source_timezone", "before": "Europe/Berlin", "after": "UTC"}],
    }
    assert changes(gateway, wanted) == {"outcome": "unchanged", **NOTHING}
    assert changes(gateway, {"options": {"dead_letters": "accept"}}) == {
        "outcome": "configured",
        **NOTHING,
        "options": [{"option": "dead_letters", "before": "reject", "after": "accept"}],
    }


def test_a_required_column_may_become_nullable(gateway: Gateway) -> None:
    gateway.put(T, json=body("id int64!", "note string!", key=["id"])).raise_for_status()
    assert changes(gateway, body("id int64!", "note string", key=["id"]))["nullable"] == ["note"]


def test_an_override_that_came_after_its_column_does_not_change_it(gateway: Gateway) -> None:
    gateway.put(T, json=body("id int64", "note string")).raise_for_status()
    override = {"columns": {"note": {"nullable": False}}}
    assert changes(gateway, body("id int64", "note string", **override))["outcome"] == "configured"
    wide = changes(gateway, body("id int64", "note string", "seen date", **override))
    assert [column["name"] for column in wide["columns"]] == ["seen"]


def test_everything_that_does_not_fit_is_told_with_its_place(gateway: Gateway) -> None:
    gateway.put(T, json=body("a int64!", "b string", "c date!", "d date", key=["a"])).raise_for_status()
    wanted = body("a int64", "b int32", "d date!", "e date!", key=["a", "b"])
    for parameters in ({"dry_run": True}, {}):
        found = problem(gateway.put(T, params=parameters, json=wanted), 409, "incompatible_schema")
        assert [(one.get("pointer"), one["detail"]) for one in found["errors"]] == [
            ("/key_columns", "the key is (a) and cannot become (a, b)"),
            ("/columns/0", "the key column a is required and cannot become nullable"),
            ("/columns/1", "column b is string and cannot become int32"),
            (None, "column c is required and cannot be removed"),
            ("/columns/2", "column d is nullable and cannot become required"),
            ("/columns/3", "new column e must be nullable, because existing rows do not have it"),
        ]


@pytest.mark.parametrize("options", [{"initial_load": "without_marker"}, {"exclude": ["id"]}])
def test_an_option_that_cannot_be_set_is_rejected_by_both(gateway: Gateway, options: dict[str, Any]) -> None:
    gateway.put(T, json=body("id int64!", key=["id"])).raise_for_status()
    answers = [gateway.put(T, params=how, json={"options": options}) for how in ({"dry_run": True}, {})]
    assert answers[0].status_code == 422
    assert answers[0].json()["detail"] == answers[1].json()["detail"]
