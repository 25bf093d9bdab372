"""`mirrorgate tables apply` and `export` against the real API."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.cli.tables.manifest import Action, plan_tables, present_tables
from app.domain.model.names import TableName
from app.table_manifest import read_manifest, to_manifest
from mirrorgate.http import GatewayClient
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import Ended, Terminal
from tests.client.table_manifest.tables import declared_tables
from tests.support.cli_output import Typed
from tests.support.processes import REPOSITORY

ORDERS = """\
tables:
  - name: sales.orders
    key_columns: [id]
    columns:
      - {name: id, type: int64, nullable: false}
      - {name: note, type: string}
  - name: sales.lines
    columns: [{name: number, type: int32}]
    options: {new_columns: add_as_string}
"""


Run = Callable[..., Ended]


@pytest.fixture
def run(gateway: Gateway, terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `mirrorgate tables …` in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: terminal.run("tables", *arguments)


@pytest.fixture
def apply(run: Run, tmp_path: Path) -> Run:
    """Apply a declaration from a file, with options."""

    def command(declared: str, *options: str) -> Ended:
        (tmp_path / "tables.yaml").write_text(declared)
        return run("apply", "tables.yaml", *options)

    return command


def test_tables_become_as_declared_and_the_same_again_does_nothing(gateway: Gateway, apply: Run) -> None:
    ended = apply(ORDERS, "--yes")
    assert (ended.status, ended.errors) == (0, "")
    assert "+ sales.orders\n    + key (id)\n    + column id int64 required\n    + column note string\n" in ended.output
    assert "done: sales.orders, sales.lines" in ended.output
    assert gateway.status("sales.lines")["options"]["new_columns"] == "add_as_string"

    assert apply(ORDERS).output == "0 to create, 0 to change, 2 as declared, 0 rejected\n"

    other = ORDERS.replace("    options: {new_columns: add_as_string}\n", "")
    other = other.replace("int32}", "int32}, {name: x, type: date}")
    ended = apply(other, "--yes")
    assert "~ sales.lines\n    + column x date\n    ~ option new_columns: add_as_string -> reject\n" in ended.output
    assert apply(other).output.startswith("0 to create, 0 to change")


def test_the_documented_file_has_the_documented_plan_and_rejection(apply: Run) -> None:
    section = (REPOSITORY / "docs/tables/manifest.md").read_text()
    declared, _, plan, rejection = re.findall(r"```\w+\n(.*?)```", section, re.DOTALL)
    assert apply(declared, "--yes").output == plan
    assert apply(declared.replace('"decimal(8,3)"', "decimals")).errors == rejection


def test_a_plan_changes_nothing_and_can_tell_by_its_exit_status(gateway: Gateway, apply: Run) -> None:
    assert apply(ORDERS, "--plan").status == 0
    assert apply(ORDERS, "--dry-run", "--detailed-exitcode").status == 2
    assert gateway.get("/v1/tables").json()["tables"] == []
    assert apply(ORDERS, "--yes").status == 0
    assert apply(ORDERS, "--plan", "--detailed-exitcode").status == 0


def test_what_needs_a_new_folder_is_shown_with_its_command_and_holds_up_everything(
    gateway: Gateway, run: Run, apply: Run
) -> None:
    gateway.register("sales.orders", {"id": "string"}, ["id"])
    ended = apply(ORDERS, "--yes")
    assert ended.status == 1
    assert "    ! column id is string and cannot become int64\n" in ended.output
    command = "mirrorgate tables recreate sales.orders --generation 1 --file tables.yaml"
    assert command in ended.output
    assert "error incompatible_schema: nothing was done, because of sales.orders" in ended.errors
    assert [table["table"] for table in gateway.get("/v1/tables").json()["tables"]] == ["sales.orders"]

    assert run(*command.split()[2:], "--no-wait").status == 0
    assert gateway.status("sales.orders")["state"] == "dropping"
    ended = apply(ORDERS, "--plan")
    assert (ended.status, "! table sales.orders is dropping" in ended.output) == (1, True)


def test_columns_that_only_the_table_has_are_rejected_or_kept_for_messages(gateway: Gateway, apply: Run) -> None:
    gateway.register("sales.lines", {"number": "int32", "note": "string"}).raise_for_status()
    ended = apply(ORDERS.replace("add_as_string", "reject"), "--plan")
    assert "    ! column note string is in the table but not in the file\n" in ended.output
    assert "or to the option `exclude`" in ended.output
    wider = ORDERS.replace("int32}", "int32}, {name: x, type: date}")
    ended = apply(wider, "--yes")
    assert "      column note string is not in the file; messages may add columns\n" in ended.output
    assert [*gateway.types("sales.lines")] == ["number", "note", "x"]
    assert apply(wider).output.endswith("0 to create, 0 to change, 2 as declared, 0 rejected\n")


def test_a_table_with_row_images_is_rebuilt_rather_than_emptied(gateway: Gateway, apply: Run) -> None:
    gateway.register("sales.orders", {"id": "string", "note": "string"}, ["id"], row_images="on").raise_for_status()
    ended = apply(ORDERS, "--plan")
    assert "Rebuild it, which keeps its rows: mirrorgate tables rebuild sales.orders --generation 1" in ended.output


@pytest.mark.parametrize(
    ("now", "wanted", "said"),
    [
        ("deletes: apply", "history: append_only", "history can only be chosen when a table is created"),
        (
            "row_images: on",
            "row_images: on, masks: {note: {method: hash}}",
            "masks cannot change while row images keep",
        ),
        ("deletes: apply", "rename: {id: key}", "the files of this generation cannot have the columns"),
    ],
)
def test_an_option_that_only_another_generation_can_have_names_the_command_for_one(
    apply: Run, now: str, wanted: str, said: str
) -> None:
    declared = ORDERS.replace("string}\n", "string}\n    options: {%s}\n", 1)
    assert apply(declared % now, "--yes").status == 0
    ended = apply(declared % wanted, "--yes")
    assert (ended.status, f"    ! {said}" in ended.output) == (1, True), ended
    command = "mirrorgate tables recreate sales.orders --generation 1 --file tables.yaml"
    assert f"or recreate the table, which empties it. To recreate it: {command}\n" in ended.output
    assert "ebuild" not in ended.output


def test_beginning_and_ceasing_to_keep_row_images_is_told(gateway: Gateway, apply: Run) -> None:
    gateway.register("sales.orders", {"id": "int64", "note": "string"}, ["id"]).raise_for_status()
    keeping = ORDERS.replace("string}\n", "string}\n    options: {row_images: on}\n", 1)
    assert "rows that the table has already need a backfill" in apply(keeping, "--yes").output
    ended = apply(ORDERS, "--plan")
    assert "    ~ option row_images: on -> off\n      without row_images=on" in ended.output


def test_a_table_that_fails_stops_it_and_the_same_command_goes_on(gateway: Gateway, apply: Run) -> None:
    gateway.register("other", {"id": "int64"})
    takes = ORDERS.replace(
        "      - {name: note, type: string}",
        "      - {name: note, type: string}\n    options: {sources: [sales.LINES]}",
    )
    ended = apply(takes + "  - {name: z, columns: [{name: id, type: date}]}\n", "--yes")
    assert ended.status == 1
    assert "done: sales.orders\n" in ended.output
    assert "failed at sales.lines; not done: sales.lines, z\nrun the same command again to continue\n" in ended.errors
    assert "error bad_name: sales.lines is a source of another table" in ended.errors

    gateway.put("/v1/tables/sales.orders", json={"options": {"sources": []}}).raise_for_status()
    ended = apply(ORDERS + "  - {name: z, columns: [{name: id, type: date}]}\n", "--yes", "--json")
    assert ended.status == 0
    report = ended.report
    assert (report["done"], report["left"], report["complete"]) == (["sales.lines", "z"], [], True)
    assert report["not_in_file"] == ["other"]
    assert [table["action"] for table in report["tables"]] == ["nothing", "create", "create"]


def test_apply_asks_only_on_a_terminal(gateway: Gateway, apply: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    ended = apply(ORDERS)
    assert (ended.status, "Give --yes to make the changes" in ended.errors) == (1, True)
    monkeypatch.setattr("sys.stdin", Typed("n\n"))
    assert apply(ORDERS).status == 1
    assert gateway.get("/v1/tables").json()["tables"] == []
    monkeypatch.setattr("sys.stdin", Typed("y\n"))
    assert apply(ORDERS).status == 0
    assert len(gateway.get("/v1/tables").json()["tables"]) == 2


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("int32", "int33", "line 8: tables[1].columns[0].type: unknown column type `int33`"),
        ("int32", "[int32]", "line 8: tables[1].columns[0].type: type: must be a string"),
        (", type: int32", "", "line 8: tables[1].columns[0]: type: is missing"),
        ("nullable: false", "nulable: false", "line 5: tables[0].columns[0].nulable: unknown key `nulable`"),
        ("name: id,", "name: __rowMarker__,", "line 5: tables[0].columns[0].name: a column cannot be named"),
        ("name: note", "name: ID", "line 6: tables[0].columns[1].name: another column has the same name"),
        ("[id]", "[number]", "line 3: tables[0].key_columns[0]: key column 'number' is not among the columns"),
        ("key_columns: [id]", "key_columns: id", "line 3: tables[0].key_columns: key_columns: must be an array"),
        ("key_columns", "keys", "line 3: tables[0].keys: unknown key `keys`"),
        ("new_columns", "new_column", "line 9: tables[1].options.new_column: unknown key `new_column`"),
        ("add_as_string", "keep", "line 9: tables[1].options.new_columns: new_columns: must be"),
        ("{new_columns: add_as_string}", "no", "line 9: tables[1].options: options: must be a JSON object"),
        (
            "new_columns: add_as_string",
            "masks: {number: {method: truncate, characters: few}}",
            "line 9: tables[1].options.masks.number.characters: characters: must be an integer",
        ),
        (
            "new_columns: add_as_string",
            "filter: {any: [{column: number, op: '=='}]}",
            "line 9: tables[1].options.filter.any[0].op: op: must be",
        ),
    ],
)
def test_what_the_gateway_finds_wrong_is_named_by_line_and_path_before_anything_is_done(
    gateway: Gateway, apply: Run, before: str, after: str, said: str
) -> None:
    for present in ([], ["sales.lines", "sales.orders"]):
        ended = apply(ORDERS.replace(before, after), "--yes")
        assert (ended.status, ended.output) == (1, "")
        assert f": tables.yaml, {said}" in ended.errors
        assert [table["table"] for table in gateway.get("/v1/tables").json()["tables"]] == present
        assert apply(ORDERS, "--yes").status == 0


def test_options_of_every_form_are_taken_as_a_registration_has_them(gateway: Gateway, apply: Run) -> None:
    options = """{seed_file: false, audit_columns: {operation: _op}, rename: {note: text},
      constants: {region: {type: string, value: no}}, masks: {note: {method: truncate, characters: 3}},
      filter: {any: [{column: id, op: in, values: [1, 2]}, {column: id, op: ">", value: 9}]}}"""
    column = "{name: note, type: string}"
    declared = ORDERS.replace(column, f"{column}\n    options: {options}")
    assert apply(declared, "--yes").errors == ""
    found = gateway.status("sales.orders")["options"]
    assert (found["seed_file"], found["masks"]["note"]["characters"]) == (False, 3)
    assert found["constants"]["region"]["value"] == "no"
    assert [one["values"] for one in found["filter"]["any"]] == [["1", "2"], None]
    assert apply(declared).output == "0 to create, 0 to change, 2 as declared, 0 rejected\n"


def test_what_is_exported_can_be_applied_through_a_pipe(
    gateway: Gateway, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.register("a %23 b", {"no": "decimal(5,0)", "x": "json"}, ["no"])
    gateway.register("other", {"x": "json"})
    exported = run("export", "A # B").output
    assert exported == (
        "tables:\n- name: 'a # b'\n  key_columns: ['no']\n  columns:\n"
        "  - {name: 'no', type: 'decimal(5,0)', nullable: false}\n  - {name: x, type: json}\n"
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(exported.encode())))
    ended = run("apply", "-")
    assert ended.output == ("not in the file, left alone: other\n0 to create, 0 to change, 1 as declared, 0 rejected\n")
    assert "unknown_table" in run("export", "missing").errors
    for number in range(20):
        gateway.register(f"t{number:02}", {"x": "json"}).raise_for_status()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(exported.encode())))
    assert "t17, t18 and 1 more\n" in run("apply", "-").output


@given(data=st.data())
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.slow
def test_what_the_gateway_took_is_exported_and_found_unchanged(
    gateway: Gateway, data: st.DataObject, numbers: "count[int]"
) -> None:
    first, second = data.draw(declared_tables()), data.draw(declared_tables())
    name = TableName.parse(f"t{next(numbers)}")
    with GatewayClient(gateway.address, ADMIN_KEY) as client:
        for wanted in (first, second):
            named = replace(wanted, name=str(name), options=replace(wanted.options, sources=()))
            (declared,) = read_manifest(to_manifest([named], all_options=True), "f")
            (plan,) = plan_tables(client, [declared], "f").tables
            if plan.request is not None:
                client.put(f"/v1/tables/{name}", plan.request)
                assert plan_tables(client, [declared], "f").tables[0].action is Action.NOTHING
            (exported,) = read_manifest(to_manifest(present_tables(client, [name])), "f")
            assert plan_tables(client, [exported], "f").tables[0].action is Action.NOTHING


@pytest.fixture(scope="module")
def numbers() -> "count[int]":
    return count()
