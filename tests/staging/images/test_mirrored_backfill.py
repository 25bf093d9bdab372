"""A backfill from the Delta mirror gives the images that a table has which kept them from its first batch."""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.model.change import Change
from app.domain.model.names import TableName
from app.domain.model.table import Table
from app.domain.model.table_options import RowImages, TableOptions
from app.domain.rows.row_rules import RowRules
from app.errors import Code, RejectedInput
from app.mirror.typed_rows import VersionRows
from app.staging.batches.batch import Batch
from app.staging.images.backfill.progress import Backfill, BackfillState, BackfillStep, find_backfill
from app.staging.images.backfill.run import backfill_images
from app.staging.tables.registration import register_table
from app.staging.tables.registration_events import record_registration
from tests.support.forms.catalogue import FORMS, FULL_FORMS
from tests.support.forms.form import schema
from tests.support.forms.source_histories import History, histories
from tests.support.gateway_parts import current, registered, stage, typed
from tests.support.mirrored_tables import MirroredTable
from tests.support.postgres import sql
from tests.support.postgres.retention import purge
from tests.support.rejections import rejected
from tests.support.samples.changes import delete, insert, update
from tests.support.samples.images import rows_of_images, stored_images
from tests.support.samples.schemas import schema_of

KEEP: Final = {"row_images": "on"}
SCHEMA: Final = schema_of({"id": "int64", "name": "string", "share": "float32"}, ["id"])
_NUMBERS: Final = itertools.count()


class Died(Exception):
    """The process of the backfill dies."""


def dies_at(step: int) -> Callable[[Backfill], None]:
    steps = itertools.count()

    def die(_: Backfill) -> None:
        if next(steps) == step:
            raise Died

    return die


@given(history=histories(), draw=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=6)
def test_rows_of_every_type_have_the_images_that_were_kept_from_the_start(
    engine: sa.Engine, tmp_path: Path, history: History, draw: st.DataObject
) -> None:
    number = next(_NUMBERS)
    last = [*history.table.types][-1]
    rules = draw.draw(st.sampled_from([{}, {"rename": {last: "other"}, "audit_columns": {"operation": "_op"}}]))
    for name, options in (("kept", {**rules, **KEEP}), ("late", rules)):
        registered(engine, f"{name}{number}", schema(history.table), TableOptions.parse(options))
    kept, late = (current(engine, f"{name}{number}") for name in ("kept", "late"))
    mirrored = MirroredTable(engine, late, tmp_path / str(number))
    begins_at, mirrored_at = (draw.draw(st.integers(0, len(history.transactions))) for _ in range(2))
    for at in range(len(history.transactions) + 1):
        if at == begins_at:
            registered(engine, str(late.name), None, TableOptions.parse({**rules, **KEEP}))
        if at == mirrored_at:
            mirrored.publish()
            purge(engine)
            mirrored.mirror()
        for events in history.transactions[at : at + 1]:
            form = FORMS[draw.draw(st.sampled_from(FULL_FORMS))]
            try:
                for table in (current(engine, str(kept.name)), current(engine, str(late.name))):
                    rows = form.rows(history.table, events, RowRules.of(table))
                    if rows.rows:
                        stage(engine, [Batch(table, rows)])
            except RejectedInput as error:
                assert error.code is Code.AMBIGUOUS_KEY_CHANGE
                return
    with pytest.MonkeyPatch.context() as patch:
        for reader in ("mirrored", "payloads"):
            patch.setattr(f"app.staging.images.backfill.{reader}.KEYS_PER_STEP", 2)
        try:
            backfill_images(engine, late.name, dies_at(draw.draw(st.integers(0, 6))), mirrored.reader)
        except Died:
            backfill_images(engine, late.name, lambda _: None, mirrored.reader)
    late = current(engine, str(late.name))
    assert late.images_complete
    assert rows_of_images(engine, late) == rows_of_images(engine, kept)


@pytest.fixture
def mirrored(engine: sa.Engine, tmp_path: Path) -> MirroredTable:
    """Give a mirrored table whose payloads are purged: rows 1 to 5, of which row 2 was changed."""
    table = registered(engine, "t", SCHEMA)
    found = MirroredTable(engine, table, tmp_path)
    send(engine, *(insert({"id": key, "name": "old", "share": "0.1"}, key) for key in range(1, 6)))
    send(engine, update(None, {"id": 2, "name": "new", "share": "0.1"}))
    found.publish()
    purge(engine)
    found.mirror()
    return found


def send(engine: sa.Engine, *changes: Change) -> None:
    stage(engine, [typed(current(engine, "t"), changes)])


