"""The YAML of a manifest is read strictly; errors name the file, line and path. What is exported is read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from app.api.schemas.tables import RegisterTable, declared_schema
from app.domain.model.table_options import CHOSEN_AT_CREATION, DEFAULT_OPTIONS
from app.table_manifest import PresentTable, read_manifest, to_manifest
from app.yaml_text import BadFile
from tests.client.table_manifest.tables import as_registered, declared_tables

ORDERS = """\
tables:
  - name: sales.orders
    key_columns: [id]
    columns:
      - {name: id, type: int64, nullable: false}
      - {name: amount, type: "decimal(12, 2)"}
"""


def rejection(text: str) -> BadFile:
    with pytest.raises(BadFile) as raised:
        read_manifest(text, "tables.yaml")
    return raised.value


def test_a_table_has_its_columns_its_keys_and_every_option_that_can_change() -> None:
    (table,) = read_manifest(
        ORDERS + "    options: {partial_updates: complete, sources: [a.b], seed_file: true}\n", "f"
    )
    assert str(table.name) == "sales.orders"
    assert table.location == "f, line 2"
    declared = dict(table.registration)
    options = declared.pop("options")
    assert declared == {
        "key_columns": ["id"],
        "columns": [
            {"name": "id", "type": "int64", "nullable": "false"},
            {"name": "amount", "type": "decimal(12, 2)"},
        ],
    }
    assert {name for name, value in options.items() if value != DEFAULT_OPTIONS.to_json()[name]} == {
        "partial_updates",
        "sources",
        "seed_file",
    }
    assert DEFAULT_OPTIONS.to_json().keys() - options.keys() == CHOSEN_AT_CREATION - {"seed_file"}


@pytest.mark.parametrize("name", ["no", "on", "null", "1e3", "2026-01-01", "0x10", "=", "<<"])
def test_a_name_is_the_text_as_written(name: str) -> None:
    (table,) = read_manifest(f"tables:\n- name: t\n  columns: [{{name: {name}, type: string}}]\n", "f")
    assert table.registration["columns"] == [{"name": name, "type": "string"}]


def test_anchors_may_save_repetition() -> None:
    text = "tables:\n- {name: a, columns: &columns [{name: x, type: date}]}\n- {name: b, columns: *columns}\n"
    first, second = read_manifest(text, "f")
    assert first.registration == second.registration


@pytest.mark.parametrize(
    ("before", "after", "place", "said"),
    [
        ("type: int64", "type: !!int 64", "line 5: tables[0].columns[0].type", "has a tag"),
        ("type: int64", "type:", "line 5: tables[0].columns[0].type", "has no value"),
        ("name: sales.orders", "name: !!int 5", "line 2: tables[0].name", ": has a tag"),
        ("name: sales.orders", "name: a.b.c", "line 2: tables[0].name", "must be name or schema.name"),
        ("name: sales.orders", "title: orders", "line 2: tables[0]", "'name' is missing"),
        ("key_columns: [id]", "name: again", "line 3: tables[0].name", "is already on line 2"),
        ("tables:", "table:", "line 1: table", "unknown key"),
        ("tables:", "--- a\n---\ntables:", "line 2", "not a single YAML document"),
        ("tables:", "tables: [", "line 2", "not a single YAML document"),
        ("amount", "am\x07ount", "line 6", "a character that YAML does not allow"),
    ],
)
def test_what_is_wrong_is_named_by_line_and_path(before: str, after: str, place: str, said: str) -> None:
    error = rejection(ORDERS.replace(before, after))
    assert error.detail.startswith(f"tables.yaml, {place}: ")
    assert error.detail.count("tables.yaml") == 1
    assert said in error.detail


def test_everything_that_is_wrong_is_told_at_once() -> None:
    text = ORDERS.replace("int64", "!!int 64").replace("amount", "") + "    columns: []\n"
    error = rejection(text + ORDERS.partition("\n")[2].replace("sales.orders", "_x"))
    details = [error.detail, *(problem["detail"] for problem in error.errors)]
    assert [detail.split(": ")[1] for detail in details] == [
        "tables[0].columns",
        "tables[0].columns[0].type",
        "tables[0].columns[1].name",
        "tables[1].name",
    ]


def test_a_table_declared_twice_is_rejected_in_any_letter_case() -> None:
    error = rejection(ORDERS + ORDERS.partition("\n")[2].replace("sales", "Sales"))
    assert "tables[1].name: the table is already declared at tables.yaml, line 2" in error.detail


@pytest.mark.parametrize("sources", ["[shop.x]", "[y, Shop.X]", "[sales.orders]"])
def test_a_source_that_another_table_has_or_is_is_rejected(sources: str) -> None:
    text = ORDERS + "    options: {sources: [shop.x, SHOP.x]}\n"
    text += f"  - {{name: other, columns: [{{name: id, type: int64}}], options: {{sources: {sources}}}}}\n"
    error = rejection(text)
    place = sources.count(",")
    assert f"line 8: tables[1].options.sources[{place}]: is also the table at tables.yaml, line 2" in error.detail
    kept_apart = text.replace(sources, "[sales.ORDERS, y]")  # a source in another letter case can be another table
    assert len(read_manifest(kept_apart, "f")) == 2


def test_null_means_no_value_for_an_option_that_has_none_by_default() -> None:
    (table,) = read_manifest(ORDERS + "    options: {binary_encoding: null, filter: ~, exclude: [null]}\n", "f")
    options = table.registration["options"]
    assert (options["binary_encoding"], options["filter"], options["exclude"]) == (None, None, ["null"])


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "tables:\n", "- a\n", "*a", "a: &a [*a]", "tables: [{name: a, columns: &a [*a]}]", "[" * 5_000],
)
def test_a_text_that_declares_no_tables_is_rejected(text: str) -> None:
    assert rejection(text).detail.startswith("tables.yaml")


_REGISTRATION = TypeAdapter(RegisterTable)


@given(declared_tables(), st.booleans())
def test_what_was_exported_declares_the_same_table(table: PresentTable, all_options: bool) -> None:
    there = as_registered(table)
    (read,) = read_manifest(to_manifest([there], all_options=all_options), "f")
    wanted = _REGISTRATION.validate_python(read.registration)
    schema = declared_schema(wanted)
    assert schema is not None
    assert wanted.options is not None
    given = CHOSEN_AT_CREATION & (wanted.given_options or frozenset())
    assert (schema, wanted.options.of_new_table(schema, given)) == (there.schema, there.options)
