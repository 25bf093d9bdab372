"""With `deletes=flag` a deleted row stays in the mirror, whatever happened to its key before."""

from typing import Any

import pytest

from app.domain.model.names import TableName
from app.domain.model.table import DropAction, DropPlan
from app.staging.images import image_snapshot
from mirrorgate.errors import Code
from tests.support.gateway_parts import next_generation
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
from tests.support.samples.messages import arcion, data
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
AUDIT = {"operation": "_op", "deleted": "_gone"}
FLAG: dict[str, Any] = {"deletes": "flag", "row_images": "on", "audit_columns": AUDIT}
ADA, BOB = {"id": "1", "name": "Ada"}, {"id": "2", "name": "Bob"}


def seen(harness: IngestHarness) -> list[list[Any]]:
    return harness.landed("t", "id", "name", "_op", "_gone")


def test_a_delete_lands_as_an_update_with_the_last_values(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, **FLAG)
    harness.arcion(arcion("t", None, ADA), arcion("t", None, BOB))
    harness.plain_rows("t", {"id": 1, "__op__": "delete"})
    harness.plain_rows("t", {"id": 1, "__op__": "delete"}, {"id": 3, "__op__": "delete"})
    harness.arcion(arcion("t", None, ADA | {"name": "Eve"}))
    assert seen(harness) == [
        [0, 1, "Ada", "insert", False],
        [0, 2, "Bob", "insert", False],
        [1, 1, "Ada", "delete", True],
        [1, 1, "Ada", "delete", True],
        [2, 3, None, "delete", True],
        [4, 1, "Eve", "insert", False],
    ]


def test_a_changed_key_leaves_the_old_row_and_can_take_the_key_of_a_deleted_one(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, **FLAG)
    harness.arcion(arcion("t", None, ADA), arcion("t", None, BOB))
    harness.arcion(arcion("t", ADA, ADA | {"id": "2"}), arcion("t", BOB, BOB | {"id": "1"}))
    assert seen(harness)[2:] == [
        [1, 1, "Ada", "delete", True],
        [1, 2, "Bob", "delete", True],
        [4, 2, "Ada", "insert", False],
        [4, 1, "Bob", "insert", False],
    ]


def test_a_deleted_row_completes_no_update(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, **FLAG | {"partial_updates": "complete"})
    harness.arcion(arcion("t", None, ADA))
    harness.replicate(data("DELETE", {"id": 1}), table="t")
    with rejected(Code.INCOMPLETE_UPDATE):
        harness.replicate(data("UPDATE", {"id": 1}), table="t")
    harness.plain_rows("t", {"id": 1})
    assert seen(harness)[-1] == [4, 1, None, "upsert", False]


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"audit_columns": {}}, "/options/deletes"),
        ({"row_images": "off"}, "/options/deletes"),
        ({"history": "append_only"}, "/options/deletes"),
        ({"filter": {"column": "name", "op": "is_null"}}, "/options/filter"),
        ({"initial_load": "without_marker"}, "/options/initial_load"),
    ],
)
def test_what_flags_cannot_be_combined_with_is_rejected(
    harness: IngestHarness, options: dict[str, Any], pointer: str
) -> None:
    with rejected(places=[(Code.BAD_OPTION, None, pointer, None)]):
        harness.put("t", SCHEMA, **FLAG | options)


def test_a_table_begins_to_flag_once_each_row_has_an_image_and_does_so_until_it_is_recreated(
    harness: IngestHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.put("t", SCHEMA)
    harness.arcion(arcion("t", None, ADA))
    with rejected() as rejection:
        harness.put("t", **FLAG)
    assert (rejection.code, harness.table("t").options.flags_deletes) == (Code.NO_ROW_IMAGES, False)
    monkeypatch.setattr("app.staging.batches.row_images.MAX_DISCARDED_AT_ONCE", 1)
    harness.put("t", row_images="on")
    harness.arcion(arcion("t", None, BOB), arcion("t", None, ADA | {"id": 3}))
    with rejected() as rejection:
        harness.put("t", **FLAG)
    assert rejection.code is Code.NO_ROW_IMAGES, "too many images to discard do not matter"
    harness.put("u", SCHEMA, row_images="on")
    harness.arcion(arcion("u", None, ADA))
    harness.put("u", **FLAG)
    harness.arcion(arcion("u", ADA))
    assert harness.landed("u", "name", "_gone") == [[0, "Ada", None], [1, "Ada", True]]
    for options, pointer in (
        ({"deletes": "apply"}, "/options/deletes"),
        ({"row_images": "off"}, "/options/deletes"),
        ({"audit_columns": {"deleted": "_dead"}}, "/options/audit_columns/deleted"),
    ):
        with rejected(places=[(Code.BAD_OPTION, None, pointer, None)]):
            harness.put("u", **FLAG | options)


def test_readers_of_present_rows_do_not_see_deleted_ones(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, **FLAG)
    harness.arcion(arcion("t", None, ADA), arcion("t", None, BOB), arcion("t", ADA))
    with image_snapshot(harness.engine, harness.table("t")) as snapshot:
        assert [*snapshot.images] == [[b'["2","Bob"]']]


def test_a_renamed_table_keeps_its_deleted_rows(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, **FLAG)
    harness.arcion(arcion("t", None, ADA), arcion("t", None, BOB), arcion("t", ADA))
    next_generation(harness.engine, "t", DropPlan(DropAction.RENAME, new_name=TableName.parse("u")))
    harness.plain_rows("u", {"id": 1, "__op__": "delete"})
    assert harness.landed("u", "id", "name", "_op", "_gone") == [
        [0, 1, "Ada", "snapshot", True],
        [0, 2, "Bob", "snapshot", False],
        [1, 1, "Ada", "delete", True],
    ]
