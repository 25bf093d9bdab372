"""A manifest is read strictly; errors name the file, line and path."""

import pytest

from app.client.table_manifest.manifest import read_manifest
from app.client.table_manifest.yaml_text import BadFile
from app.domain.model.projection import History
from app.domain.model.table_options import PartialUpdates, TableOptions

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


def test_audit_columns_are_read_by_what_they_hold() -> None:
    options = "    options: {audit_columns: {operation: _op, row_order: _n}, history: append_only}\n"
    (table,) = read_manifest(ORDERS + options, "f")
    assert table.options.to_json()["audit_columns"] == {"operation": "_op", "row_order": "_n"}
    assert table.options.history is History.APPEND_ONLY


def test_transforms_are_read_like_those_of_a_registration() -> None:
    options = """\
    options:
      rename: {amount: total}
      constants: {region: {type: string, value: no}}
      masks: {amount: {method: "null"}}
      filter: {any: [{column: id, op: in, values: [1, 2]}, {column: id, op: ">", value: 9}]}
"""
    (table,) = read_manifest(ORDERS + options, "f")
    found = table.options.to_json()
    assert found["rename"] == {"amount": "total"}
    assert found["constants"] == {"region": {"type": "string", "value": "no"}}
    assert found["masks"] == {"amount": {"method": "null"}}
    parts = [{"column": "id", "op": "in", "values": ["1", "2"]}, {"column": "id", "op": ">", "value": "9"}]
    assert found["filter"] == {"any": parts}
    wrong = "    options: {masks: {amount: {method: truncate, characters: few}}}\n"
    assert "characters: 'few' is not a whole number" in str(rejection(ORDERS + wrong))


def test_a_table_has_its_columns_in_order_its_keys_and_the_options_it_names() -> None:
    (table,) = read_manifest(ORDERS + "    options: {partial_updates: complete, sources: [a.b]}\n", "f")
    assert str(table.name) == "sales.orders"
    assert [(c.name, str(c.type), c.nullable) for c in table.schema.columns] == [
        ("id", "int64", False),
        ("amount", "decimal(12,2)", True),
    ]
    assert table.schema.key_columns == ("id",)
    assert table.options == TableOptions(partial_updates=PartialUpdates.COMPLETE, sources=("a.b",))
    assert table.location == "f, line 2"


@pytest.mark.parametrize("name", ["no", "on", "null", "1e3", "2026-01-01", "0x10", "=", "<<"])
def test_a_name_is_the_text_as_written(name: str) -> None:
    (table,) = read_manifest(f"tables:\n- name: t\n  columns: [{{name: {name}, type: string}}]\n", "f")
    assert table.schema.names == (name,)


def test_anchors_may_save_repetition() -> None:
    text = "tables:\n- {name: a, columns: &columns [{name: x, type: date}]}\n- {name: b, columns: *columns}\n"
    first, second = read_manifest(text, "f")
    assert first.schema == second.schema


@pytest.mark.parametrize(
    ("before", "after", "place", "said"),
    [
        ("type: int64", "type: integer64", "line 5: tables[0].columns[0].type", "'integer64' is not a valid type"),
        ("type: int64", "type: [int64]", "line 5: tables[0].columns[0].type", "is not one value"),
        ("type: int64", "type: !!int 64", "line 5: tables[0].columns[0].type", "has a tag"),
        ("type: int64", "type:", "line 5: tables[0].columns[0].type", "has no value"),
        ("(12, 2)", "(12, 14)", "line 6: tables[0].columns[1].type", "decimal(p,s) needs"),
        ("nullable: false", "nullable: no", "line 5: tables[0].columns[0].nullable", "'no' is neither true nor false"),
        ("nullable: false", "nulable: false", "line 5: tables[0].columns[0].nulable", "unknown key"),
        ("name: id,", "name: __rowMarker__,", "line 5: tables[0].columns[0].name", "cannot be named"),
        ("name: amount", "name: ID", "line 6: tables[0].columns[1].name", "there already is a column 'id'"),
        ("name: sales.orders", "name: a.b.c", "line 2: tables[0].name", "must be name or schema.name"),
        ("name: sales.orders", "title: orders", "line 2: tables[0].title", "unknown key"),
        (", type: int64", "", "line 5: tables[0].columns[0]", "'type' is missing"),
        ("[id]", "[number]", "line 3: tables[0].key_columns[0]", "'number' is not a valid column of the table"),
        ("[id]", "[id, id]", "line 3: tables[0].key_columns", "a key column is named twice"),
        ("[id]", "id", "line 3: tables[0].key_columns", "is not a list"),
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
    assert said in error.detail


@pytest.mark.parametrize(
    ("options", "place", "said"),
    [
        ("partial_update: complete", ".partial_update", "Did you mean partial_updates?"),
        ("partial_updates: completes", ".partial_updates", "Did you mean complete?"),
        ("source_timezone: Europe/Berlim", ".source_timezone", "not a time zone"),
        ("seed_file: yes", ".seed_file", "Write true or false."),
        ("exclude: [id]", ".exclude", "the key column 'id' cannot be excluded"),
        ("sources: [a, b.]", ".sources[1]", "a part with a dot in double quotes"),
        ("columns: {amount: {type: money}}", ".columns.amount.type", "'money' is not a valid type"),
        ("columns: {amount: {typ: date}}", ".columns.amount.typ", "Did you mean type?"),
        (
            "initial_load: without_marker, insert_marker: upsert",
            ".initial_load",
            "initial_load=without_marker allows inserts only",
        ),
    ],
)
def test_a_wrong_option_is_named_with_what_to_write(options: str, place: str, said: str) -> None:
    error = rejection(ORDERS + f"    options: {{{options}}}\n")
    assert error.detail.startswith(f"tables.yaml, line 7: tables[0].options{place}: ")
    assert said in f"{error.detail} {error.remedy}"


def test_everything_that_is_wrong_is_told_at_once() -> None:
    text = ORDERS.replace("int64", "int65").replace("amount, type", "amount, typo") + "    opions: {}\n"
    error = rejection(text + ORDERS.partition("\n")[2].replace("sales.orders", "_x"))
    details = [error.detail, *(problem["detail"] for problem in error.errors)]
    assert [detail.split(": ")[1] for detail in details] == [
        "tables[0].opions",
        "tables[0].columns[0].type",
        "tables[0].columns[1].typo",
        "tables[0].columns[1]",
        "tables[1].name",
    ]


def test_a_table_declared_twice_is_rejected_in_any_letter_case() -> None:
    error = rejection(ORDERS + ORDERS.partition("\n")[2].replace("sales", "Sales"))
    assert "tables[1].name: the table is already declared at tables.yaml, line 2" in error.detail


@pytest.mark.parametrize("text", ["", "# nothing\n", "tables:\n", "- a\n", "*a", "a: &a [*a]", "[" * 5_000])
def test_a_text_that_declares_no_tables_is_rejected(text: str) -> None:
    assert rejection(text).detail.startswith("tables.yaml")
