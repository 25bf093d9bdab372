"""The queries of every cycle read few rows, however long the history."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from app.local.embedded import PrivatePostgres
from app.staging.batches.dead_letters import SELECT_NEXT, SELECT_WAITING
from app.staging.batches.row_images import SELECT_HAS_ANY, SELECT_PRESENT_KEYS, SELECT_ROW_IMAGES
from app.staging.batches.sequence_lock import SELECT_VERSIONS_AND_POSITIONS
from app.staging.batches.staged_blocks import SELECT_BATCH, SELECT_PENDING, SELECT_RANGE, STAGE_BLOCKS
from app.staging.connection.database import open_engine
from app.staging.ledger.files import (
    SELECT_FILE_POSITIONS,
    SELECT_LAST_BLOCKS,
    SELECT_TABLES_TO_REPAIR,
    SELECT_UNRECORDED,
)
from app.staging.ledger.planning import SELECT_LAST_FILES
from app.staging.mirror import SELECT_PROGRESS
from app.staging.tables.registry import (
    DELETE_SOURCES,
    SELECT_BY_IDS,
    SELECT_BY_NAME,
    SELECT_BY_ROUTE,
    SELECT_SOURCE_OWNER,
)
from app.staging.tables.replicate_sources import SELECT_BY_SCHEMA_ID, SELECT_SOURCE
from app.staging.tables.status import SELECT_LAGGING, SUM_BLOCKS
from tests.support.gateway_parts import registered
from tests.support.postgres import sql
from tests.support.postgres.databases import create_database
from tests.support.samples.schemas import schema_of

READ_IMAGES, READ_PRESENT, FIND_ANY = (
    sa.text(re.sub(r"%\((\w+)\)[sb]", r":\1", statement))
    for statement in (SELECT_ROW_IMAGES, SELECT_PRESENT_KEYS, SELECT_HAS_ANY)
)
BATCHES = 5_000
LIFE = {"table_ids": [1], "generations": [1]}
FILES = 4_000

STAGE = """
    INSERT INTO mirrorgate.staged_blocks (table_id, generation, first_sequence, last_sequence, schema_version,
        batch_rows, batch_changes, row_count, change_count, payload_bytes, payload_digest)
    SELECT 1, 1, n, n, 1, '{1}', '{1}', 1, 1, 1, sha256('') FROM generate_series(1, :batches) n"""

PUBLISH = """
    INSERT INTO mirrorgate.landing_files (table_id, generation, number, first_sequence, last_sequence,
        schema_version, row_count, change_count, digest, state, published_at, nominated_epoch, nominated_temp)
    SELECT 1, 1, n, n, n, 1, 1, 1, '00', 'published', now(), 1, 'temp' FROM generate_series(1, :files) n"""


TABLES = """
    WITH new AS (
        INSERT INTO mirrorgate.tables (name, folded_name, replicate_metadata)
        SELECT 't' || n, 't' || n,
            jsonb_build_object('schema_id', 'new' || n, 'earlier', jsonb_build_array(
                jsonb_build_object('schema_id', 'older' || n), jsonb_build_object('schema_id', 'old' || n)))
        FROM generate_series(1, :tables) n RETURNING table_id, name),
    counted AS (INSERT INTO mirrorgate.table_counters (table_id) SELECT table_id FROM new),
    versions AS (
        INSERT INTO mirrorgate.schema_versions (table_id, generation, version, key_columns, columns)
        SELECT table_id, 1, 1, '{}', '[]' FROM new)
    INSERT INTO mirrorgate.table_sources (folded_source, table_id) SELECT 's.' || name, table_id FROM new"""

POSITIONS = """
    INSERT INTO mirrorgate.source_positions (table_id, generation, task, last_position, last_rows)
    SELECT table_id, 1, 'task', repeat('1', 35), '{}' FROM mirrorgate.tables"""

IMAGES = """
    INSERT INTO mirrorgate.row_images (table_id, generation, row_key, sequence, image)
    SELECT 1, 1, CAST(n::text AS bytea), 1, 'x' FROM generate_series(1, :images) n"""


CHAIN = """
    INSERT INTO mirrorgate.metadata_blocks (table_id, generation, sequence_number, block_hash, previous_hash,
        system_time, event)
    SELECT table_id, generation, n, lpad(n::text, 64, '0'),
        CASE WHEN n > 2 THEN lpad((n - 1)::text, 64, '0') ELSE block_hash END, system_time, event
    FROM mirrorgate.metadata_blocks, generate_series(2, :blocks) n WHERE table_id = 1 AND sequence_number = 1
    ORDER BY n"""

LETTERS = """
    INSERT INTO mirrorgate.dead_letters (table_id, generation, format, reading, message, errors, message_index,
        principal, state, settled_at, settled_by)
    SELECT 1, 1, 'arcion', '{}', 'x', '[{}]', 0, 'key', CASE WHEN waits THEN 'waiting' ELSE 'discarded' END,
        CASE WHEN NOT waits THEN now() END, CASE WHEN NOT waits THEN 'key' END
    FROM (SELECT n > :letters - 5 AS waits FROM generate_series(1, :letters) n) letters"""

REPORTS = """
    INSERT INTO mirrorgate.mirror_reports (table_id, generation, state, delta_generation, version, file_number,
        last_file, pending_files)
    SELECT table_id, 1, 'behind', 1, 0, CASE WHEN table_id = 1 THEN 10 ELSE 0 END, 0, 0 FROM mirrorgate.tables"""

BACKFILLS = """
    INSERT INTO mirrorgate.image_backfills (table_id, generation, state, through_sequence, rows_total, batches_total,
        finished_at)
    SELECT table_id, 1, 'done', 0, 0, 0, now() FROM mirrorgate.tables"""


@pytest.fixture(scope="module")
def history(postgres: PrivatePostgres, template_database: str) -> Iterator[sa.Engine]:
    """Give a table with id 1, thousands of batches, files and row images, the last batches pending, beside thousands of
    other tables with sources; fresh statistics."""
    engine = open_engine(create_database(postgres.url, "history", template=template_database))
    registered(engine, "t", schema_of({"id": "int64"}))
    sql.run(engine, STAGE, batches=BATCHES)
    sql.run(engine, PUBLISH, files=FILES)
    sql.run(engine, CHAIN, blocks=FILES)
    sql.run(engine, TABLES, tables=FILES)
    sql.run(engine, POSITIONS)
    sql.run(engine, IMAGES, images=FILES)
    sql.run(engine, LETTERS, letters=FILES)
    sql.run(engine, REPORTS)
    sql.run(engine, BACKFILLS)
    sql.run(engine, "ANALYZE")
    yield engine
    engine.dispose()


def _with_names(statement: str) -> sa.TextClause:
    """Return a statement of psycopg with SQLAlchemy's parameters."""
    return sa.text(re.sub(r"%\((\w+)\)s::(\w+\[\])", r"CAST(:\1 AS \2)", statement))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def explained(engine: sa.Engine, query: sa.TextClause, **parameters: Any) -> list[dict[str, Any]]:
    """Return the nodes of the plan that was executed."""
    place = {"table_id": 1, "generation": 1}
    [answer] = sql.value(engine, f"EXPLAIN (ANALYZE, FORMAT JSON) {query.text}", **place | parameters)
    return list(nodes(answer["Plan"]))


