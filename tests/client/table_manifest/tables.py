"""Tables of every kind that a gateway can have."""

import unicodedata
from functools import partial

from hypothesis import strategies as st

from app.domain.model.names import check_new_column_name
from app.domain.model.table_options import (
    DEFAULT_OPTIONS,
    BinaryEncoding,
    ColumnOverride,
    IncompleteInserts,
    InitialLoad,
    InsertMarker,
    NewColumns,
    OutOfRange,
    PartialUpdates,
    Reload,
    RowMarkers,
    SourceOrder,
    TableOptions,
)
from app.domain.model.table_schema import Column, ColumnType, TableSchema, TypeName
from app.table_manifest import PresentTable
from mirrorgate.errors import RejectedInput

TYPES = [*(str(name) for name in TypeName if name is not TypeName.DECIMAL), "decimal(38,9)"]
ODD_NAMES = [
    "no",
    "null",
    "~",
    "1e3",
    "0x1f",
    "2026-01-01",
    "a: b",
    "- a",
    "#",
    "x y",
    "{a}",
    "'",
    '"',
    "é",
    "<<",
    "=",
    "!x",
]


def _is_column_name(name: str) -> bool:
    try:
        check_new_column_name(name)
    except RejectedInput:
        return False
    return True


_texts = st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")), min_size=1, max_size=12)
column_names = st.sampled_from(ODD_NAMES) | _texts.map(partial(unicodedata.normalize, "NFC")).filter(_is_column_name)
overrides = st.builds(
    ColumnOverride,
    st.none() | st.sampled_from(TYPES),
    st.none() | st.booleans(),
    st.none() | st.sampled_from(BinaryEncoding),
)


@st.composite
def declared_tables(draw: st.DrawFn, name: str = "s.t") -> PresentTable:
    """Draw what can be declared of a table."""
    names = draw(st.lists(column_names, min_size=1, max_size=5, unique_by=str.casefold))
    columns = tuple(Column(name, ColumnType.parse(draw(st.sampled_from(TYPES))), draw(st.booleans())) for name in names)
    keys = tuple(draw(st.permutations(names))[: draw(st.integers(0, len(names)))])
    schema = TableSchema.declare(columns, keys)
    return PresentTable(name, schema, draw(options_for(schema)))


@st.composite
def options_for(draw: st.DrawFn, schema: TableSchema) -> TableOptions:
    keyed = bool(schema.key_columns)
    insert_marker = draw(st.sampled_from(InsertMarker)) if keyed else InsertMarker.INSERT
    others = [name for name in [*schema.names, "elsewhere"] if name not in schema.key_columns]
    options = TableOptions(
        partial_updates=draw(st.sampled_from(PartialUpdates)) if keyed else PartialUpdates.REJECT,
        new_columns=draw(st.sampled_from(NewColumns)),
        source_order=draw(st.sampled_from(SourceOrder)),
        reload=draw(st.sampled_from(Reload)) if keyed else Reload.REJECT,
        insert_marker=insert_marker,
        initial_load=draw(st.sampled_from(InitialLoad)),
        row_marker=draw(st.sampled_from(RowMarkers)) if keyed else RowMarkers.COLUMN,
        seed_file=draw(st.booleans()),
        exclude=tuple(draw(st.lists(st.sampled_from(others), max_size=2, unique=True))),
        sources=tuple(draw(st.lists(st.sampled_from(["a", "b.c", "c.b.a"]), max_size=2, unique=True))),
        source_timezone=draw(st.sampled_from(["UTC", "Europe/Berlin"])),
        binary_encoding=draw(st.sampled_from(BinaryEncoding)),
        incomplete_inserts=draw(st.sampled_from(IncompleteInserts)),
        out_of_range=draw(st.sampled_from(OutOfRange)),
        columns=draw(st.dictionaries(st.sampled_from(schema.names) | column_names, overrides, max_size=2)),
    )
    return options if _fit(options, schema) else DEFAULT_OPTIONS


def _fit(options: TableOptions, schema: TableSchema) -> bool:
    try:
        declared = options.declared(schema)
        TableSchema.declare(declared.columns, declared.key_columns)
        options.check(declared)
    except RejectedInput:
        return False
    return True


def as_registered(table: PresentTable) -> PresentTable:
    """Return a table as the gateway reports it once it is registered as declared."""
    return PresentTable(table.name, table.options.declared(table.schema), table.options)
