"""Commit the effect of landing files to a Delta table, in one version.

MERGE does it all at once: its source holds the deleted keys and the new rows, and only the keys match. A process that
dies inside leaves the former version, and data files that no version names until VACUUM deletes them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, WriterProperties, write_deltalake

from app.mirror.delta_columns import Column, arrow_schema, known_columns
from app.mirror.fold import Effect
from app.mirror.position import Position

MAX_ROW_GROUP_ROWS: Final = 1 << 20
"""Direct Lake reads row groups of one to sixteen million rows best."""

_DELETED: Final = "__mirrorgate_deleted__"
_WRITER: Final = WriterProperties(compression="ZSTD", max_row_group_size=MAX_ROW_GROUP_ROWS)


def create_table(
    uri: str,
    rows: pa.Table,
    position: Position,
    facts: Mapping[str, str],
    options: Mapping[str, str],
    *,
    replaces: bool = False,
) -> DeltaTable:
    """Create a Delta table with its first rows. Raise deltalake's DeltaError if one is there.

    With `replaces`, its content becomes the rows of a new generation instead.
    """
    write_deltalake(
        uri,
        rows,
        mode="overwrite" if replaces else "error",
        schema_mode="overwrite" if replaces else None,
        storage_options=dict(options) or None,
        writer_properties=_WRITER,
        commit_properties=_properties(position, facts),
    )
    return DeltaTable(uri, storage_options=dict(options) or None)


def commit_effect(
    table: DeltaTable, effect: Effect, columns: Sequence[Column], position: Position, facts: Mapping[str, str]
) -> None:
    """Apply an effect with `columns` as the table's columns, and move its position.

    Raise deltalake's CommitFailedError if another commit got in between, of the mirror or of OPTIMIZE.
    """
    grows = len(columns) > len(known_columns(table))
    version = table.version()
    if effect.deleted_keys is not None:
        _merge(table, effect.deleted_keys, effect.rows, _properties(position, facts), grows=grows)
    if table.version() == version:  # a MERGE that changes no row commits nothing
        write_deltalake(
            table,
            effect.rows,
            mode="append",
            schema_mode="merge" if grows else None,
            writer_properties=_WRITER,
            commit_properties=_properties(position, facts),
        )


def _merge(
    table: DeltaTable, deleted_keys: pa.Table, rows: pa.Table, properties: CommitProperties, *, grows: bool
) -> None:
    flagged = [
        deleted_keys.append_column(_DELETED, pa.array([True] * deleted_keys.num_rows)),
        rows.append_column(_DELETED, pa.array([False] * rows.num_rows)),
    ]
    source = pa.concat_tables(flagged, promote_options="default")
    matches = [f"target.{_quoted(name)} = source.{_quoted(name)}" for name in deleted_keys.column_names]
    merger = table.merge(
        source,
        " AND ".join([*matches, f"source.{_DELETED}"]),
        source_alias="source",
        target_alias="target",
        merge_schema=grows,
        # Only a source that is not streamed gives the key range by which target files are skipped.
        streamed_exec=False,
        writer_properties=_WRITER,
        commit_properties=properties,
        post_commithook_properties=PostCommitHookProperties(),
    )
    inserted = {_quoted(name): f"source.{_quoted(name)}" for name in rows.column_names}
    merger.when_matched_delete().when_not_matched_insert(inserted, predicate=f"NOT source.{_DELETED}").execute()


def empty_rows(columns: Sequence[Column]) -> pa.Table:
    """Return no rows with these columns."""
    return arrow_schema(columns).empty_table()


def _properties(position: Position, facts: Mapping[str, str]) -> CommitProperties:
    # A retried commit would be checked against the log only, not against the files that it read.
    return CommitProperties(custom_metadata=dict(facts), app_transactions=position.transactions())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
