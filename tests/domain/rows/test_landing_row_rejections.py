"""Changes that cannot be landed, and the location that the rejection names."""

import pytest

from app.domain.model.change import MAX_CELLS, Change, Image, Operation
from app.domain.model.table_options import IncompleteInserts, TableOptions
from app.domain.model.table_schema import TableSchema
from app.domain.rows.landing_rows import landing_rows, landing_rows_of_shaped
from app.domain.rows.row_rules import RowRules
from mirrorgate.errors import Code
from mirrorgate.errors.exceptions import pointer_to
from tests.support.rejections import Place, rejected
from tests.support.samples.changes import change, delete, insert, shaped, update, upsert
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "name": "string", "day": "date"}, ["id"], required=["id", "name"])
KEYLESS = schema_of({"id": "int64"})
PAIR = schema_of({"a": "int64", "b": "int64"}, ["a", "b"])
FULL: Image = {"id": "1", "name": "Ada", "day": None}


@pytest.mark.parametrize("given", [update({"id": 1}, {"id": 2}), delete({"id": 1}), upsert({"id": 1})])
def test_without_key_columns_updates_and_deletes_are_not_possible(given: Change) -> None:
    with rejected(places=[(Code.NO_KEY, 0, None, None)]):
        landing_rows([given], KEYLESS)


@pytest.mark.parametrize(
    ("schema", "given", "places"),
    [
        (SCHEMA, insert({**FULL, "id": None}), [(Code.NULL_KEY, 0, "/after/id", "id")]),
        (SCHEMA, upsert({**FULL, "id": None}), [(Code.NULL_KEY, 0, "/after/id", "id")]),
        (SCHEMA, delete({"id": None}), [(Code.NULL_KEY, 0, "/before/id", "id")]),
        (SCHEMA, update({"id": None}, FULL), [(Code.NULL_KEY, 0, "/before/id", "id")]),
        (SCHEMA, update({"id": "1"}, {**FULL, "id": None}), [(Code.NULL_KEY, 0, "/after/id", "id")]),
        (SCHEMA, delete({"name": "Ada"}), [(Code.MISSING_KEY, 0, "/before/id", "id")]),
        (PAIR, delete({"b": 1}), [(Code.MISSING_KEY, 0, "/before/a", "a")]),
        (SCHEMA, change(Operation.DELETE, None, None), [(Code.MISSING_KEY, 0, "/before/id", "id")]),
        (SCHEMA, update({}, FULL), [(Code.OLD_KEY_MISSING, 0, "/before/id", "id")]),
        (PAIR, update({"a": 1}, {"a": 1, "b": 2}), [(Code.OLD_KEY_MISSING, 0, "/before/b", "b")]),
        (
            SCHEMA,
            update({"id": 1}, {"id": 1}),
            [(Code.INCOMPLETE_UPDATE, 0, "/after/name", "name"), (Code.INCOMPLETE_UPDATE, 0, "/after/day", "day")],
        ),
        (SCHEMA, update(None, {"name": "x", "day": None}), [(Code.MISSING_KEY, 0, "/after/id", "id")]),
        (SCHEMA, update({"id": 2}, {"id": 1, "name": "x"}), [(Code.INCOMPLETE_UPDATE, 0, "/after/day", "day")]),
        (SCHEMA, upsert({"id": 1, "name": "x"}), [(Code.INCOMPLETE_UPDATE, 0, "/after/day", "day")]),
        (SCHEMA, insert({"id": 1}), [(Code.INCOMPLETE_INSERT, 0, "/after/name", "name")]),
        (SCHEMA, insert({"name": "x"}), [(Code.MISSING_KEY, 0, "/after/id", "id")]),
        (SCHEMA, insert({**FULL, "name": None}), [(Code.NULL_VALUE, 0, "/after/name", "name")]),
        (SCHEMA, update({"id": 1}, {**FULL, "name": None}), [(Code.NULL_VALUE, 0, "/after/name", "name")]),
        (SCHEMA, insert({**FULL, "a/b~c": 1}), [(Code.UNKNOWN_COLUMN, 0, "/after/a~1b~0c", "a/b~c")]),
        (
            SCHEMA,
            insert({**FULL, "__RowMarker__": 1}),
            [(Code.RESERVED_NAME, 0, "/after/__RowMarker__", "__RowMarker__")],
        ),
        (SCHEMA, insert({**FULL, "ID": 1}), [(Code.UNKNOWN_COLUMN, 0, "/after/ID", "ID")]),
        (SCHEMA, update({"id": 1}, {**FULL, "new": 1}), [(Code.UNKNOWN_COLUMN, 0, "/after/new", "new")]),
        (SCHEMA, insert({"id": 1, "name": "x", "new": 1}), [(Code.UNKNOWN_COLUMN, 0, "/after/new", "new")]),
        (SCHEMA, insert({**FULL, "day": "2023-02-29"}), [(Code.BAD_VALUE, 0, "/after/day", "day")]),
        (SCHEMA, delete({"id": "x"}), [(Code.BAD_VALUE, 0, "/before/id", "id")]),
        (SCHEMA, update({"id": "x"}, FULL), [(Code.BAD_VALUE, 0, "/before/id", "id")]),
    ],
)
def test_a_change_that_cannot_be_landed_is_rejected_with_its_place(
    schema: TableSchema, given: Change, places: list[Place]
) -> None:
    with rejected() as rejection:
        landing_rows([given], schema)
    assert rejection.places == places
    assert rejection.code == places[0][0]


