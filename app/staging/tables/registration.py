"""Register tables: create them, evolve their columns, set their options, and record what was changed.

A batch is typed under a table's schema, options and routes. All of them change only under the sequence lock, so that no
batch is staged under old rules beside the change.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import sqlalchemy as sa

from app.domain.model.names import TableName, check_new_table_name
from app.domain.model.projection import check_filter_stays
from app.domain.model.table import BatchSequence, Generation, Table, TableId, schema_change, with_landing
from app.domain.model.table_options import DEFAULT_OPTIONS, InitialLoad, TableOptions
from app.domain.model.table_schema import SchemaVersion, TableSchema, check_new_columns, evolve
from app.domain.publication import seed
from app.domain.rows.landing_projection import check_values
from app.staging.access.audit_events import record_operation
from app.staging.batches.load_transaction import find_loads
from app.staging.batches.row_images import discard_row_images
from app.staging.batches.sequence_lock import Counters, lock_counters
from app.staging.connection.database import installation_id
from app.staging.ledger.files import append_block
from app.staging.tables.events import record_event
from app.staging.tables.registry import (
    SELECT_SOURCE_OWNER,
    find_table,
    find_table_by_id,
    find_table_id,
    lock_routing,
    losing_tables,
    set_sources,
)
from app.staging.tables.schema_versions import advance_version, insert_version
from mirrorgate.errors import Code, RejectedInput

INSERT_TABLE = sa.text("""
    INSERT INTO mirrorgate.tables (name, folded_name, options, generation)
    SELECT :name, :folded_name, CAST(:options AS jsonb), coalesce(max(generation), 0) + 1
    FROM mirrorgate.table_events WHERE folded_name = :folded_name
    ON CONFLICT (folded_name) WHERE state <> 'dropped' DO NOTHING
    RETURNING table_id, generation""")
"""Create a table, unless a live one has the name.

Its generations continue those of the tables that had the name before, so that a repeated drop never hits it.
"""

INSERT_COUNTERS = sa.text("INSERT INTO mirrorgate.table_counters (table_id) VALUES (:table_id)")
"""Create the counter row of a table."""

UPDATE_RULES = sa.text("""
    UPDATE mirrorgate.tables
    SET options = CAST(:options AS jsonb), column_stays = CAST(:stays AS jsonb), revision = revision + 1
    WHERE table_id = :table_id""")
"""Change the rules under which a table's batches are typed."""


class RegistrationOutcome(StrEnum):
    """The outcome of a registration."""

    CREATED = "created"
    UNCHANGED = "unchanged"
    CONFIGURED = "configured"
    EVOLVED = "evolved"


@dataclass(frozen=True, slots=True)
class Registration:
    """A table after its registration."""

    table: Table
    outcome: RegistrationOutcome
    before: Table | None = None
    """The table before the registration, if that changed it."""


def register_table(
    connection: sa.Connection,
    name: TableName,
    wanted: TableSchema | None,
    options: TableOptions | None = None,
    *,
    given: Collection[str] | None = None,
    marker_first: bool = False,
    filled: Collection[str] = (),
    after_rows: bool = False,
) -> Registration:
    """Create a table, or bring an existing one to `wanted` and `options`. Repeating it changes nothing.

    Without `wanted` an existing table keeps its columns, and without `options` its options. If `given` names options,
    an existing table keeps its others, and a new one has the defaults of a new table (decision 0056). `filled` are new
    columns in which the source's present rows have a value that no change gave; `after_rows` if rows of the next batch
    lack it, too. The metadata chain gets each new schema version before any of its data.

    A process that dies before the commit leaves the table as it was. Raises RejectedInput `incompatible_schema`,
    `table_not_accepting`, `bad_schema`, `bad_option`, `bad_name`, `old_row_images`, `load_open` if a load needs the row
    images, or `no_row_images` if `deletes=flag` is set and rows have no image.
    """
    if find_table_id(connection, name) is None:
        if wanted is None:
            raise RejectedInput(Code.BAD_SCHEMA, "a new table needs columns")
        created = _create(connection, name, wanted, options, given, marker_first)
        if created is not None:
            return Registration(created, RegistrationOutcome.CREATED)
    return _change(connection, name, wanted, options, given, marker_first, filled, after_rows)


