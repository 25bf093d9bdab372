"""A destination table: its identity, generation and state, which sources feed it, and what follows a drop.

Its landing files have the columns of the source, then those that the gateway fills. Invariant: the files of a
generation evolve like a source. A column of files never disappears, changes its type or becomes required, whatever the
options say later; one that nothing fills any more is NULL.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, NewType, TypeAlias

from app.domain.model.names import SourceName, TableName
from app.domain.model.projection import History, fixed_option, parsed_derive
from app.domain.model.table_options import DEFAULT_OPTIONS, TableOptions
from app.domain.model.table_schema import Column, SchemaVersion, TableSchema, evolve
from mirrorgate.errors import Code, RejectedInput


class DropAction(StrEnum):
    """The reason that the folder is deleted."""

    DROP = "drop"
    RECREATE = "recreate"
    RENAME = "rename"
    REBUILD = "rebuild"


@dataclass(frozen=True, slots=True)
class DropPlan:
    """Recorded when a drop begins, carried out when the folder is gone. None leaves an attribute as it is."""

    action: DropAction
    schema: TableSchema | None = None
    options: TableOptions | None = None
    new_name: TableName | None = None
    stays_paused: bool = field(default=False, compare=False)
    """True if the table was paused when the drop began."""

    @property
    def next_state(self) -> "TableState":
        """Return the state in which the next generation begins."""
        return TableState.PAUSED if self.stays_paused else TableState.ACTIVE

    def to_json(self) -> dict[str, Any]:
        """Return the plan as it is stored."""
        plan: dict[str, Any] = {
            "action": self.action,
            "schema": self.schema and self.schema.to_json(),
            "options": self.options and self.options.to_stored(),
            "new_name": self.new_name and str(self.new_name),
        }
        return plan | ({"stays_paused": True} if self.stays_paused else {})

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "DropPlan":
        """Read a stored plan."""
        return cls(
            DropAction(stored["action"]),
            TableSchema.from_json(stored["schema"]) if stored["schema"] else None,
            TableOptions.parse(stored["options"]) if stored["options"] else None,
            TableName.parse(stored["new_name"]) if stored["new_name"] else None,
            stored.get("stays_paused", False),
        )


TableId = NewType("TableId", int)
"""The number of a table in Postgres; it survives renames."""

Generation = NewType("Generation", int)
"""One lifetime of a landing folder, counted 1, 2, …"""

TableLife: TypeAlias = tuple[TableId, Generation]
"""One lifetime of one table: the scope of sequences and file numbers."""

BatchSequence = NewType("BatchSequence", int)
"""Dense number of a batch within a generation, from 1."""

FileNumber = NewType("FileNumber", int)
"""Dense number of a landing file within a generation, from 1."""

Epoch = NewType("Epoch", int)
"""Grows with each claim of a table by a drain; an older epoch can change nothing visible."""


class TableState(StrEnum):
    """States of a table. *Paused* and *quarantined* only stop publishing; *dropping* and *dropped* reject changes.

    *Rebuilding* accepts changes in the new generation and publishes once the folder of the one before is gone.
    """

    ACTIVE = "active"
    PAUSED = "paused"
    QUARANTINED = "quarantined"
    DROPPING = "dropping"
    DROPPED = "dropped"
    REBUILDING = "rebuilding"

    @property
    def accepts_changes(self) -> bool:
        """True unless the table is being dropped or is dropped."""
        return self is not TableState.DROPPING and self is not TableState.DROPPED

    @property
    def publishes(self) -> bool:
        """True if drains publish the table."""
        return self is TableState.ACTIVE

    @property
    def deletes_folder(self) -> bool:
        """True while a drain deletes the table's folder."""
        return self is TableState.DROPPING or self is TableState.REBUILDING

    def shown(self, *, is_failing: bool) -> str:
        """Return the state of a table in one word: `failing` is an active table whose publication fails."""
        return "failing" if is_failing and self is TableState.ACTIVE else self.value


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it was read at one moment; the sequence lock checks it again before staging."""

    table_id: TableId
    name: TableName
    generation: Generation
    state: TableState
    schema_version: SchemaVersion
    schema: TableSchema
    options: TableOptions = DEFAULT_OPTIONS
    revision: int = 1
    """Grows with each change of options, routes, source columns or metadata; a batch is typed under one revision."""
    database_run: str = ""
    """The run of the database in which the table was read: after a failover, numbers may mean other columns."""
    left_columns: frozenset[str] = frozenset()
    """Columns that have left the source."""
    late_columns: Mapping[str, BatchSequence] = field(default_factory=dict)
    """Columns whose values rows of this batch and of those before do not have, nor do the row images that they left.

    They left the source and came back, or the source gave its rows a default when it added them.
    """
    cdc_started: bool = False
    """True if changes other than snapshot rows were accepted in this generation."""
    images_complete: bool = False
    """True if every row of this generation has a row image: they were kept from its first batch."""
    arcion_catalog: str | None = None
    """The catalog whose messages feed this table, set by the first message with a catalog."""
    drop_plan: DropPlan | None = None
    """Plan for the time after the drop, while the table is being dropped."""
    rebuild_due: bool = False
    """True while a rebuild, or its dry run, reads the row images."""
    mask_fingerprint: bytes | None = None
    """The fingerprint of the secret that the hashed columns of this generation are hashed under."""
    backfill_due: bool = False
    """True while the drain that owns the table gives row images to rows from before it kept any."""

    @property
    def typed_under(self) -> tuple[Generation, SchemaVersion, int, str]:
        """Facts that must be unchanged when a batch that was typed for this table is staged."""
        return self.generation, self.schema_version, self.revision, self.database_run

    @property
    def is_projected(self) -> bool:
        """True if rows of landing files are others than the rows of the source."""
        return self.schema.lands_as is not None or self.options.filter is not None

    @property
    def replaced(self) -> Mapping[str, str]:
        """The expressions that land instead of columns of the source, by column."""
        return {name: text for name, text in self.options.derive.items() if name in self.schema.names}

    @property
    def has_images(self) -> bool:
        """True if every row of the table has a row image."""
        return self.options.keeps_images and self.images_complete

    @property
    def can_land_again(self) -> bool:
        """True if the row images are the rows that the table landed, so that they can land again.

        Incomplete images lack rows, or are older than these where a backfill died, and a history has more than the
        newest row of a key.
        """
        return self.has_images and self.options.history is History.OFF

    def require_images(self) -> None:
        """Raise RejectedInput `no_row_images` unless every row of the table has a row image."""
        if not self.options.keeps_images:
            raise RejectedInput(Code.NO_ROW_IMAGES, f"table {self.name} keeps no row images")
        if not self.images_complete:
            detail = f"rows that table {self.name} had before it kept row images have none"
            raise RejectedInput(Code.NO_ROW_IMAGES, detail)


def former_generation(table: Table) -> Table:
    """Return a table that is being rebuilt in the generation whose folder is deleted."""
    return replace(table, generation=Generation(table.generation - 1))


def schema_change(before: Table, after: Table) -> Mapping[str, Any]:
    """Return the differences by kind, empty if the columns are the same."""
    old = {column.name: column for column in before.schema.columns}
    new = {column.name: column for column in after.schema.columns}
    found: dict[str, Any] = {
        "added": [{"name": name, "type": str(column.type)} for name, column in new.items() if name not in old],
        "nullable": [name for name, column in new.items() if name in old and column.nullable > old[name].nullable],
        "left": sorted(after.left_columns - before.left_columns),
        "returned": sorted(before.left_columns - after.left_columns),
        "rows_lack": sorted(name for name in after.late_columns if name not in old),
        "key_columns": list(after.schema.key_columns) if after.schema.key_columns != before.schema.key_columns else [],
        "row_marker": before.schema.bare and not after.schema.bare,
    }
    changed = {name: value for name, value in found.items() if value}
    return changed and {"schema_version": after.schema_version, **changed}


class Route(NamedTuple):
    """The destination of a source's changes."""

    table: Table | None
    twin: Table | None = None
    """A table whose name, or a name in its option `sources`, differs from the source's in letter case only."""