QUERIES = {
    "pending behind a long history": (SELECT_PENDING, LIFE | {"after": [FILES], "limit": 10}, 10),
    "pending of a long backlog": (SELECT_PENDING, LIFE | {"after": [0], "limit": 10}, 10),
    "nothing pending": (SELECT_PENDING, LIFE | {"after": [BATCHES], "limit": 10}, 0),
    "a range": (SELECT_RANGE, {"first_sequence": 100, "last_sequence": 109}, 10),
    "the first batch": (SELECT_BATCH, {"sequence": 1}, 1),
    "a published batch": (SELECT_BATCH, {"sequence": FILES // 2}, 1),
    "the last batch": (SELECT_BATCH, {"sequence": BATCHES}, 1),
    "the batch after the last": (SELECT_BATCH, {"sequence": BATCHES + 1}, 1),
    "a batch that never will be": (SELECT_BATCH, {"sequence": 2**62}, 1),
    "the last file": (SELECT_LAST_FILES, LIFE, 1),
    "the source position of a file": (
        SELECT_FILE_POSITIONS,
        LIFE | {"first_sequences": [100], "last_sequences": [109]},
        10,
    ),
    "the last block of a chain": (SELECT_LAST_BLOCKS, LIFE, 1),
    "whether a table has files to repair": (SELECT_TABLES_TO_REPAIR, {"table_ids": [1]}, 1),
    "nothing planned": (SELECT_UNRECORDED, {"limit": 8}, 0),
    "the table of a source": (SELECT_BY_ROUTE, {"sources": ["c.s.t7", "s.t7"], "folded_name": "s.t7"}, 1),
    "the table of a name": (SELECT_BY_ROUTE, {"sources": ["c.t7", "t7"], "folded_name": "t7"}, 1),
    "a name without a table": (SELECT_BY_ROUTE, {"sources": ["none"], "folded_name": "none"}, 0),
    "a table by name": (SELECT_BY_NAME, {"folded_name": "t7"}, 1),
    "the source of a table": (SELECT_SOURCE, {"folded_name": "t7", "whole": False}, 1),
    "the table of a schema id": (SELECT_BY_SCHEMA_ID, {"schema_id": "new7"}, 1),
    "the table of an earlier schema id": (SELECT_BY_SCHEMA_ID, {"schema_id": "older7"}, 1),
    "a schema id of no table": (SELECT_BY_SCHEMA_ID, {"schema_id": "none"}, 0),
    "a table by id": (SELECT_BY_IDS, {"table_ids": [1]}, 1),
    "the owner of a source": (SELECT_SOURCE_OWNER, {"folded_source": "s.t7"}, 1),
    "the sources of a table": (DELETE_SOURCES, {}, 0),
    "the positions of a table": (
        _with_names(SELECT_VERSIONS_AND_POSITIONS),
        {"locked_table_ids": "{1}", "table_ids": "{1}", "generations": "{1}", "tasks": "{task}"},
        1,
    ),
    "some row images": (READ_IMAGES, {"keys": [b"1", b"20", b"none"], "max_bytes": 2**20}, 2),
    "which row images there are": (READ_PRESENT, {"keys": [b"1", b"20", b"none"]}, 2),
    "whether there is one of some row images": (FIND_ANY, {"keys": [b"1", b"20", b"none"]}, 2),
    "the next waiting dead letters": (SELECT_NEXT, {"after": 0, "limit": 2}, 2),
    "how many dead letters wait": (SELECT_WAITING, {"table_ids": [1]}, 5),
    "how far a table is mirrored": (SELECT_PROGRESS, {"table_ids": [1]}, 1),
}


@pytest.mark.parametrize(("query", "parameters", "touched"), QUERIES.values(), ids=QUERIES)
def test_a_query_reads_by_an_index_and_only_what_it_needs(
    history: sa.Engine, query: sa.TextClause, parameters: dict[str, Any], touched: int
) -> None:
    scans = [node for node in explained(history, query, **parameters) if "Scan" in node["Node Type"]]
    reads = [scan for scan in scans if scan["Node Type"] not in {"Subquery Scan", "Function Scan"}]
    assert all("Index" in scan["Node Type"] or scan["Node Type"] == "Bitmap Heap Scan" for scan in reads)
    assert all(scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0) <= touched for scan in reads)


@pytest.mark.parametrize(
    ("query", "parameters", "touched"),
    [
        (SELECT_LAGGING, {}, 1),
        (SUM_BLOCKS, {"table_ids": [1], "generations": [1], "after": [BATCHES - 10], "through": [BATCHES]}, 10),
    ],
    ids=["the tables that lag", "what is new"],
)
def test_the_backlog_is_read_without_the_blocks_that_are_known(
    history: sa.Engine, query: sa.TextClause, parameters: dict[str, Any], touched: int
) -> None:
    lag = "UPDATE mirrorgate.table_counters SET last_sequence = :last, published_through = :through WHERE table_id = 1"
    sql.run(history, lag, last=BATCHES, through=FILES)
    reads = [node for node in explained(history, query, **parameters) if node.get("Relation Name") == "staged_blocks"]
    assert [("Index" in read["Node Type"], read["Actual Rows"], read["Actual Loops"]) for read in reads] == [
        (True, touched, 1)
    ]


def test_the_blocks_of_many_tables_are_staged_without_reading_all_counters(history: sa.Engine) -> None:
    """The plan is the one for unknown arrays, which Postgres keeps for a prepared statement."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)", STAGE_BLOCKS)))
    statement = re.sub(r"%\((\w+)\)[sb]", lambda found: f"${names.index(found[1]) + 1}", STAGE_BLOCKS)
    with history.begin() as connection:
        [plan] = connection.exec_driver_sql(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {statement}").scalar_one()
    reads = [node for node in nodes(plan["Plan"]) if node.get("Relation Name") == "table_counters"]
    assert [read["Node Type"] for read in reads if "Scan" in read["Node Type"]] == ["Index Scan"]