def find_locked_table(connection: sa.Connection, name: TableName) -> Table | None:
    """Return a table as it remains until the transaction ends, for a schema that depends on it; None if there is none.

    Without the lock, a column that another request adds meanwhile would count as one that has left the source.
    """
    table_id = find_table_id(connection, name)
    if table_id is None:
        return None
    lock_counters(connection, [table_id])
    return find_table(connection, name)


def evolve_table(connection: sa.Connection, table: Table, schema: TableSchema, *, marker_first: bool) -> Registration:
    """Bring a table to the schema that its changes need: `table.schema`, more columns, or the row marker.

    If the table has changed since the changes were typed and the new schema does not fit, it remains as it is, and the
    caller types the changes again. A process that dies before the commit leaves the table as it was.
    """
    lock_counters(connection, [table.table_id])
    present = find_table_by_id(connection, table.table_id)
    if present is None or not present.state.accepts_changes:
        return Registration(present or table, RegistrationOutcome.UNCHANGED)
    if (present.generation, present.revision) != (table.generation, table.revision):
        return Registration(present, RegistrationOutcome.UNCHANGED)
    try:
        merged = with_landing(evolve(present.schema, schema), present.options, present.schema)
    except RejectedInput:
        if present.schema_version == table.schema_version:
            raise
        return Registration(present, RegistrationOutcome.UNCHANGED)
    if merged == present.schema:
        return Registration(present, RegistrationOutcome.UNCHANGED)
    advance_version(connection, present, merged, marker_first=marker_first)
    return Registration(_must_find(connection, table.name), RegistrationOutcome.EVOLVED, present)


def _create(
    connection: sa.Connection,
    name: TableName,
    wanted: TableSchema,
    options: TableOptions | None,
    given: Collection[str] | None,
    marker_first: bool,
) -> Table | None:
    """Create the table; return None if a live one has the name."""
    if options is None:
        options, given = DEFAULT_OPTIONS, ()
    declared = options.declared(wanted)
    schema = TableSchema.declare(declared.columns, declared.key_columns)
    if given is not None:
        options = options.of_new_table(schema, given)
    parameters = {"name": str(name), "folded_name": name.folded, "options": json.dumps(options.to_stored())}
    lock_routing(connection)  # before the name is taken: a rename to it would wait for this transaction
    inserted = connection.execute(INSERT_TABLE, parameters).first()
    if inserted is None:
        return None
    table_id, generation = TableId(inserted.table_id), Generation(inserted.generation)
    check_new_table_name(name)
    check_new_columns(schema.columns)
    options.check(schema)
    check_values(options, schema)
    if connection.execute(SELECT_SOURCE_OWNER, {"folded_source": name.folded}).scalar() is not None:
        raise RejectedInput(Code.BAD_NAME, f"{name} is a source of another table")
    connection.execute(INSERT_COUNTERS, {"table_id": table_id})
    append_block(connection, table_id, generation, seed(str(name), generation, installation_id(connection)))
    bare = replace(schema, bare=options.initial_load is InitialLoad.WITHOUT_MARKER)
    first = with_landing(bare, options)
    insert_version(connection, table_id, generation, SchemaVersion(1), first, marker_first=marker_first)
    set_sources(connection, table_id, name, options)
    return _must_find(connection, name)


