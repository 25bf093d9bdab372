"""What the pages of one table show: the head, columns, options, rows, and the plan of a rebuild.

`TableHead` is the head of the pages. `changes_of` and `options_of` tell how the columns and options came to be, and
`grid` shows rows as short, bounded strings.

`PlanFields` are the plan of a rebuild as the fields of a form. The fields are strings with one entry on each line, so
that any table fits. `progress_text` is what the console says of a rebuild.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import msgspec

from app.console.render import table_path
from app.domain.model.table import Table
from app.domain.model.table_options import DEFAULT_OPTIONS
from app.domain.model.table_schema import ColumnType, TableSchema, column_changes
from app.domain.rebuild import RebuildPhase, RebuildPlan, RebuiltColumn
from app.staging.rebuild.progress import Rebuild
from app.staging.tables.schema_versions import StoredVersion
from mirrorgate import text
from mirrorgate.errors import Code, RejectedInput

_TABS: Final = (("Status", ""), ("Files", "/files"), ("Schema", "/schema"), ("Rows", "/rows"))
_ADMIN_TABS: Final = (("Events", "/events"),)
_MAX_VALUE: Final = 2_000
"""Characters of the value of an option."""


@dataclass(frozen=True, slots=True)
class TableHead:
    """The head of each page of a table: its name, generation and state, and the tabs that the user may open."""

    name: str
    table: Table | None
    """None for a table that is gone; its events remain."""
    tab: str
    """The label of the tab that is open; empty for a page behind a button."""
    is_admin: bool

    @property
    def path(self) -> str:
        """The address of the table's first page; those of its other pages begin with it."""
        return table_path(self.name)

    @property
    def tabs(self) -> tuple[tuple[str, str], ...]:
        """The label of each tab, and what its address has behind that of the first page."""
        return (_TABS if self.table is not None else ()) + (_ADMIN_TABS if self.is_admin else ())


def note_of(column: str, table: Table) -> str:
    """Return what is special about the rows of a column."""
    if column in table.left_columns:
        return "left the source"
    since = table.late_columns.get(column)
    return "" if since is None else f"rows of batches up to {since} lack it: load the table again"


def options_of(table: Table) -> list[tuple[str, str, bool]]:
    """Return the options with their values, and whether each has its default."""
    defaults = DEFAULT_OPTIONS.of_new_table(table.schema, ()).to_json()
    values = table.options.to_json().items()
    return [(name, _shown(value), value == defaults[name]) for name, value in values]


def _shown(value: Any) -> str:
    is_empty = value is None or (not value and isinstance(value, list | tuple | dict))
    text = value if isinstance(value, str) else "none" if is_empty else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + "…"


def changes_of(stored: StoredVersion, before: StoredVersion | None) -> list[str]:
    """Return what a schema version changed; the first one of a generation has all columns."""
    if before is None or before.generation != stored.generation:
        keys = ", ".join(stored.schema.key_columns) or "none"
        return [f"{len(stored.schema.columns)} columns; key: {keys}"]
    new, old = stored.schema, before.schema
    return [
        *column_changes(new.columns, old.columns),
        *([f"key: {', '.join(new.key_columns)}"] if new.key_columns != old.key_columns else ()),
        *(["files have a row marker from here on"] if old.bare and not new.bare else ()),
    ]


MAX_CELLS: Final = 1_500
MAX_COLUMNS: Final = 150
MAX_CHARACTERS: Final = 120
"""Characters of one value; a longer one is cut."""


class Cell(NamedTuple):
    """A value as the page shows it. If the value is missing, `note` says why."""

    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of values."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    omitted_columns: int
    omitted_rows: int


def grid(
    caption: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]], total: int, *, absent: str = "missing"
) -> Grid:
    """Return the first rows and columns; `absent` is the note of a column that a row does not have."""
    shown = tuple(columns[:MAX_COLUMNS])
    limit = max(1, MAX_CELLS // max(1, len(shown)))
    cells = tuple(
        tuple(_cell(row[name]) if name in row else Cell("", absent) for name in shown)
        for row, _ in zip(rows, range(limit), strict=False)
    )
    return Grid(caption, shown, cells, len(columns) - len(shown), total - len(cells))


def _cell(value: Any) -> Cell:
    if value is None:
        return Cell("", "NULL")
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode().strip('"')
    return Cell(text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "…")


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