CASE = "differs in letter case only, and letter case counts"


@pytest.mark.parametrize(
    ("given", "details"),
    [
        (update(None, {"name": "x"}), ["the key is not complete", "the new value is not given"]),
        (
            upsert({"ID": 1, "name": "x", "day": None}),
            [f"the column is not in the table; id {CASE}", f"the key is not complete; ID {CASE}"],
        ),
        (update({"name": "x"}, FULL), ["the old key is not given"]),
        (delete({"name": "x"}), ["the key is not complete"]),
        (delete({"idd": 1, "name": "x"}), ["the key is not complete; the table has no column idd"]),
        (delete({"iD": 1, "Id": 2, "NAME": "x"}), [f"the key is not complete; Id, iD {CASE}"]),
        (insert({"name": "x"}), ["the key is not complete"]),
        (
            insert({"ID": 1}),
            [
                f"the column is not in the table; id {CASE}",
                f"the key is not complete; ID {CASE}",
                "the column is not given",
            ],
        ),
        (
            change(Operation.MERGE, None, {"day": "?", "id": 1}),
            ["value is not a date YYYY-MM-DD (date)", "the row does not have this column"],
        ),
        (insert({**FULL, "Day": 1, "x": 1}), [f"the column is not in the table; day {CASE}"] * 2),
        (insert({**FULL, "__ROWMARKER__": 1}), ["the name is reserved for the row marker"]),
        (
            insert({**FULL, "__rowMarker__": 1, "x": 1, "__ROWMARKER__": 1}),
            [*["the name is reserved for the row marker"] * 2, "the column is not in the table"],
        ),
        (
            change(Operation.DELETE, {"id": 1}, {"id": 2}),
            ["the delete has two images with different keys"],
        ),
    ],
)
def test_a_rejection_says_what_is_wrong_with_the_columns(given: Change, details: list[str]) -> None:
    with rejected() as rejection:
        landing_rows([given], SCHEMA)
    assert rejection.details == details


def test_a_change_is_rejected_as_a_whole_where_no_column_is_at_fault() -> None:
    both = change(Operation.DELETE, {"id": 1}, {"id": 2}, 4)
    with rejected(places=[(Code.AMBIGUOUS_DELETE, 4, "/before", None)]):
        landing_rows([both], SCHEMA)
    with rejected() as rejection:
        landing_rows([delete({"id": 1}, 4)], KEYLESS)
    assert rejection.details == ["delete on a table without key columns"]
    with rejected(places=[(Code.RELOAD_REQUIRES_RECREATE, 4, None, None)]) as rejection:
        landing_rows([change(Operation.SNAPSHOT, None, FULL, 4)], RowRules(SCHEMA, cdc_started=True))
    assert rejection.details == ["a snapshot row for a table that already has other changes"]


def test_a_change_is_judged_by_its_own_columns_and_by_the_changes_before_it() -> None:
    with rejected(places=[(Code.OLD_KEY_MISSING, 1, "/before/id", "id")]):
        landing_rows([update({"id": 1}, FULL), update({"name": "x"}, FULL, 1)], SCHEMA)
    with rejected(places=[(Code.RELOAD_REQUIRES_RECREATE, 1, None, None)]):
        landing_rows([insert(FULL), change(Operation.SNAPSHOT, None, FULL, 1)], SCHEMA)


def test_columns_are_named_as_they_are_written() -> None:
    with rejected() as rejection:
        landing_rows([insert({"z": 1, **FULL, "b": 1, "a": 1})], SCHEMA)
    assert [place[3] for place in rejection.places] == ["z", "b", "a"]


@pytest.mark.parametrize("given", [update(FULL, FULL), delete(FULL)])
def test_a_load_takes_rows_but_no_changes_of_rows(given: Change) -> None:
    rules = RowRules(SCHEMA, cdc_started=True, in_load=True)
    with rejected(places=[(Code.LOAD_TAKES_ROWS, 0, None, None)]) as rejection:
        landing_rows([given], rules)
    assert rejection.details == [f"{given.operation} in a load"]
    taken = [insert(FULL), change(Operation.SNAPSHOT, None, FULL), upsert(FULL)]
    assert landing_rows(taken, rules).batch.column("__rowMarker__").to_pylist() == [0, 0, 4]


