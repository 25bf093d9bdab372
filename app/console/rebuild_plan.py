"""The plan of a rebuild as the fields of a form, and what the console says of a rebuild.

The fields are strings with one entry on each line, so that any table fits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from app.domain.model.table_schema import ColumnType, TableSchema
from app.domain.rebuild import RebuildPhase, RebuildPlan, RebuiltColumn
from app.staging.rebuild.progress import Rebuild
from mirrorgate import text
from mirrorgate.errors import Code, RejectedInput

_NULLABLE: Final = {"required": False, "optional": True}


@dataclass(frozen=True, slots=True)
class PlanFields:
    """The changes of a rebuild. Columns are named as they are now, except in `keys`."""

    keys: str = ""
    """Other key columns in the order of the key, by their new names."""
    types: str = ""
    """`column: type`, with `required` or `optional` behind it if that changes."""
    renames: str = ""
    """`old = new`."""
    dropped: str = ""
    """Columns to leave out."""

    @classmethod
    def of(cls, plan: RebuildPlan, present: TableSchema) -> "PlanFields":
        """Return the fields that ask for a plan; the order of its columns is not in them."""
        columns = plan.columns_from(present)
        kept = {entry.source: entry.column.name for entry in columns}
        same_key = tuple(kept.get(name) for name in present.key_columns)
        return cls(
            keys="" if plan.schema.key_columns == same_key else "\n".join(plan.schema.key_columns),
            types="\n".join(_types(columns, present, plan.schema.key_set)),
            renames="\n".join(
                f"{entry.source} = {entry.column.name}" for entry in columns if entry.column.name != entry.source
            ),
            dropped="\n".join(name for name in present.names if name not in kept),
        )

    @property
    def key_columns(self) -> list[str] | None:
        """The key columns that the fields ask for; None for the present ones, whatever they are called then."""
        return [*_lines(self.keys)] or None

    @property
    def changes_nothing(self) -> bool:
        """True if the fields ask for the same columns and key."""
        return self == PlanFields()

    def columns(self, present: TableSchema) -> list[RebuiltColumn]:
        """Return the columns that the fields ask for. Raises RejectedInput `bad_schema` or `bad_type` with the line."""
        columns = {column.name: RebuiltColumn(column, column.name) for column in present.columns}

        def find(name: str, line: str) -> RebuiltColumn:
            if name not in columns:
                raise _wrong(line, "the table has no such column, or it is left out twice")
            return columns[name]

        for line in _lines(self.types):
            name, separator, declared = map(str.strip, line.rpartition(":"))
            if not separator:
                raise _wrong(line, "write `column: type`")
            columns[name] = _retyped(find(name, line), declared, line)
        for line in _lines(self.renames):
            name, separator, new = map(str.strip, line.partition("="))
            if not separator:
                raise _wrong(line, "write `old = new`")
            entry = find(name, line)
            columns[name] = replace(entry, column=replace(entry.column, name=new))
        for line in _lines(self.dropped):
            del columns[find(line, line).source]
        return [*columns.values()]


def _types(columns: tuple[RebuiltColumn, ...], present: TableSchema, keys: frozenset[str]) -> Iterator[str]:
    """Yield the columns whose type or nullability changes; key columns are required anyway."""
    before = {column.name: column for column in present.columns}
    for entry in columns:
        column, old = entry.column, before[entry.source]
        is_kept = column.nullable == old.nullable or column.name in keys
        if column.type != old.type or not is_kept:
            yield f"{old.name}: {column.type}" + ("" if is_kept else " optional" if column.nullable else " required")


def _retyped(entry: RebuiltColumn, declared: str, line: str) -> RebuiltColumn:
    before, _, last = declared.rpartition(" ")
    nullable = _NULLABLE.get(last) if before else None
    try:
        parsed = ColumnType.parse(declared if nullable is None else before.strip())
    except RejectedInput as error:
        raise RejectedInput(error.code, f"`{line}`: {error.detail}") from error
    column = replace(entry.column, type=parsed, nullable=entry.column.nullable if nullable is None else nullable)
    return replace(entry, column=column)


def _lines(given: str) -> Iterator[str]:
    return (line.strip() for line in given.splitlines() if line.strip())


def _wrong(line: str, what: str) -> RejectedInput:
    return RejectedInput(Code.BAD_SCHEMA, f"`{line}`: {what}")


def progress_text(rebuild: Rebuild, *, is_planned: bool) -> str:
    """Return how far a rebuild or dry run is, or what came of it.

    `is_planned`: True if the table still has the columns and options of the plan.
    """
    images = text.amount(rebuild.rows_done, "row image")
    match rebuild.phase:
        case RebuildPhase.CHECKING:
            return "A drain reads the row images and finds out what would not fit. Nothing changes."
        case RebuildPhase.CHECKED if rebuild.findings:
            return "A rebuild by this plan would be refused. Correct the rows at their source, or change the plan."
        case RebuildPhase.CHECKED if not is_planned:
            return "The columns or options of the table have changed since. Check the plan again."
        case RebuildPhase.CHECKED:
            return f"The plan fits {images}. Copying lasts about {text.duration(rebuild.estimated_seconds)}."
        case RebuildPhase.COPYING:
            return (
                f"A drain copies the row images into generation {rebuild.next_generation}. Changes are accepted by the "
                "present columns."
            )
        case RebuildPhase.REPLACING:
            return (
                f"The rows of {images} are copied. The drain deletes the former landing folder; then it publishes them,"
                " and behind them the changes that are accepted now."
            )
        case RebuildPhase.DONE:
            return f"Generation {rebuild.next_generation} has the rows of {images}, and all changes since."
        case RebuildPhase.FAILED:
            return "The table was not rebuilt. Nothing changed."
