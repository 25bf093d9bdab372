"""The independent model obeys Fabric's apply rules, one by one, and its files survive being written and read."""

import random
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.mirror.model import landed
from tests.mirror.model.delta_content import arrow_rows
from tests.mirror.model.kinds import KINDS
from tests.mirror.model.landed import DELETE, INSERT, UPDATE, UPSERT, Column, LandedFile, Metadata, Row
from tests.mirror.model.publisher import Publisher, Style
from tests.mirror.model.table_model import Record, Stops, TableModel
from tests.mirror.model.zone_writer import ROW_MARKER, TableWriter, file_name

ID, NAME = landed.ID_AND_NAME
KEYED = Metadata(("ID",))
file = landed.rows_file


def applied(*files: LandedFile, metadata: Metadata = KEYED) -> Counter[Record]:
    model = TableModel()
    for each in files:
        model.apply(each, metadata)
    return model.rows()


def test_an_insert_duplicates_an_existing_key() -> None:
    assert applied(file((INSERT, 1, "a"), (INSERT, 1, "b"))) == Counter([(1, "a"), (1, "b")])


@pytest.mark.parametrize("marker", [UPDATE, UPSERT])
def test_an_update_replaces_every_row_of_its_key_or_inserts(marker: int) -> None:
    assert applied(file((INSERT, 1, "a"), (INSERT, 1, "b")), file((marker, 1, "c"), (marker, 2, "d"))) == Counter(
        [(1, "c"), (2, "d")]
    )


def test_a_delete_removes_every_row_of_its_key_or_does_nothing() -> None:
    assert applied(file((INSERT, 1, "a"), (INSERT, 1, "b"), (DELETE, 1, None), (DELETE, 2, None))) == Counter()


def test_rows_apply_in_the_order_of_the_file() -> None:
    assert applied(file((UPDATE, 1, "a"), (INSERT, 1, "b"))) == Counter([(1, "a"), (1, "b")])
    assert applied(file((INSERT, 1, "b"), (UPDATE, 1, "a"))) == Counter([(1, "a")])
    assert applied(file((DELETE, 1, None), (INSERT, 1, "b"))) == Counter([(1, "b")])


def test_rows_without_marker_are_inserts_or_by_default_upserts() -> None:
    twice = file((None, 1, "a"), (None, 1, "b"), has_markers=False)
    assert applied(twice) == Counter([(1, "a"), (1, "b")])
    assert applied(twice, metadata=Metadata(("Id",), upsert_by_default=True)) == Counter([(1, "b")])


def test_a_null_in_a_key_matches_nothing() -> None:
    nullable = (Column("Id", "int64"), NAME)
    rows = file((UPDATE, None, "a"), (UPDATE, None, "b"), (DELETE, None, None), columns=nullable)
    assert applied(rows) == Counter([(None, "a"), (None, "b")])


def test_a_new_column_is_null_in_older_rows_and_a_missing_one_in_newer_rows() -> None:
    later = LandedFile((ID, Column("more", "bool")), (Row({"Id": 2, "more": True}, INSERT),))
    assert applied(file((INSERT, 1, "a")), later) == Counter([(1, "a", None), (2, None, True)])


def test_column_names_match_in_any_letter_case() -> None:
    later = LandedFile((Column("ID", "int64"), Column("NAME", "string")), (Row({"ID": 1, "NAME": "b"}, UPDATE),))
    assert applied(file((INSERT, 1, "a")), later) == Counter([(1, "b")])


@pytest.mark.parametrize(
    ("stopping", "metadata", "why"),
    [
        (LandedFile((Column("Id", "int32"), NAME), ()), KEYED, "type_change"),
        (LandedFile((NAME,), ()), KEYED, "missing_required"),
        (file((UPDATE, 1, "a")), Metadata(), "no_keys"),
        (file((3, 1, "a")), KEYED, "unknown_marker"),
    ],
)
def test_what_fabric_does_not_take_stops_the_table_and_changes_nothing(
    stopping: LandedFile, metadata: Metadata, why: str
) -> None:
    model = TableModel()
    model.apply(file((INSERT, 1, "a")), metadata)
    with pytest.raises(Stops, match=why):
        model.apply(stopping, metadata)
    assert model.rows() == Counter([(1, "a")])
    assert model.columns.keys() == {"id", "name"}


@pytest.mark.parametrize("seed", range(10))
def test_a_written_file_has_the_values_that_the_model_expects(tmp_path: Path, seed: int) -> None:
    """Types that Delta lacks are compared after the core has converted them."""
    exact_kinds = [name for name, kind in KINDS.items() if not name.startswith(("timestamp[ns]", "float16", "date64"))]
    publisher = Publisher(random.Random(seed), Style(kinds=exact_kinds, first_columns=20))
    made = publisher.file(200)
    writer = TableWriter(tmp_path, "sales.schema/Order Lines")
    writer.register(publisher.metadata)
    path = writer.land(1, made)
    assert path.name == file_name(1)
    assert sorted(entry.name for entry in writer.path.iterdir()) == sorted([file_name(1), "_metadata.json"])
    model = TableModel()
    all_inserts = LandedFile(made.columns, tuple(Row(row.values, INSERT) for row in made.rows))
    model.apply(all_inserts, Metadata())
    content = pq.read_table(path)
    names = [name for name in content.column_names if name != ROW_MARKER]
    assert arrow_rows(content.select(names), list(model.columns)) == model.rows()


def test_a_publisher_makes_every_marker_and_repeats_itself_for_a_seed() -> None:
    made = [Publisher(random.Random(7), Style()).file(500) for _ in range(2)]
    assert repr(made[0]) == repr(made[1])
    publisher = Publisher(random.Random(7), Style())
    markers = {row.marker for each in range(5) for row in publisher.file(100 + each).rows}
    assert markers == {INSERT, UPDATE, DELETE, UPSERT}
