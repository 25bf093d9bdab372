"""Source transactions: how their ends are staged, and where files are cut."""

import pytest

from app.domain.publication import FileLimits
from tests.support.ingest_harness import IngestHarness
from tests.support.postgres import sql
from tests.support.postgres.ledger import Owned, claim_by, plan
from tests.support.samples.messages import Message, data
from tests.support.samples.schemas import schema_of

ID = schema_of({"id": "int64"}, ["id"], ["id"])


def insert(number: int, last: bool | None) -> Message:
    return data("INSERT", {"id": number}, transactionId="0A", transactionLastEvent=last)


@pytest.mark.parametrize(
    ("flags", "ends"), [([True], True), ([False], False), ([None], True), ([True, False], False), ([False, True], True)]
)
def test_a_block_says_whether_its_last_change_ends_a_transaction(
    harness: IngestHarness, flags: list[bool | None], ends: bool
) -> None:
    harness.put("t", ID)
    harness.replicate(*(insert(number, last) for number, last in enumerate(flags)), table="t")
    assert sql.value(harness.engine, "SELECT ends_transaction FROM mirrorgate.staged_blocks") is ends


def test_a_transaction_of_several_requests_lands_in_one_file_where_it_fits(harness: IngestHarness) -> None:
    harness.put("t", ID, seed_file=False)
    for number, last in enumerate([True, False, False, True, True], 1):
        harness.replicate(insert(number, last), table="t")
    table = harness.table("t")
    owned = Owned(table, *claim_by(harness.engine, table.table_id))
    planned = plan(harness.engine, owned, FileLimits(payload_bytes=2**30, rows=3, max_delay_seconds=0))
    ranges = [(file.identity.first_sequence, file.identity.last_sequence) for file in planned]
    assert ranges == [(1, 1), (2, 4), (5, 5)]


def test_what_was_accepted_before_does_not_end_a_transaction_that_goes_on(harness: IngestHarness) -> None:
    harness.put("t", ID, source_order="enforce")
    first = data("INSERT", {"id": 1}, sequence=1, transactionLastEvent=True)
    harness.replicate(first, table="t")
    harness.replicate(first, data("INSERT", {"id": 2}, sequence=2, transactionLastEvent=False), table="t")
    ends = sql.rows(harness.engine, "SELECT ends_transaction FROM mirrorgate.staged_blocks ORDER BY first_sequence")
    assert ends == [(True,), (False,)]