def test_every_wrong_change_of_a_request_is_named_in_the_order_of_the_messages() -> None:
    with rejected() as rejection:
        landing_rows(
            [
                insert({**FULL, "day": "?"}, index=2),
                insert(FULL, index=3),
                delete({}, index=5),
                insert({**FULL, "id": "?", "day": "?"}, index=7),
                insert({**FULL, "id": None}, index=8),
                delete({"id": None}, index=9),
            ],
            SCHEMA,
        )
    assert rejection.places == [
        (Code.BAD_VALUE, 2, "/after/day", "day"),
        (Code.MISSING_KEY, 5, "/before/id", "id"),
        (Code.BAD_VALUE, 7, "/after/id", "id"),
        (Code.BAD_VALUE, 7, "/after/day", "day"),
        (Code.NULL_KEY, 8, "/after/id", "id"),
        (Code.NULL_KEY, 9, "/before/id", "id"),
    ]


def test_a_null_is_named_beside_a_wrong_value_unless_the_row_is_deleted() -> None:
    schema = schema_of({"id": "int64", "day": "date"}, ["id"], required=["day"])
    days = [None, "?", "2026-01-02", None]
    changes = [insert({"id": at, "day": day}, index=at) for at, day in enumerate(days)]
    wrong = {0: Code.NULL_VALUE, 1: Code.BAD_VALUE, 3: Code.NULL_VALUE}
    with rejected(places=[(code, at, "/after/day", "day") for at, code in wrong.items()]):
        landing_rows([*changes, delete({"id": 9}, index=4)], schema)


@pytest.mark.parametrize(
    "given",
    [
        insert({**FULL, "id": "canary-7391"}),
        insert({**FULL, "day": "canary-7391"}),
        update({"id": "canary-7391"}, FULL),
        delete({"id": {"canary-7391": 1}}),
        insert({"id": "canary-7391"}),
        update({"id": "1"}, {"id": "1", "name": "canary-7391"}),
        insert({**FULL, "day": ["canary-7391"]}),
    ],
)
def test_a_rejection_never_repeats_a_value(given: Change) -> None:
    with rejected() as rejection:
        landing_rows([given], SCHEMA)
    assert "7391" not in rejection.text


@pytest.mark.parametrize(
    ("member", "pointer"),
    [("a", "/after/a"), ("", "/after/"), ("a/b", "/after/a~1b"), ("~", "/after/~0"), ("~1", "/after/~01")],
)
def test_a_pointer_escapes_what_rfc_6901_says(member: str, pointer: str) -> None:
    assert pointer_to("/after", member) == pointer


def test_rows_of_columns_that_no_message_gives_are_rejected_before_they_fill_the_memory() -> None:
    """2.4 MB of messages that give a key alone took half a gigabyte."""
    columns = 1_000
    wide = schema_of({"id": "int64", **{f"c{number}": "string" for number in range(columns - 1)}}, ["id"])
    message = insert({"id": 1})
    with rejected(Code.TOO_MANY_MESSAGES):
        landing_rows([message] * (MAX_CELLS // columns + 1), wide)
    ten = shaped([message] * 10, wide)
    assert landing_rows_of_shaped([ten] * (MAX_CELLS // columns // 10 + 1), RowRules(wide)) is None


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (insert({"ID": "1", "name": "x"}), "ID"),
        (update({"Id": "1"}, {"Id": "1", "name": "x"}), "Id"),
        (delete({"iD": "1"}), "iD"),
        (insert({**FULL, "NAME": "x"}), "name"),
    ],
)
def test_a_column_in_another_letter_case_is_mentioned(given: Change, named: str) -> None:
    with rejected() as rejection:
        landing_rows([given], SCHEMA)
    assert f"{named} differs in letter case only" in rejection.text


def test_an_insert_without_a_nullable_column_is_rejected_where_the_option_says_so() -> None:
    rules = RowRules(SCHEMA, TableOptions(incomplete_inserts=IncompleteInserts.REJECT))
    with rejected(places=[(Code.INCOMPLETE_INSERT, 1, "/after/day", "day")]) as rejection:
        landing_rows([insert(FULL, 0), insert({"id": "2", "name": "x"}, 1)], rules)
    assert "required" not in rejection.text
    left = RowRules(SCHEMA, rules.options, left_columns=frozenset({"day"}))
    assert landing_rows([insert({"id": "2", "name": "x"})], left).rows == 1
    assert landing_rows([insert({"id": "2", "name": "x"})], SCHEMA).rows == 1
