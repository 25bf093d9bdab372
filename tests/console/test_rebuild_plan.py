"""The plan of a rebuild as the fields of a form: what the fields ask for, and the fields that ask for a plan."""

import pytest

from app.console.table import PlanFields
from app.domain.model.names import TableName
from app.domain.model.table import Generation, Table, TableId, TableState
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import SchemaVersion
from app.domain.rebuild import RebuildPlan, plan_rebuild
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "a:b": "string", "x": "int32", "y": "int32"}, ["id"], required=["id", "x"])
TABLE = Table(
    TableId(1),
    TableName.parse("t"),
    Generation(1),
    TableState.ACTIVE,
    SchemaVersion(1),
    SCHEMA,
    TableOptions.parse({"row_images": "on"}),
    images_complete=True,
)


def planned(fields: PlanFields) -> RebuildPlan:
    return plan_rebuild(TABLE, fields.columns(SCHEMA), fields.key_columns)


@pytest.mark.parametrize(
    "fields",
    [
        PlanFields(),
        PlanFields(types="a:b: binary\nx: int32 optional\ny: decimal(9,2) required"),
        PlanFields(renames="x = y\ny = x"),
        PlanFields(renames="id = order"),
        PlanFields("x", renames="id = order"),
        PlanFields("new\nid", types="id: string", renames="a:b = new", dropped="x\ny"),
    ],
)
def test_the_fields_of_a_plan_are_those_that_asked_for_it(fields: PlanFields) -> None:
    assert PlanFields.of(planned(fields), SCHEMA) == fields


def test_fields_say_nothing_of_what_stays_as_it_is() -> None:
    wordy = PlanFields(" id \n", " x : int32\nx: int32 required\n\nid: int64 optional ", "x = x")
    assert planned(wordy) == plan_rebuild(TABLE)
    assert PlanFields.of(planned(wordy), SCHEMA) == PlanFields()