def _change(
    connection: sa.Connection,
    name: TableName,
    wanted: TableSchema | None,
    options: TableOptions | None,
    given: Collection[str] | None,
    marker_first: bool,
    filled: Collection[str],
    after_rows: bool,
) -> Registration:
    table, counters = _lock(connection, name, options or DEFAULT_OPTIONS)
    if options is None:
        options = table.options
    elif given is not None:
        options = options.over(table.options, given)
    options.check_change(table.options)
    if table.options.keeps_images and not options.keeps_images:
        _check_no_open_load(connection, counters)
    declared = table.schema if wanted is None else _declared(wanted, options, table.schema)
    bare = table.schema.bare and (options.initial_load is InitialLoad.WITHOUT_MARKER or options == table.options)
    schema = evolve(table.schema, replace(declared, bare=bare))
    options.check(schema)
    check_values(options, schema)
    schema = with_landing(schema, options, table.schema)
    if counters.last_sequence:
        _check_new_keys(table.schema, schema)
    lacking = BatchSequence(counters.last_sequence + after_rows)
    stays = _column_stays(
        table,
        schema,
        None if wanted is None else declared,
        options,
        counters.last_sequence,
        dict.fromkeys(filled, lacking) if lacking else {},
    )
    left = {column for column, since in stays.items() if since is None}
    check_filter_stays(options.filter, left - (table.left_columns if options.filter == table.options.filter else set()))
    outcome = RegistrationOutcome.UNCHANGED
    present_stays = {**table.late_columns, **dict.fromkeys(table.left_columns)}
    if (options, stays) != (table.options, present_stays):
        outcome = RegistrationOutcome.CONFIGURED
        _set_rules(connection, table, name, options, stays)
    if schema != table.schema:
        outcome = RegistrationOutcome.EVOLVED
        advance_version(connection, table, schema, marker_first=marker_first)
    if outcome is RegistrationOutcome.UNCHANGED:
        return Registration(table, outcome)
    return Registration(_must_find(connection, name), outcome, before=table)


def _declared(wanted: TableSchema, options: TableOptions, present: TableSchema) -> TableSchema:
    """Return the columns that a registration asks for. What it lists as the table has it remains.

    An option that overrides a column's type does not change a column that exists.
    """
    listed = {column.name: column for column in wanted.columns if column in present.columns}
    declared = options.declared(wanted)
    return replace(declared, columns=tuple(listed.get(column.name, column) for column in declared.columns))


def _lock(connection: sa.Connection, name: TableName, options: TableOptions) -> tuple[Table, Counters]:
    """Lock a table, and those that may lose a source to it; return it with its counters."""
    if options.sources:
        lock_routing(connection)
    own = find_table_id(connection, name)
    if own is None:
        raise _dropped(name)
    counters = lock_counters(connection, {own, *losing_tables(connection, own, options)})
    table = _must_find(connection, name)
    if not table.state.accepts_changes:
        raise RejectedInput(Code.TABLE_NOT_ACCEPTING, f"table {table.name} is {table.state}")
    return table, counters[table.table_id]


def _check_no_open_load(connection: sa.Connection, counters: Counters) -> None:
    """Raise RejectedInput `load_open` if a load still needs the row images, to tell which rows it has not seen."""
    for load in find_loads(connection, [counters.open_load] if counters.open_load else []):
        if not load.state.has_ended:
            raise RejectedInput(
                Code.LOAD_OPEN,
                f"the open load {load.load_id} needs the row images",
                remedy="Complete the load, or abort it with DELETE /v1/tables/{table}/loads/{load}. Then change the "
                "option.",
            )


def _set_rules(
    connection: sa.Connection,
    table: Table,
    name: TableName,
    options: TableOptions,
    stays: Mapping[str, int | None],
) -> None:
    parameters = {
        "table_id": table.table_id,
        "options": json.dumps(options.to_stored()),
        "stays": json.dumps(stays),
    }
    connection.execute(UPDATE_RULES, parameters)
    if options.sources != table.options.sources:
        set_sources(connection, table.table_id, name, options)
    if options.flags_deletes:
        _must_find(connection, name).require_images()
    _discard_images(connection, table, options)


