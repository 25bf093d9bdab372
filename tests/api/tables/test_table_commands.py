"""What is said about one table: its columns and chosen options, columns that stay, and that it is unknown."""

from pathlib import Path

import pytest

from tests.api.calls import Gateway, insert, problem
from tests.api.commands import Terminal


def test_a_table_is_shown_with_its_columns_and_the_options_that_are_not_the_default(
    gateway: Gateway, terminal: Terminal
) -> None:
    gateway.register("Shop.Orders", {"id": "int64", "total": "decimal(12,2)"}, ["id"], exclude=["secret"])
    lines = terminal.run("tables", "show", "shop.orders").output.splitlines()
    assert lines[:4] == [
        "Shop.Orders: active, generation 1, schema 1",
        "",
        "column  type           nullable  key  note",
        "id      int64          no          1",
    ]
    assert "accepted.rows: 0" in lines
    assert 'options.exclude: ["secret"]' in lines
    assert [line for line in lines if line.startswith("options.")] == ['options.exclude: ["secret"]']
    assert lines[-1].endswith("options at the default (--json shows all)")
    assert not any(word in line for line in lines for word in ("True", "None", "['"))
    assert max(map(len, lines)) <= 80
    assert terminal.run("tables", "show", "shop.orders", "--json").report["options"]["seed_file"] is True


def test_a_registration_with_fewer_columns_says_which_stay(gateway: Gateway, terminal: Terminal) -> None:
    whole = gateway.register("t", {"id": "int64", "a": "string", "b": "string"}, ["id"])
    assert whole.json()["undeclared_columns"] == []
    fewer = gateway.register("t", {"id": "int64", "b": "string"}, ["id"])
    assert (fewer.status_code, fewer.json()["undeclared_columns"]) == (200, ["a"])
    assert fewer.json()["schema_version"] == 1
    said = terminal.run("tables", "register", "t", "--key-column", "id", "--column", "id:int64:required").output
    assert said.splitlines()[1] == "columns that you left out remain in the table: a, b"


def test_register_sets_options_that_are_json_or_text(gateway: Gateway, terminal: Terminal) -> None:
    column = ("--key-column", "id", "--column", "id:int64:required", "--column", "at:timestamp")
    texts = {"partial_updates": "complete", "row_images": "on", "seed_file": "false", "source_timezone": "UTC"}
    options = [part for name, text in texts.items() for part in ("--option", f"{name}={text}")]
    assert terminal.run("tables", "register", "t", *column, *options).status == 0
    assert gateway.status("t")["options"].items() >= (texts | {"seed_file": False}).items()
    wrong = terminal.run("tables", "register", "t", *column, "--option", "sorcery=1")
    assert (wrong.status, "bad_option" in wrong.errors) == (1, True)
    assert terminal.run("tables", "register", "t", *column, "--option", "row_images").status == 2


@pytest.mark.parametrize("content", [b"{", b"\xff"])
def test_a_schema_for_a_recreate_that_is_not_json_is_named(content: bytes, terminal: Terminal, tmp_path: Path) -> None:
    (file := tmp_path / "schema.json").write_bytes(content)
    ended = terminal.run("tables", "recreate", "t", "--generation", "1", "--schema", file)
    assert (ended.status, f"bad_schema: {file} is not JSON" in ended.errors) == (1, True)


@pytest.mark.parametrize("name", ["shop/orders", "", ".", ".."])
def test_a_name_that_would_be_another_path_is_no_name_of_a_table(name: str, terminal: Terminal) -> None:
    ended = terminal.run("tables", "show", name)
    assert (ended.status, "bad_name" in ended.errors) == (1, True)


def test_an_unknown_table_is_named_alike_by_every_call(gateway: Gateway) -> None:
    calls = [
        gateway.get("/v1/tables/shop.none"),
        gateway.post("/v1/tables/shop.none/pause", params={"generation": 1}),
        gateway.post("/v1/tables/shop.none/loads", json={"mode": "full"}),
        gateway.rows("shop.none", {"id": 1}),
        gateway.arcion(insert("shop.none", id="1")),
    ]
    for answer in calls:
        assert problem(answer, 404, "unknown_table")["detail"] == "table shop.none is not registered"