def keep(engine: sa.Engine, options: dict[str, Any] | None = None) -> Table:
    return registered(engine, "t", None, TableOptions.parse({**(options or {}), **KEEP}))


def names(engine: sa.Engine) -> dict[int, str]:
    return {int(str(one["id"])): str(one["name"]) for one in stored_images(engine, current(engine, "t")).values()}


def test_changes_of_after_the_mirrored_files_win(engine: sa.Engine, mirrored: MirroredTable) -> None:
    table = keep(engine)
    send(engine, update(None, {"id": 1, "name": "newest", "share": None}), delete({"id": 3}, 1))
    seen: list[Backfill] = []

    def meanwhile(progress: Backfill) -> None:
        seen.append(progress)
        if progress.step is BackfillStep.OLDER and 4 in names(engine):
            send(engine, delete({"id": 4}), insert({"id": 6, "name": "six", "share": None}, 1))

    assert backfill_images(engine, table.name, meanwhile, mirrored.reader).images_complete
    assert names(engine) == {1: "newest", 2: "new", 5: "old", 6: "six"}
    assert [*dict.fromkeys(one.step for one in seen)] == [
        BackfillStep.MIRROR,
        BackfillStep.OLDER,
        BackfillStep.PAYLOADS,
    ]
    assert (seen[0].rows_total, seen[0].batches_done, seen[-1].batches_done) == (7, 0, 4)


def test_a_value_of_32_bits_is_kept_as_its_source_wrote_it(engine: sa.Engine, mirrored: MirroredTable) -> None:
    backfill_images(engine, keep(engine).name, lambda _: None, mirrored.reader)
    assert {str(one["share"]) for one in stored_images(engine, current(engine, "t")).values()} == {"0.1"}


def test_what_a_backfill_from_purged_payloads_has_left_is_no_row(engine: sa.Engine, tmp_path: Path) -> None:
    found = MirroredTable(engine, registered(engine, "t", SCHEMA), tmp_path)
    send(engine, insert({"id": 1, "name": "old", "share": None}), insert({"id": 2, "name": "old", "share": None}, 1))
    table = keep(engine)
    with pytest.raises(Died):
        backfill_images(engine, table.name, dies_at(1))
    assert names(engine) == {1: "old", 2: "old"}
    registered(engine, "t", None, TableOptions())
    send(engine, delete({"id": 1}))
    keep(engine)
    sql.run(
        engine,
        """INSERT INTO mirrorgate.row_images SELECT :table_id, 1, '1', 1, '[1, "old", null]'""",
        table_id=table.table_id,
    )
    found.publish()
    purge(engine)
    found.mirror()
    assert backfill_images(engine, table.name, lambda _: None, found.reader).images_complete
    assert names(engine) == {2: "old"}


def test_a_backfill_that_ends_while_another_one_opens_the_mirror_is_not_repeated(
    engine: sa.Engine, mirrored: MirroredTable
) -> None:
    table = keep(engine)

    def opened(name: TableName, version: int | None) -> VersionRows:
        backfill_images(engine, table.name, lambda _: None, mirrored.reader)
        send(engine, delete({"id": 3}))
        return mirrored.reader(name, version)

    with rejected() as rejection:
        backfill_images(engine, table.name, lambda _: None, opened)
    assert rejection.code is Code.BACKFILL_STOPPED
    assert (current(engine, "t").images_complete, sorted(names(engine))) == (True, [1, 2, 4, 5])
    with engine.begin() as connection:
        done = find_backfill(connection, table)
    assert done is not None
    assert (done.state, done.attempt) == (BackfillState.DONE, 1)


def test_a_place_whose_images_were_discarded_while_the_mirror_was_opened_is_not_continued(
    engine: sa.Engine, mirrored: MirroredTable
) -> None:
    table = keep(engine)
    with pytest.raises(Died):
        backfill_images(engine, table.name, dies_at(0), mirrored.reader)

    def opened(name: TableName, version: int | None) -> VersionRows:
        registered(engine, "t", None, TableOptions())
        keep(engine)
        return mirrored.reader(name, version)

    with rejected() as rejection:
        backfill_images(engine, table.name, lambda _: None, opened)
    assert rejection.code is Code.BACKFILL_STOPPED
    assert backfill_images(engine, table.name, lambda _: None, mirrored.reader).images_complete
    assert len(names(engine)) == 5


