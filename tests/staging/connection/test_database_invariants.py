"""Invariants that the database enforces itself, whatever the program does."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from app.local.embedded import PrivatePostgres
from app.staging.connection.database import open_engine, translated_errors
from mirrorgate.errors import Code, RejectedInput
from tests.support.postgres import sql
from tests.support.postgres.databases import create_database
from tests.support.postgres.ledger import Owned, owned_table, plan

INSERT_FILE = """
    INSERT INTO mirrorgate.landing_files (table_id, generation, number, first_sequence, last_sequence,
        schema_version, row_count, change_count, digest)
    VALUES (:table_id, :generation, :number, :first, :last, 1, :rows, :changes, '00')"""

AFTER_SEED = """
    INSERT INTO mirrorgate.landing_files (table_id, generation, number, first_sequence, last_sequence,
        schema_version, row_count, change_count, digest)
    SELECT table_id, 2, {number}, {first}, {last}, 1, {rows}, {rows}, '00'
    FROM mirrorgate.landing_files WHERE generation = 2"""

INSERT_BLOCK = """
    INSERT INTO mirrorgate.staged_blocks (table_id, generation, first_sequence, last_sequence, schema_version,
        batch_rows, batch_changes, row_count, change_count, payload_bytes, payload_digest)
    VALUES (:table_id, :generation, :first, :last, :version,
        :batch_rows, :batch_changes, :rows, :changes, 1, :digest)"""


@pytest.fixture(scope="module")
def engine(postgres: PrivatePostgres, template_database: str) -> Iterator[sa.Engine]:
    """Give one database for all these tests: none of them leaves a trace."""
    engine = open_engine(create_database(postgres.url, "invariants", template=template_database))
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def owned(engine: sa.Engine) -> Owned:
    """Give a table with batches 1 to 4, of which files 1 and 2 hold 1 and 2, an empty generation 2, the source `old`,
    and an API key."""
    owned = owned_table(engine, [1], [2], [3], [4])
    plan(engine, owned, limit=2)
    sql.run(
        engine,
        """INSERT INTO mirrorgate.schema_versions (table_id, generation, version, key_columns, columns)
        SELECT table_id, 2, version, key_columns, columns FROM mirrorgate.schema_versions""",
    )
    sql.run(engine, INSERT_SOURCE, source="old", table_id=owned.table.table_id)
    sql.run(
        engine,
        """INSERT INTO mirrorgate.api_keys (key_id, secret_hash, rights, table_patterns)
        VALUES ('0011aabb', sha256(''), '{read}', '{*}')""",
    )
    return owned


def insert_file(engine: sa.Engine, owned: Owned, number: int, first: int, last: int, **others: int) -> None:
    facts = {"generation": 1, "rows": 1, "changes": 1} | others
    sql.attempt(engine, INSERT_FILE, table_id=owned.table.table_id, number=number, first=first, last=last, **facts)


def test_the_next_number_over_the_next_batches_is_taken(engine: sa.Engine, owned: Owned) -> None:
    insert_file(engine, owned, 3, 3, 4)


WRONG_FILES = {
    "gap in the numbers": (4, 3, 3),
    "gap in the batches": (3, 4, 4),
    "overlap": (3, 2, 3),
    "overlap from the start": (3, 1, 3),
    "number taken": (2, 3, 3),
    "file taken": (1, 1, 1),
    "range reversed": (3, 3, 2),
    "number zero": (0, 0, 0),
    "negative number": (-1, 3, 3),
    "first batch again": (3, 1, 1),
}


@pytest.mark.parametrize(("number", "first", "last"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_a_file_that_leaves_a_gap_or_overlaps_is_rejected(
    engine: sa.Engine, owned: Owned, number: int, first: int, last: int
) -> None:
    with pytest.raises(sa.exc.IntegrityError):
        insert_file(engine, owned, number, first, last)


@pytest.mark.parametrize(("number", "first"), [(1, 2), (2, 1), (2, 2)])
def test_the_first_file_of_a_generation_is_number_one_over_batch_one(
    engine: sa.Engine, owned: Owned, number: int, first: int
) -> None:
    with pytest.raises(sa.exc.IntegrityError):
        insert_file(engine, owned, number, first, first, generation=2)
    insert_file(engine, owned, 1, 1, 1, generation=2)


@pytest.mark.parametrize("empty", [{"rows": 0}, {"changes": 0}])
def test_an_empty_file_is_rejected(engine: sa.Engine, owned: Owned, empty: dict[str, int]) -> None:
    with pytest.raises(sa.exc.IntegrityError):
        insert_file(engine, owned, 3, 3, 3, **empty)


def insert_seed(engine: sa.Engine, owned: Owned, then: str = "SELECT", **wrong: int) -> None:
    """Insert a seed file into the empty generation 2, run a statement after it, and roll back."""
    facts = {"number": 1, "first": 1, "last": 0, "rows": 0, "changes": 0} | wrong
    with engine.connect() as connection, connection.begin() as transaction:
        parameters = {"table_id": owned.table.table_id, "generation": 2} | facts
        connection.execute(sa.text(INSERT_FILE), parameters)
        connection.execute(sa.text(then))
        transaction.rollback()


def test_a_generation_may_begin_with_a_seed_and_go_on_with_batch_one(engine: sa.Engine, owned: Owned) -> None:
    insert_seed(engine, owned, then=AFTER_SEED.format(number=2, first=1, last=3, rows=1))


@pytest.mark.parametrize(
    "wrong",
    [{"number": 2}, {"first": 2}, {"last": -1}, {"first": 2, "last": 1}, {"rows": 1}, {"changes": 1}, {"first": 0}],
    ids=lambda wrong: ",".join(wrong),
)
def test_a_seed_is_number_one_without_batch_or_row(engine: sa.Engine, owned: Owned, wrong: dict[str, int]) -> None:
    insert_seed(engine, owned)
    with pytest.raises(sa.exc.IntegrityError):
        insert_seed(engine, owned, **wrong)


@pytest.mark.parametrize(
    ("number", "first", "last", "rows"),
    [(3, 1, 1, 1), (2, 2, 2, 1), (2, 1, 0, 0), (2, 1, 1, 0), (1, 1, 1, 1)],
    ids=["gap in the numbers", "gap in the batches", "second seed", "data without rows", "number taken"],
)
def test_after_a_seed_a_gap_is_rejected_as_ever(
    engine: sa.Engine, owned: Owned, number: int, first: int, last: int, rows: int
) -> None:
    with pytest.raises(sa.exc.IntegrityError):
        insert_seed(engine, owned, then=AFTER_SEED.format(number=number, first=first, last=last, rows=rows))


UPDATE_FILES = "UPDATE mirrorgate.landing_files"
PUBLISHED = "state = 'published', published_at = now()"
BUILT = "nominated_epoch = 1, nominated_temp = 't'"
IMPOSSIBLE = {
    "published without a time": f"{UPDATE_FILES} SET state = 'published' WHERE number = 1",
    "a time without being published": f"{UPDATE_FILES} SET published_at = now() WHERE number = 1",
    "published without a registered build": f"{UPDATE_FILES} SET {PUBLISHED} WHERE number = 1",
    "unknown file state": f"{UPDATE_FILES} SET state = 'lost' WHERE number = 1",
    "an epoch without a registered build": f"{UPDATE_FILES} SET nominated_epoch = 1 WHERE number = 1",
    "another range under a successor": f"{UPDATE_FILES} SET last_sequence = 9 WHERE number = 1",
    "another number under a successor": f"{UPDATE_FILES} SET number = 7 WHERE number = 1",
    "a file gone under its successor": "DELETE FROM mirrorgate.landing_files WHERE number = 1",
    "a ledger that begins with a planned file": f"{UPDATE_FILES} SET begins_ledger = true WHERE number = 2",
    "a ledger that begins twice": f"{UPDATE_FILES} SET begins_ledger = true, {PUBLISHED}, {BUILT} WHERE number = 2",
    "two open buckets": "INSERT INTO mirrorgate.payload_buckets (bucket, state, opened_at) VALUES (9, 'open', now())",
    "a payload in a partition that is not there": "INSERT INTO mirrorgate.block_payloads VALUES (1, 1, 9, '', 9)",
    "recorded beyond what is planned": "UPDATE mirrorgate.table_counters SET recorded_file_number = next_file_number",
    "published beyond what is accepted": "UPDATE mirrorgate.table_counters SET published_through = last_sequence + 1",
    "unknown table state": "UPDATE mirrorgate.tables SET state = 'gone'",
    "a revision before the first": "UPDATE mirrorgate.tables SET revision = 0",
    "a key that may send no request": "UPDATE mirrorgate.api_keys SET requests_per_second = 0",
    "a key that may send no byte": "UPDATE mirrorgate.api_keys SET bytes_per_second = 0",
    "unknown right": "UPDATE mirrorgate.api_keys SET rights = '{everything}'",
}


@pytest.mark.parametrize("change", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_state_that_cannot_be_is_rejected(engine: sa.Engine, owned: Owned, change: str) -> None:
    with pytest.raises(sa.exc.IntegrityError):
        sql.attempt(engine, change)


@pytest.mark.parametrize(
    "wrong",
    [
        {"first": 4},
        {"first": 5, "last": 6},
        {"first": 0, "last": 0},
        {"batch_rows": [1, 1], "batch_changes": [1, 1]},
        {"batch_changes": [1, 1]},
        {"batch_rows": [], "batch_changes": []},
        {"rows": 0},
        {"changes": 0},
        {"digest": b"short"},
        {"version": 2},
        {"generation": 3},
        {"table_id": 99},
    ],
    ids=lambda wrong: ",".join(wrong),
)
def test_a_block_that_does_not_hold_together_is_rejected(
    engine: sa.Engine, owned: Owned, wrong: dict[str, object]
) -> None:
    place = {"table_id": owned.table.table_id, "generation": 1, "first": 5, "last": 5, "version": 1}
    facts = place | {"batch_rows": [1], "batch_changes": [1], "rows": 1, "changes": 1, "digest": bytes(32)}
    with pytest.raises(sa.exc.IntegrityError):
        sql.attempt(engine, INSERT_BLOCK, **(facts | wrong))
    sql.attempt(engine, INSERT_BLOCK, **facts)


INSERT_SOURCE = "INSERT INTO mirrorgate.table_sources (folded_source, table_id) VALUES (:source, :table_id)"

INSERT_POSITION = """
    INSERT INTO mirrorgate.source_positions (table_id, generation, task, last_position, last_rows)
    VALUES (:table_id, 1, 'task', :last_position, CAST(:last_rows AS text[]))"""

INSERT_IMAGE = """
    INSERT INTO mirrorgate.row_images (table_id, generation, row_key, sequence, image)
    VALUES (:table_id, 1, :row_key, :sequence, '')"""


SAID_BY_SOURCES = {
    "a source of two tables": (INSERT_SOURCE, {"source": "new"}, {"source": "old"}),
    "a source of no table": (INSERT_SOURCE, {"source": "new"}, {"table_id": 99}),
    "a long position": (INSERT_POSITION, {"last_position": "1" * 256, "last_rows": []}, {"last_position": "1" * 257}),
    "an empty position": (INSERT_POSITION, {"last_position": "1", "last_rows": []}, {"last_position": ""}),
    "too many rows at a position": (
        INSERT_POSITION,
        {"last_position": "1", "last_rows": ["x"] * 1_000},
        {"last_rows": ["x"] * 1_001},
    ),
    "a position in no table": (INSERT_POSITION, {"last_position": "1", "last_rows": []}, {"table_id": 99}),
    "a long row key": (INSERT_IMAGE, {"row_key": bytes(256), "sequence": 1}, {"row_key": bytes(257)}),
    "an image from before the first batch": (INSERT_IMAGE, {"row_key": b"", "sequence": 1}, {"sequence": 0}),
}


@pytest.mark.parametrize(("statement", "right", "wrong"), SAID_BY_SOURCES.values(), ids=SAID_BY_SOURCES)
def test_what_a_source_says_holds_together(
    engine: sa.Engine, owned: Owned, statement: str, right: dict[str, object], wrong: dict[str, object]
) -> None:
    facts = {"table_id": owned.table.table_id, **right}
    with pytest.raises(sa.exc.IntegrityError):
        sql.attempt(engine, statement, **(facts | wrong))
    sql.attempt(engine, statement, **facts)


@pytest.mark.parametrize(
    ("statement", "facts"),
    [(INSERT_POSITION, {"last_position": "1", "last_rows": []}), (INSERT_IMAGE, {"row_key": b"k", "sequence": 1})],
    ids=["position of a task", "image of a key"],
)
def test_a_table_has_one(engine: sa.Engine, owned: Owned, statement: str, facts: dict[str, object]) -> None:
    twice = f"WITH one AS ({statement} RETURNING *) INSERT INTO {statement.split()[2]} SELECT * FROM one"
    with pytest.raises(sa.exc.IntegrityError):
        sql.attempt(engine, twice, table_id=owned.table.table_id, **facts)


def test_a_new_table_begins_with_the_first_revision_and_without_changes(engine: sa.Engine, owned: Owned) -> None:
    defaults = """SELECT t.revision, t.column_stays, t.arcion_catalog, v.bare, b.ends_transaction
        FROM mirrorgate.tables t JOIN mirrorgate.schema_versions v USING (table_id)
        JOIN mirrorgate.staged_blocks b USING (table_id)
        WHERE v.generation = 2 AND b.first_sequence = 1"""
    assert sql.rows(engine, defaults) == [(1, {}, None, False, True)]


def test_two_live_tables_never_share_a_name(engine: sa.Engine, owned: Owned) -> None:
    with pytest.raises(sa.exc.IntegrityError):
        sql.attempt(engine, "INSERT INTO mirrorgate.tables (name, folded_name) VALUES ('T', 't')")


def test_there_is_one_installation_id(engine: sa.Engine) -> None:
    with pytest.raises(sa.exc.IntegrityError):
        sql.attempt(engine, "INSERT INTO mirrorgate.installation DEFAULT VALUES")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO mirrorgate.producers (principal, producer) VALUES ('p', repeat('x', 256))",
        """INSERT INTO mirrorgate.request_receipts (principal, name, producer_sequence, fingerprint, answer)
        VALUES ('p', repeat('x', 256), 0, sha256(''), '{}')""",
        """INSERT INTO mirrorgate.source_positions (table_id, generation, task, last_position, last_rows)
        SELECT table_id, 1, repeat('x', 1025), '1', '{}' FROM mirrorgate.tables LIMIT 1""",
        """INSERT INTO mirrorgate.table_sources (folded_source, table_id)
        SELECT repeat('x', 1025), table_id FROM mirrorgate.tables LIMIT 1""",
    ],
    ids=["producer", "request name", "source task", "source name"],
)
@pytest.mark.usefixtures("owned")
def test_a_text_that_is_too_long_for_an_index_is_rejected_as_the_requests_fault(
    engine: sa.Engine, statement: str
) -> None:
    with pytest.raises(RejectedInput, match=Code.UNSTORABLE), translated_errors():
        sql.attempt(engine, statement)
