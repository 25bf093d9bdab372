"""Rebuild plans: the columns and keys of a table's next generation, and the present column of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from app.domain.model.names import check_new_column_name
from app.domain.model.projection.audit_columns import History
from app.domain.model.projection.landing_schema import with_landing
from app.domain.model.projection.row_filter import RowFilter
from app.domain.model.table import Table
from app.domain.model.table_options import ColumnOverride, InsertMarker, TableOptions
from app.domain.model.table_schema import Column, TableSchema, TypeName
from app.domain.rows.projection.landing_projection import check_values
from app.errors import Code, RejectedInput


class RebuildPhase(StrEnum):
    """How far a rebuild, or its dry run, has come."""

    CHECKING = "checking"
    CHECKED = "checked"
    COPYING = "copying"
    REPLACING = "replacing"
    DONE = "done"
    FAILED = "failed"

    @property
    def is_due(self) -> bool:
        """True while a drain reads the row images."""
        return self in {RebuildPhase.CHECKING, RebuildPhase.COPYING}


@dataclass(frozen=True, slots=True)
class RebuiltColumn:
    """A column of the next generation, and the present column that has its values."""

    column: Column
    source: str


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """What the next generation is, and where its values are in the present row images."""

    schema: TableSchema
    options: TableOptions
    places: tuple[int, ...]
    """By new column: the position of its values among the present columns."""

    @property
    def marked(self) -> TableSchema:
        """The schema of files that have more than inserts."""
        return with_landing(replace(self.schema, bare=False), self.options)

    def rebuilt(self, table: Table) -> Table:
        """Return the table as this plan makes it."""
        return replace(table, schema=self.schema, options=self.options)

    def columns_from(self, present: TableSchema) -> tuple[RebuiltColumn, ...]:
        """Return the columns of the plan, with those of the present schema that have their values."""
        pairs = zip(self.schema.columns, self.places, strict=True)
        return tuple(RebuiltColumn(column, present.names[place]) for column, place in pairs)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as it is stored."""
        return {"schema": self.schema.to_json(), "options": self.options.to_stored(), "places": list(self.places)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "RebuildPlan":
        """Read a stored plan."""
        return cls(
            TableSchema.from_json(stored["schema"]), TableOptions.parse(stored["options"]), tuple(stored["places"])
        )


def plan_rebuild(
    table: Table, columns: Sequence[RebuiltColumn] | None = None, key_columns: Sequence[str] | None = None
) -> RebuildPlan:
    """Return the plan for a table's rows in other columns or under another key; None keeps the present ones.

    Files begin without the row marker, unless the options need it. Raises RejectedInput `no_row_images` for a table
    that does not keep an image of each row, `bad_schema`, `bad_name` or `bad_option`.
    """
    _check_rebuildable(table)
    present = table.schema
    chosen = [RebuiltColumn(column, column.name) for column in present.columns] if columns is None else columns
    _check_sources(chosen, table)
    new_names = {entry.source: entry.column.name for entry in chosen}
    if key_columns is None:
        dropped = [key for key in present.key_columns if key not in new_names]
        if dropped:
            raise RejectedInput(Code.BAD_SCHEMA, f"the key column {dropped[0]!r} is dropped: give key_columns")
        key_columns = [new_names[key] for key in present.key_columns]
    if not key_columns:
        raise RejectedInput(Code.BAD_SCHEMA, "a rebuilt table needs key columns")
    for entry in chosen:
        if entry.column.name not in present.names:
            check_new_column_name(entry.column.name)
    required = tuple(
        replace(entry.column, nullable=entry.column.nullable and entry.column.name not in key_columns)
        for entry in chosen
    )
    options = _renamed(table, required, chosen)
    schema = TableSchema.declare(required, tuple(key_columns))
    options.check(schema)
    check_values(options, schema)
    places = tuple(present.names.index(entry.source) for entry in chosen)
    needs_marker = options.insert_marker is InsertMarker.UPSERT or options.filter is not None or options.flags_deletes
    schema = replace(schema, bare=not needs_marker)
    return RebuildPlan(with_landing(schema, options), options, places)


def _check_rebuildable(table: Table) -> None:
    table.require_images()
    if table.options.history is History.APPEND_ONLY:
        detail = f"table {table.name} lands every change, and row images have the newest row of each key alone"
        raise RejectedInput(Code.BAD_OPTION, detail)


def _check_sources(chosen: Sequence[RebuiltColumn], table: Table) -> None:
    sources = [entry.source for entry in chosen]
    for source in sources:
        if source not in table.schema.names:
            detail = f"no column {source!r} has values to take; register new columns after the rebuild"
            raise RejectedInput(Code.BAD_SCHEMA, detail)
        if source in table.late_columns:
            detail = (
                f"column {source!r} came back to the source, or was added with a default, and row images from before "
                "do not know its values"
            )
            remedy = "Rebuild the table without the column, or recreate the table and load it again."
            raise RejectedInput(Code.BAD_SCHEMA, detail, remedy=remedy)
    if len(set(sources)) < len(sources):
        raise RejectedInput(Code.BAD_SCHEMA, "two columns take their values from the same column")


def _renamed(table: Table, columns: Sequence[Column], chosen: Sequence[RebuiltColumn]) -> TableOptions:
    """Return options that name the new columns, and that declare them as the plan does whatever the source declares."""
    options, new_names = table.options, {entry.source: entry.column.name for entry in chosen}
    present = {column.name: column for column in table.schema.columns}
    overrides = {
        column.name: _override(options.columns.get(entry.source), present[entry.source], column)
        for column, entry in zip(columns, chosen, strict=True)
    }
    exclude = tuple(new_names.get(name, name) for name in options.exclude)
    rename = {new_names[name]: landing for name, landing in options.rename.items() if name in new_names}
    masks = {new_names[name]: mask for name, mask in options.masks.items() if name in new_names}
    given = {name: override for name, override in overrides.items() if override is not None}
    kept = _renamed_filter(options.filter, new_names)
    return replace(options, columns=given, exclude=exclude, rename=rename, masks=masks, filter=kept)


def _renamed_filter(found: RowFilter | None, new_names: Mapping[str, str]) -> RowFilter | None:
    """Return the filter by the new names; without a column that it compares it would say something else."""
    for comparison, _ in found.comparisons() if found is not None else ():
        if comparison.column not in new_names:
            raise RejectedInput(Code.BAD_OPTION, f"the filter of the table needs the column {comparison.column!r}")
    return found and found.renamed(new_names)


def _override(present: ColumnOverride | None, before: Column, after: Column) -> ColumnOverride | None:
    """Return the override of a rebuilt column: what was overridden stays so, and what is not as before becomes it."""
    known = present or ColumnOverride()
    has_type = known.type is not None or after.type != before.type
    has_nullable = known.nullable is not None or after.nullable != before.nullable
    changed = replace(
        known,
        type=str(after.type) if has_type else None,
        nullable=after.nullable if has_nullable else None,
        unit=known.unit if after.type.name is TypeName.TIMESTAMP else None,
    )
    return None if changed == ColumnOverride() else changed