@pytest.mark.parametrize("gone", ["mirror_version = 99", "mirror_id = 'of a target that was emptied'"])
def test_a_version_that_is_gone_is_replaced_by_the_newest(
    engine: sa.Engine, mirrored: MirroredTable, gone: str
) -> None:
    table = keep(engine)
    with pytest.raises(Died):
        backfill_images(engine, table.name, dies_at(1), mirrored.reader)
    sql.run(engine, f"UPDATE mirrorgate.image_backfills SET {gone}, mirror_rows = 4")
    assert backfill_images(engine, table.name, lambda _: None, mirrored.reader).images_complete
    assert len(names(engine)) == 5


def test_the_newest_version_is_opened_without_reading_its_files_and_an_older_one_with_them(
    engine: sa.Engine, mirrored: MirroredTable
) -> None:
    name = current(engine, "t").name
    opened = mirrored.reader(name, None)
    assert (opened.rows, mirrored.reader(name, opened.version).rows) == (5, 5)
    for data in Path(mirrored.target.location).rglob("part-*.parquet"):
        data.unlink()
    assert mirrored.reader(name, None).rows == 5
    with rejected() as rejection:
        mirrored.reader(name, opened.version)
    assert rejection.code is Code.UNKNOWN_VERSION


def test_a_table_that_no_mirror_has_reported_in_this_generation_is_rejected(
    engine: sa.Engine, mirrored: MirroredTable
) -> None:
    table = keep(engine)
    for damage in (
        "UPDATE mirrorgate.mirror_reports SET delta_generation = 2",
        "DELETE FROM mirrorgate.mirror_reports",
    ):
        sql.run(engine, damage)
        with rejected() as rejection:
            backfill_images(engine, table.name, lambda _: None, mirrored.reader)
        assert rejection.code is Code.NOT_MIRRORED
    with rejected() as rejection:
        backfill_images(engine, table.name, lambda _: None)
    assert (rejection.code, "--to TARGET" in rejection.text) == (Code.PAYLOADS_PURGED, True)
    assert not current(engine, "t").images_complete


def test_several_rows_of_one_key_are_rejected(engine: sa.Engine, tmp_path: Path) -> None:
    found = MirroredTable(engine, registered(engine, "t", SCHEMA), tmp_path)
    for name in ("one", "one", "two"):
        send(engine, insert({"id": 1, "name": name, "share": None}))
    found.publish()
    purge(engine)
    found.mirror()
    table = keep(engine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.staging.images.backfill.mirrored.KEYS_PER_STEP", 1)
        with rejected() as rejection:
            backfill_images(engine, table.name, lambda _: None, found.reader)
    assert rejection.code is Code.MIRROR_DUPLICATE_KEYS
    with rejected() as rejection:
        backfill_images(engine, table.name, lambda _: None, found.reader)
    assert rejection.code is Code.MIRROR_DUPLICATE_KEYS
    with engine.begin() as connection:
        failed = find_backfill(connection, table)
    assert failed is not None
    assert failed.state is BackfillState.FAILED


def configured(engine: sa.Engine, *options: dict[str, Any]) -> Table:
    """Register a table with these options, one set after the other, and the events that they leave."""
    for at, one in enumerate(options):
        with engine.begin() as connection:
            name = current(engine, "t").name if at else registered(engine, "t", SCHEMA, TableOptions.parse(one)).name
            record_registration(connection, register_table(connection, name, None, TableOptions.parse(one)), "operator")
    return current(engine, "t")


@pytest.mark.parametrize(
    "options",
    [
        [{"masks": {"name": {"method": "null"}}}],
        [{"history": "append_only"}],
        [{"rename": {"name": "other"}}, {}],
    ],
    ids=["mask", "history", "former name"],
)
def test_rows_that_are_not_those_of_the_source_are_rejected(engine: sa.Engine, options: Sequence[Any]) -> None:
    configured(engine, *options)
    send(engine, insert({"id": 1, "name": "Ada", "share": None}))
    table = configured(engine, {**options[-1], **KEEP}) if len(options) > 1 else keep(engine, options[-1])
    with rejected() as rejection:
        backfill_images(engine, table.name, lambda _: None)
    assert rejection.code is Code.BAD_OPTION


def test_a_column_that_has_the_name_of_a_former_audit_column_is_rejected(engine: sa.Engine) -> None:
    registered(engine, "t", SCHEMA, TableOptions.parse({"audit_columns": {"operation": "city"}}))
    send(engine, insert({"id": 1, "name": "Ada", "share": None}))
    registered(engine, "t", None, TableOptions())
    wide = schema_of({"id": "int64", "name": "string", "share": "float32", "city": "string"}, ["id"])
    table = registered(engine, "t", wide, TableOptions(row_images=RowImages.ON))
    with rejected() as rejection:
        backfill_images(engine, table.name, lambda _: None)
    assert (rejection.code, "'city'" in rejection.detail) == (Code.BAD_OPTION, True)
