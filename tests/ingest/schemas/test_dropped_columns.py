"""Option `dropped_columns=keep`: a nullable column that leaves the source stays and lands NULL."""

import pytest

from app.domain.model.names import TableName
from app.domain.model.table import DropAction, DropPlan
from mirrorgate.errors import Code
from tests.support.gateway_parts import next_generation
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
from tests.support.samples.messages import arcion, data, metadata
from tests.support.samples.schemas import schema_of

WIDE = schema_of({"id": "int64", "name": "string", "fax": "string"}, ["id"], ["id"])
NARROW = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
ADA = {"id": "1", "name": "Ada"}


def test_a_column_that_leaves_by_put_lands_null_for_updates_that_no_longer_give_it(harness: IngestHarness) -> None:
    harness.put("t", WIDE)
    with rejected(places=[(Code.INCOMPLETE_UPDATE, 0, "/after/fax", "fax")]):
        harness.arcion(arcion("t", ADA, ADA))
    registration = harness.put("t", NARROW)
    assert (registration.outcome, registration.table.schema) == ("configured", WIDE)
    harness.arcion(arcion("t", ADA, ADA), arcion("t", ADA, {**ADA, "fax": "7"}))
    assert harness.landed("t", "fax") == [[1, None], [1, "7"]]
    assert harness.put("t", NARROW).outcome == "unchanged"


def test_a_column_that_comes_back_is_needed_again(harness: IngestHarness) -> None:
    harness.put("t", WIDE)
    harness.put("t", NARROW)
    harness.arcion(arcion("t", ADA, ADA))
    table = harness.put("t", WIDE).table
    assert (table.left_columns, table.late_columns, table.schema_version) == (frozenset(), {"fax": 1}, 1)
    with rejected(Code.INCOMPLETE_UPDATE):
        harness.arcion(arcion("t", ADA, ADA))


@pytest.mark.parametrize(
    "plan", [DropPlan(DropAction.RENAME, new_name=TableName.parse("u")), DropPlan(DropAction.RECREATE)]
)
@pytest.mark.parametrize("row_images", ["on", "off"])
def test_a_column_that_left_stays_away_in_the_next_generation(
    harness: IngestHarness, plan: DropPlan, row_images: str
) -> None:
    harness.put("t", WIDE, row_images=row_images)
    harness.put("t", NARROW)
    next_generation(harness.engine, "t", plan)
    name = str(plan.new_name or "t")
    harness.arcion(arcion(name, ADA, ADA))
    assert (harness.table(name).left_columns, harness.landed(name, "fax")) == ({"fax"}, [[1, None]])


def test_rows_that_lack_a_column_lack_it_after_a_rename_too(harness: IngestHarness) -> None:
    harness.put("t", WIDE, row_images="on")
    harness.put("t", NARROW)
    harness.arcion(arcion("t", None, ADA))
    assert harness.put("t", WIDE).table.late_columns == {"fax": 1}
    next_generation(harness.engine, "t", DropPlan(DropAction.RENAME, new_name=TableName.parse("u")))
    harness.arcion(arcion("u", None, {**ADA, "id": "2", "fax": "7"}))
    assert harness.table("u").late_columns == {"fax": 1}


def test_a_column_that_leaves_by_metadata_lands_null_also_for_arcion_updates(harness: IngestHarness) -> None:
    harness.replicate(metadata("S.T", {"id": "INT8", "name": "STRING", "fax": "STRING"}))
    harness.replicate(data("INSERT", {"id": 1, "name": "Ada", "fax": "7"}, schema_id="S.T-1"))
    harness.replicate(
        metadata("S.T", {"id": "INT8", "name": "STRING"}, version=2),
        data("UPDATE", ADA, ADA, schema_id="S.T-2", columnMask="03"),
    )
    harness.arcion(arcion("S.T", ADA, ADA))
    assert harness.landed("S.T", "name", "fax") == [[0, "Ada", "7"], [1, "Ada", None], [1, "Ada", None]]
    assert harness.table("S.T").left_columns == {"fax"}


def test_data_before_the_metadata_that_drops_a_column_still_has_it(harness: IngestHarness) -> None:
    harness.replicate(metadata("S.T", {"id": "INT8", "fax": "STRING"}))
    harness.replicate(
        data("UPDATE", {"id": 1, "fax": "7"}, {"id": 1}, schema_id="S.T-1"),
        metadata("S.T", {"id": "INT8"}, version=2),
        data("UPDATE", {"id": 1}, {"id": 1}, schema_id="S.T-2"),
    )
    assert harness.landed("S.T", "fax") == [[1, "7"], [1, None]]


def test_options_alone_say_nothing_of_the_columns_that_the_source_has(harness: IngestHarness) -> None:
    harness.put("t", WIDE)
    harness.put("t", NARROW)
    assert harness.put("t", new_columns="add_as_string").table.left_columns == {"fax"}
    assert harness.put("t", exclude=["name"]).table.left_columns == {"fax", "name"}
    assert harness.put("t", exclude=[]).table.left_columns == {"fax"}
