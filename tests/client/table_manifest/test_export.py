"""What was exported declares the tables again."""

from hypothesis import given
from hypothesis import strategies as st

from app.client.table_manifest.export import to_manifest
from app.client.table_manifest.manifest import DeclaredTable, read_manifest
from app.domain.model.table_options import CHOSEN_AT_CREATION
from tests.client.table_manifest.tables import as_registered, declared_tables


@given(declared_tables(), st.booleans())
def test_what_was_exported_declares_the_same_table(table: DeclaredTable, all_options: bool) -> None:
    there = as_registered(table)
    (read,) = read_manifest(to_manifest([there], all_options=all_options), "f")
    created = read.options.of_new_table(read.schema, CHOSEN_AT_CREATION - read.left)
    assert (read.schema, created) == (there.schema, there.options)