def route(source: SourceName, candidates: Sequence[Table]) -> Route:
    """Return the table that a source feeds: one whose option `sources` names it, else the one with its name.

    `candidates` are the tables with that name or source in any letter case. Letter case counts, except for callers'
    names of tables.
    """
    names = [source] if source.catalog is None else [source, source.without_catalog]
    for any_case in (False, True):
        if any_case and not source.any_case:
            break
        for name in names:
            for table in candidates:
                if any(_is(name, given, any_case=any_case) for given in sources_of(table)):
                    return Route(table)
        for table in candidates:
            if any(_is(names[-1], own, any_case=any_case) for own in _names_of(table)):
                return Route(table)
    return Route(None, candidates[0] if candidates else None)


def sources_of(table: Table) -> list[SourceName]:
    """Return the names that the table's option `sources` has."""
    return [SourceName.parse(text) for text in table.options.sources]


def is_named(table: Table, source: SourceName) -> bool:
    """Return True if the table's option `sources` has exactly this name."""
    return any(_is(source, given, any_case=False) for given in sources_of(table))


def case_detail(source: SourceName, twin: Table) -> str:
    """Return the error message for a source whose name differs from a registered one in letter case only."""
    return (
        f"the source {source.without_catalog} does not feed table {twin.name}, because their names differ in letter "
        "case"
    )


def _names_of(table: Table) -> list[SourceName]:
    """Return the table's own name, and the one that it is being renamed to."""
    renamed = table.drop_plan.new_name if table.drop_plan else None
    return [SourceName(None, name.schema, name.table) for name in (table.name, renamed) if name is not None]


def _is(one: SourceName, other: SourceName, *, any_case: bool) -> bool:
    return one.folded == other.folded if any_case else one[:3] == other[:3]


def with_landing(schema: TableSchema, options: TableOptions, present: TableSchema | None = None) -> TableSchema:
    """Return the schema of a source with the schema of its files, which continues that of the `present` version.

    Raises RejectedInput `bad_option` for an option that the files of this generation cannot follow.
    """
    plain = replace(schema, lands_as=None)
    wanted = _wanted(plain, options)
    if present is not None:
        try:
            wanted = evolve(present.landing, wanted)
        except RejectedInput as error:
            if present.lands_as is None and wanted == plain:
                raise
            detail = f"the files of this generation cannot have the columns that the options ask for: {error.detail}"
            raise fixed_option(detail) from None
    return plain if wanted == plain and not options.derive else replace(plain, lands_as=wanted)


def _wanted(schema: TableSchema, options: TableOptions) -> TableSchema:
    """Return the schema that files of a new generation would have."""
    names = options.rename
    types = {name: one.tree.type for name, one in parsed_derive(options.derive, schema).items()}
    replaced = [
        Column(column.name, types.pop(column.name)) if column.name in types else column for column in schema.columns
    ]
    columns = (
        *(replace(column, name=names.get(column.name, column.name)) for column in replaced),
        *(constant.column(name) for name, constant in options.constants.items()),
        *(Column(name, of_type) for name, of_type in types.items()),
        *options.audit_columns.columns,
    )
    if options.history is History.APPEND_ONLY:
        return replace(TableSchema.declare(columns, ()), bare=True)
    keys = tuple(names.get(key, key) for key in schema.key_columns)
    return replace(TableSchema.declare(columns, keys), bare=schema.bare or options.upserts_only)