def _discard_images(connection: sa.Connection, table: Table, options: TableOptions) -> None:
    """Delete the row images that the table must not have under its new options.

    Retention deletes what is too much for one transaction after the table has ceased to keep images. Until then it
    cannot keep them again: the old ones would be taken for its rows. Raises RejectedInput `old_row_images`.
    """
    begins_to_read = options.reads_images and not table.options.reads_images
    # Images that are not complete can be those of a backfill that died, older than their rows.
    if options.keeps_images is table.options.keeps_images and not (begins_to_read and not table.images_complete):
        return
    none_left = discard_row_images(connection, table.table_id, table.generation)
    if none_left or not options.keeps_images:
        return
    if table.options.keeps_images:
        raise RejectedInput(
            Code.OLD_ROW_IMAGES,
            f"the row images of {table.name} are not complete, and are too many to delete in one request",
            remedy=f"Complete them with `mirrorgate tables backfill-images {table.name}`. Or set row_images=off, and "
            "set partial_updates=complete when the drain has deleted them.",
        )
    detail = f"{table.name} still has row images from before it ceased to keep them"
    raise RejectedInput(Code.OLD_ROW_IMAGES, detail)


def _check_new_keys(present: TableSchema, schema: TableSchema) -> None:
    """Raise RejectedInput `incompatible_schema` if accepted rows may be NULL in a column that becomes a key."""
    required = {column.name for column in present.columns if not column.nullable}
    for key in schema.key_columns if not present.key_columns else ():
        if key not in required:
            detail = f"column {key!r} may be NULL in rows that were accepted, so it cannot become a key column"
            raise RejectedInput(Code.INCOMPATIBLE_SCHEMA, detail)


def _column_stays(
    table: Table,
    schema: TableSchema,
    declared: TableSchema | None,
    options: TableOptions,
    last: BatchSequence,
    filled: Mapping[str, BatchSequence],
) -> Mapping[str, int | None]:
    """Return the columns that have left the source, and the last batch whose rows lack the values of a column."""
    if declared is None:
        back = set(table.options.exclude).difference(options.exclude)
        present = set(schema.names).difference(table.left_columns - back)
    else:
        present = set(declared.names)
    present.difference_update(options.exclude)
    stays: dict[str, int | None] = dict(table.late_columns)
    for name in schema.names:
        if name not in present:
            stays[name] = None
        elif name in table.left_columns:
            stays[name] = last
        elif name in filled and name not in table.schema.names:
            stays[name] = filled[name]
    return stays


def _must_find(connection: sa.Connection, name: TableName) -> Table:
    table = find_table(connection, name)
    if table is None:
        raise _dropped(name)
    return table


def _dropped(name: TableName) -> RejectedInput:
    """Return the error for a table that was dropped between two statements of this transaction."""
    return RejectedInput(Code.TABLE_NOT_ACCEPTING, f"table {name} was dropped just now")


ROW_RULES_CHANGED: Final = "change row rules"
"""The action of the event after which staged rows of a generation differ in what options did to them."""


def record_registration(
    connection: sa.Connection, registration: Registration, actor: str, by: str | None = None
) -> None:
    """Write what a registration did, once, in its transaction.

    Columns, masks, filter, names and replaced columns are recorded as events of the table, the rest as audit events.

    `by` says what asked for it, if no caller did.
    """
    told = {} if by is None else {"by": by}
    table, before = registration.table, registration.before
    rules = [] if before is None else _changed_rules(before, table)
    if rules:
        record_event(connection, table, actor, ROW_RULES_CHANGED, details={"options": rules, **told})
    if before is not None and (changed := schema_change(before, table)):
        record_event(connection, table, actor, "change schema", details={**changed, **told})
    elif registration.outcome is not RegistrationOutcome.UNCHANGED:
        record_operation(connection, actor, "register_table", table.name, {"outcome": registration.outcome, **told})


def _changed_rules(before: Table, after: Table) -> list[str]:
    names = ("masks", "filter", "rename")
    changed = [name for name in names if getattr(before.options, name) != getattr(after.options, name)]
    return changed if before.replaced == after.replaced else [*changed, "derive"]
