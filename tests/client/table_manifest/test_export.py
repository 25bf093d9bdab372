"""What was exported declares the tables again."""

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from app.api.schemas.tables import RegisterTable, declared_schema
from app.domain.model.table_options import CHOSEN_AT_CREATION
from app.table_manifest import PresentTable, read_manifest, to_manifest
from tests.client.table_manifest.tables import as_registered, declared_tables

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
