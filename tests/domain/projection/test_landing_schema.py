"""The columns of files are those of the source and those of the gateway, and evolve as files must."""

import pytest

from app.domain.model.landing_schema import with_landing
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema, evolve
from app.errors import Code
from tests.support.rejections import rejected
from tests.support.samples.schemas import schema_of

SOURCE = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
WIDER = schema_of({"id": "int64", "name": "string", "city": "string"}, ["id"], ["id"])
AUDITED = TableOptions.parse({"audit_columns": {"operation": "_op", "accepted_at": "_at"}})
HISTORY = TableOptions.parse({"history": "append_only"})


def test_a_table_without_such_options_lands_as_it_is() -> None:
    assert with_landing(SOURCE, TableOptions()) is not None
    assert with_landing(SOURCE, TableOptions()).lands_as is None
    assert with_landing(SOURCE, TableOptions()).landing == SOURCE


def test_audit_columns_follow_those_of_the_source_and_newer_columns_follow_them() -> None:
    first = with_landing(SOURCE, AUDITED)
    assert first.names == SOURCE.names
    assert first.landing.names == ("id", "name", "_op", "_at")
    later = with_landing(evolve(first, WIDER), AUDITED, first)
    assert later.landing.names == ("id", "name", "_op", "_at", "city")
    assert with_landing(evolve(later, WIDER), AUDITED, later) == later


def test_a_column_that_the_options_no_longer_name_stays_in_the_files() -> None:
    first = with_landing(SOURCE, AUDITED)
    without = with_landing(evolve(first, SOURCE), TableOptions(), first)
    assert without.landing.names == first.landing.names
    renamed = TableOptions.parse({"audit_columns": {"operation": "_operation"}})
    with_both = with_landing(evolve(first, SOURCE), renamed, first)
    assert with_both.landing.names == ("id", "name", "_op", "_at", "_operation")


def test_files_of_a_history_have_neither_keys_nor_a_row_marker() -> None:
    landing = with_landing(SOURCE, HISTORY).landing
    assert (landing.key_columns, landing.bare) == ((), True)
    assert with_landing(SOURCE, HISTORY).key_columns == ("id",)


def test_a_generation_with_a_history_stays_one() -> None:
    for present, options in ((TableOptions(), HISTORY), (HISTORY, TableOptions())):
        with rejected() as rejection:
            options.check_change(present)
        assert rejection.places == [(Code.BAD_OPTION, None, "/options/history", None)]


def test_an_audit_column_cannot_take_the_name_of_a_column_that_the_files_have_with_another_type() -> None:
    first = with_landing(SOURCE, AUDITED)
    swapped = TableOptions.parse({"audit_columns": {"operation": "_at"}})
    with rejected() as rejection:
        with_landing(evolve(first, SOURCE), swapped, first)
    assert rejection.code is Code.BAD_OPTION
    assert "files of this generation" in rejection.detail


def test_a_stored_schema_is_read_as_it_was() -> None:
    for options in (TableOptions(), AUDITED, HISTORY):
        schema = with_landing(SOURCE, options)
        assert TableSchema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"audit_columns": {"operation": "NAME"}}, "/options/audit_columns/operation"),
        ({"audit_columns": {"operation": "_op", "accepted_at": "_OP"}}, "/options/audit_columns/accepted_at"),
        ({"audit_columns": {"operation": "__rowMarker__"}}, "/options/audit_columns/operation"),
        ({"audit_columns": {"deleted": "_deleted"}}, "/options/audit_columns/deleted"),
        ({"audit_columns": {"operator": "_op"}}, "/options/audit_columns"),
    ],
)
def test_an_audit_column_that_cannot_be_is_rejected_with_its_place(options: dict[str, object], pointer: str) -> None:
    with rejected() as rejection:
        TableOptions.parse(options).check(SOURCE)
    assert rejection.places == [(Code.BAD_OPTION, None, pointer, None)]


def test_a_history_needs_keys() -> None:
    with rejected() as rejection:
        HISTORY.check(schema_of({"id": "int64"}, []))
    assert rejection.code is Code.BAD_OPTION
