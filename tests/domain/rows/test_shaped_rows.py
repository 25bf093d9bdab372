"""Changes typed by shape have the rows that they have one by one, and both follow the rules written plainly here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.model.change import Change, Image, Operation
from app.domain.model.names import ROW_MARKER
from app.domain.model.table_options import IncompleteInserts, InsertMarker, PartialUpdates, Reload, TableOptions
from app.domain.rows.landing_rows import LandingRows, landing_rows, landing_rows_of_shaped
from app.domain.rows.row_rules import RowRules, Shape, ShapedChanges, Values
from mirrorgate.errors import Code, RejectedInput
from tests.support.samples.schemas import schema_of

TYPES: Final = {"a": "int64", "b": "string", "c": "int64", "d": "string"}
NAMES: Final = tuple(TYPES)
MIN_EXAMPLES: Final = max(100, settings().max_examples)
OF_ORDER: Final = {Code.AMBIGUOUS_KEY_CHANGE, Code.KEY_IN_USE}


@st.composite
def tables(draw: st.DrawFn) -> RowRules:
    keys = draw(st.sampled_from([["a"], ["b", "a"], ["c"], ["a"], ["b", "a"], []]))
    required = draw(st.sets(st.sampled_from(NAMES), max_size=2))
    free = sorted({*NAMES} - {*keys} - required)
    options = TableOptions(
        partial_updates=draw(st.sampled_from(PartialUpdates)) if keys else PartialUpdates.REJECT,
        incomplete_inserts=draw(st.sampled_from(IncompleteInserts)),
        insert_marker=draw(st.sampled_from(InsertMarker)) if keys else InsertMarker.INSERT,
        reload=draw(st.sampled_from(Reload)) if keys else Reload.REJECT,
        exclude=tuple(draw(st.sets(st.sampled_from([*free, "gone"]), max_size=1))),
    )
    left = frozenset(draw(st.sets(st.sampled_from(free), max_size=1))) if free else frozenset()
    return RowRules(schema_of(TYPES, keys, required), options, left, draw(st.booleans()), draw(st.booleans()))


NAME_SETS: Final = st.sets(st.sampled_from(NAMES))
FULL: Final = st.just({*NAMES})


@st.composite
def shapes(draw: st.DrawFn, keys: Sequence[str]) -> Shape:
    """Draw a shape as tools write them, or in one case of eight any."""
    operation = draw(st.sampled_from([*Operation, Operation.UPDATE, Operation.UPDATE, Operation.UPDATE]))
    kept: set[str] = set()
    source = None
    is_late = draw(st.booleans())
    if draw(st.integers(0, 7)) == 0:
        before, after = draw(st.none() | NAME_SETS | FULL), draw(st.none() | NAME_SETS | FULL)
        source = draw(st.none() | NAME_SETS)
        if after is not None and draw(st.booleans()):
            after = after | {draw(st.sampled_from(["A", "new", "__rowmarker__", "gone"]))}
    else:
        with_key = st.one_of(st.just({*keys}), FULL, NAME_SETS.map(lambda names: names | {*keys}))
        before = draw(with_key) if operation in {Operation.UPDATE, Operation.DELETE} else None
        after = draw(st.none() | FULL) if operation is Operation.DELETE else draw(st.one_of(FULL, FULL, with_key))
        if operation is Operation.UPDATE and draw(st.integers(0, 4)) == 0:
            before = None
        if is_late:
            source = draw(st.none() | st.just({*keys, "d"}))
    if before and after:
        kept = draw(st.sampled_from([set(), before & after & {*NAMES} - {*keys}, before & after & {*NAMES}]))
    given_names = [None if names is None else frozenset(names) for names in (before, after, source)]
    return Shape(operation, given_names[0], given_names[1], frozenset(kept), given_names[2], is_late)


@st.composite
def values(draw: st.DrawFn) -> Values:
    """Draw the values of an image; in one case of sixteen one of them may not fit."""
    good = st.sampled_from(["1", "1", "2", "3", "02", 1, 2, "4", "5", "6"])
    row: list[Any] = [draw(good) for _ in NAMES]
    if draw(st.booleans()):
        row[draw(st.integers(0, 3))] = draw(st.sampled_from(["null", None]))
    if draw(st.integers(0, 15)) == 0:
        row[draw(st.integers(0, 3))] = draw(st.sampled_from(["x", True]))
    return tuple(row)


@st.composite
def requests(draw: st.DrawFn, rules: RowRules) -> ShapedChanges:
    few = draw(st.lists(shapes(rules.schema.key_columns), min_size=1, max_size=3))
    order = [draw(st.sampled_from(few)) for _ in range(draw(st.sampled_from([4, 3, 2, 1, 0])))]
    return ShapedChanges(
        order,
        [None if shape.before is None else draw(values()) for shape in order],
        [None if shape.after is None else draw(values()) for shape in order],
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.none() | st.just("7")),
    )


@st.composite
def histories(draw: st.DrawFn, max_requests: int = 3) -> tuple[RowRules, list[ShapedChanges]]:
    rules = draw(tables())
    return rules, [draw(requests(rules)) for _ in range(draw(st.integers(1, max_requests)))]


def written_out(request: ShapedChanges) -> list[Change]:
    """Return the changes with images by name, as the exact decoders yield them."""

    def image(names: frozenset[str] | None, values: Values | None) -> Image | None:
        if names is None or values is None:
            return None
        given = dict(zip(NAMES, values, strict=True))
        found = {name: given.get(name, "?") for name in sorted(names)}
        return {name: None if request.null_text and value == "null" else value for name, value in found.items()}

    changes = []
    for index, (shape, old, new) in enumerate(zip(request.shapes, request.before, request.after, strict=True)):
        before, after = image(shape.before, old), image(shape.after, new)
        for name in shape.kept:
            assert before is not None
            assert after is not None
            after[name] = before[name]
        changes.append(
            Change(
                index,
                shape.operation,
                before,
                after,
                "/before",
                "/after",
                source_columns=shape.source_columns,
                is_late=shape.is_late,
            )
        )
    if changes:
        ended = {"ends_transaction": request.ends_transaction, "source_position": request.source_position}
        changes[-1] = msgspec.structs.replace(changes[-1], **ended)
    return changes


def alone(request: ShapedChanges, rules: RowRules) -> LandingRows | RejectedInput:
    try:
        return landing_rows(written_out(request), rules)
    except RejectedInput as error:
        return error


def facts(rows: LandingRows) -> Any:
    images = rows.images
    of_images = images and (
        images.keys,
        images.images,
        images.incomplete,
        [*images.inserts],
        [*images.key_changes],
        images.wanted(),
        images.asked(),
    )
    return rows.batch.to_pylist(), rows.changes, rows.has_snapshots, rows.starts_cdc, of_images


def mixes_snapshots(request: ShapedChanges) -> bool:
    return len({shape.operation is Operation.SNAPSHOT for shape in request.shapes}) > 1


@settings(max_examples=MIN_EXAMPLES)
@given(history=histories())
def test_requests_typed_by_shape_have_the_rows_that_their_changes_have_one_by_one(
    history: tuple[RowRules, list[ShapedChanges]],
) -> None:
    rules, given_requests = history
    each = [alone(request, rules) for request in given_requests]
    together = landing_rows_of_shaped(given_requests, rules)
    if together is None:
        assert any(isinstance(rows, RejectedInput) for rows in each) or any(map(mixes_snapshots, given_requests))
        return
    for request, rows, same in zip(given_requests, together, each, strict=True):
        assert isinstance(same, LandingRows)
        rows.batch.validate(full=True)
        assert rows.batch.schema.equals(same.batch.schema, check_metadata=True)
        assert facts(rows) == facts(same)
        assert (rows.ends_transaction, rows.source_position) == (request.ends_transaction, request.source_position)


class Rejected(Exception):
    """The plain model cannot land the change."""


@dataclass
class PlainRow:
    """One row of the plain model: typed values by column; those that an image has to give; those that are unknown.

    `of_new_row` are NULL if there is no image.
    """

    marker: int
    values: dict[str, Any]
    lacking: frozenset[str] = frozenset()
    moved: bool = False
    optional: frozenset[str] = frozenset()
    of_new_row: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()


def typed(name: str, value: Any) -> Any:
    if value is None or TYPES[name] == "string":
        return str(value).lower() if isinstance(value, bool) else value if value is None else str(value)
    if isinstance(value, bool) or not str(value).isdigit():
        raise Rejected
    return int(value)


def plain_rows(changes: Sequence[Change], rules: RowRules) -> Iterator[PlainRow]:
    """Apply docs/reference/changes.md, word by word."""
    schema, options, started = rules.schema, rules.options, rules.cdc_started
    keys, excluded = schema.key_columns, {*options.exclude}
    columns = [name for name in NAMES if name not in excluded]
    nullable = {column.name for column in schema.columns if column.nullable and column.name not in keys}
    completes = options.partial_updates is PartialUpdates.COMPLETE
    inserted = 4 if options.insert_marker is InsertMarker.UPSERT else 0
    for change in changes:
        operation = change.operation
        before = change.before and {name: value for name, value in change.before.items() if name not in excluded}
        after = {name: value for name, value in (change.after or {}).items() if name not in excluded}
        now = {*columns} - rules.left_columns
        then = now if change.source_columns is None else change.source_columns - excluded
        absent = {*columns} - {*after}
        if operation is Operation.SNAPSHOT and started and options.reload is Reload.REJECT:
            raise Rejected
        is_new = operation in {Operation.INSERT, Operation.SNAPSHOT}
        upserts = operation is Operation.SNAPSHOT and started
        started = started or operation is not Operation.SNAPSHOT
        if not is_new and not keys:
            raise Rejected
        both = [(before[key], after[key]) for key in keys if before and key in before and key in after]
        named = [key for key in keys if before and key in before and key in after]
        moves = operation in {Operation.UPDATE, Operation.DELETE} and any(
            typed(key, old) != typed(key, new) for key, (old, new) in zip(named, both, strict=True)
        )
        if operation is Operation.DELETE or (operation is Operation.UPDATE and moves):
            if not all(key in (before or {}) for key in keys) or (operation is Operation.DELETE and moves):
                raise Rejected
            assert before is not None
            yield PlainRow(2, {name: typed(name, before[name]) if name in keys else None for name in NAMES})
        if operation is Operation.DELETE:
            continue
        if operation is Operation.UPDATE and before is not None and any(k in after and k not in before for k in keys):
            raise Rejected
        if not {*after} <= {*columns}:
            raise Rejected
        row = PlainRow(0, {name: typed(name, after.get(name)) for name in NAMES})
        if is_new:
            wants = options.incomplete_inserts is IncompleteInserts.REJECT and operation is Operation.INSERT
            if {*NAMES} - {*after} - nullable or (wants and absent & then):
                raise Rejected
            row.marker = 4 if upserts else inserted
        else:
            row.marker = 4 if operation in {Operation.UPSERT, Operation.MERGE} else inserted if moves else 1
            lacking = absent & then
            if lacking and (not completes or operation is Operation.UPSERT or lacking & {*keys}):
                raise Rejected
            if completes and operation in {Operation.UPDATE, Operation.MERGE}:
                row.optional = frozenset(now - then - {*after}) if change.is_late else frozenset()
                row.lacking, row.moved = frozenset(lacking) | row.optional, moves
                if operation is Operation.MERGE and rules.images_complete:
                    row.of_new_row = row.lacking & nullable
        if completes:
            row.unknown = frozenset((now if operation is Operation.INSERT else now - then) - {*after})
        if any(row.values[name] is None for name in {*NAMES} - nullable - row.lacking):
            raise Rejected
        yield row


def plain(request: ShapedChanges, rules: RowRules) -> list[PlainRow] | None:
    try:
        rows = [*plain_rows(written_out(request), rules)]
    except Rejected:
        return None
    keys = rules.schema.key_columns
    return None if any(row.values[key] is None for row in rows for key in keys) else rows


@settings(max_examples=MIN_EXAMPLES)
@given(history=histories(max_requests=1))
def test_both_follow_the_rules(history: tuple[RowRules, list[ShapedChanges]]) -> None:
    rules, (request,) = history
    expected, exact = plain(request, rules), alone(request, rules)
    found = landing_rows_of_shaped([request], rules)
    if isinstance(exact, RejectedInput):
        assert expected is None or {problem.code for problem in exact.problems} <= OF_ORDER
        assert found is None
        return
    assert expected is not None
    for rows in [exact, *(found or [])]:
        landed = [(row.pop(ROW_MARKER), row) for row in rows.batch.to_pylist()]
        assert sorted(map(repr, landed)) == sorted(repr((row.marker, row.values)) for row in expected)
        if rows.images is not None:
            assert landed == [(row.marker, row.values) for row in expected]
            assert {
                row: ({NAMES[at] for at in entry.missing.ordinals}, {NAMES[at] for at in entry.missing.optional})
                for row, entry in rows.images.incomplete.items()
            } == {row: (set(of.lacking), set(of.optional)) for row, of in enumerate(expected) if of.lacking}
            for row, entry in rows.images.incomplete.items():
                assert {NAMES[at] for at in entry.unknown} == expected[row].unknown
                assert {NAMES[at] for at in entry.missing.of_new_row} == expected[row].of_new_row
                assert entry.missing.moved is expected[row].moved
