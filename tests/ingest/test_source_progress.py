"""What the source says of its changes: how late they arrive, which are missing, and which end a transaction."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.model.change import PROVEN_CHANGES
from app.domain.publication import FileLimits
from app.staging.overview import TableFacts, find_facts, table_summaries
from app.staging.tables.events import list_events
from mirrorgate.parameters import CsvLayout, CsvMode
from tests.support.ingest_harness import IngestHarness
from tests.support.postgres import sql
from tests.support.postgres.ledger import Owned, claim_by, plan
from tests.support.rejections import rejected
from tests.support.samples.debezium import event
from tests.support.samples.messages import Message, arcion, data
from tests.support.samples.schemas import schema_of

ID = schema_of({"id": "int64"}, ["id"], ["id"])


def millis(seconds_ago: float) -> int:
    return int((datetime.now(UTC) - timedelta(seconds=seconds_ago)).timestamp() * 1_000)


def facts(harness: IngestHarness, name: str) -> TableFacts:
    [found] = sql.call(harness.engine, find_facts, [harness.table(name)])
    return found


def lag(harness: IngestHarness, name: str) -> list[float | None]:
    """Return the lag and the part of it before the tool read the change, in whole tens of seconds."""
    counts = facts(harness, name).counts
    found = (counts.source_lag_seconds, counts.extraction_lag_seconds)
    return [None if seconds is None else round(seconds, -1) for seconds in found]


def test_each_format_tells_the_time_from_commit_to_acceptance(harness: IngestHarness) -> None:
    for name in "acdr":
        harness.put(name, ID)
    cursor = {"timestamp": millis(300), "extractionTimestamp": millis(100)}
    harness.arcion(arcion("a", after={"id": "1"}, cursor=json.dumps(cursor)))
    record = '1,NULL,1,I,"{}",{{}}\n'.format(json.dumps(cursor).replace('"', '""'))
    harness.csv(record, "c", CsvLayout(CsvMode.REALTIME, ("id",)))
    harness.debezium(event("c", "d", after={"id": 1}, ts_ms=millis(300)) | {"ts_ms": millis(100)}, table="d")
    at = (datetime.now(UTC) - timedelta(seconds=300)).replace(tzinfo=None).isoformat()
    harness.replicate(data("INSERT", {"id": 1}, timestamp=at), table="r")
    assert [lag(harness, name) for name in "acdr"] == [[300, 200], [300, 200], [300, 200], [300, None]]


def test_the_lag_is_that_of_the_last_change_and_none_without_recent_ones(harness: IngestHarness) -> None:
    harness.put("d", ID)
    harness.debezium(*(event("c", "d", after={"id": ago}, ts_ms=millis(ago)) for ago in (900, 60)), table="d")
    assert lag(harness, "d")[0] == 60
    harness.plain_rows("d", {"id": 7})
    assert lag(harness, "d")[0] == 60
    sql.run(harness.engine, "UPDATE mirrorgate.table_counters SET source_lag_at = now() - interval '16 minutes'")
    assert facts(harness, "d").counts.source_lag_seconds is None
    assert [summary.source_lag_seconds for summary in sql.call(harness.engine, table_summaries)] == [None]


def test_a_source_whose_clock_is_ahead_has_no_lag(harness: IngestHarness) -> None:
    harness.put("d", ID)
    harness.debezium(event("c", "d", after={"id": 1}, ts_ms=millis(-500)), table="d")
    assert facts(harness, "d").counts.source_lag_seconds == 0


def counted(table: str, counts: Sequence[int], **members: Any) -> list[Message]:
    """Return an insert for each count, whose key it is."""
    return [
        arcion(table, after={"id": str(count)}, operationcount=json.dumps({"insertCount": count - 1, "updateCount": 1}))
        | members
        for count in counts
    ]


@pytest.fixture
def proven(harness: IngestHarness) -> IngestHarness:
    """Return a harness whose table t has received the counts 1 to 150."""
    harness.put("t", ID, dead_letters="accept")
    harness.arcion(*counted("t", range(1, PROVEN_CHANGES + 51)))
    return harness


def missing(harness: IngestHarness, name: str = "t") -> tuple[int, list[dict[str, Any]]]:
    """Return the missing changes of a table, and the details of the events that tell them."""
    table = harness.table(name)
    events = sql.call(harness.engine, list_events, table.name, after=0, limit=100)
    return (
        facts(harness, name).counts.missing_changes,
        [dict(one.details) for one in events if one.action == "changes_missing"],
    )


def test_a_jump_larger_than_the_changes_received_is_reported_as_changes_missing(proven: IngestHarness) -> None:
    proven.arcion(*counted("t", range(151, 156)))
    assert missing(proven) == (0, [])
    proven.arcion(*counted("t", range(160, 170)))
    assert missing(proven) == (4, [{"changes": 4, "operation_count": 169}])
    assert proven.rows("t")[-1]["id"] == 169


def test_a_realtime_record_of_csv_is_counted_as_json_is(proven: IngestHarness) -> None:
    layout = CsvLayout(CsvMode.REALTIME, ("id",))
    proven.csv('153,NULL,1,I,"{}","{""insertCount"":152,""deleteCount"":1}"\n', "t", layout)
    assert missing(proven)[0] == 2


def test_messages_that_become_dead_letters_are_not_missing(proven: IngestHarness) -> None:
    wrong = counted("t", [152], after={"id": "x"})
    proven.arcion(*counted("t", [151]), *wrong, *counted("t", [153]), keep_rejected=True)
    assert missing(proven) == (0, [])


def test_a_repeated_request_is_not_missing(proven: IngestHarness) -> None:
    for counts in (range(151, 160), range(151, 160), range(155, 165), range(165, 166)):
        proven.arcion(*counted("t", counts))
    assert missing(proven) == (0, [])


def test_a_rejected_request_is_missing_if_it_never_lands(proven: IngestHarness) -> None:
    with rejected():
        proven.arcion(*counted("t", [151], after={"id": "x"}))
    proven.arcion(*counted("t", [152]))
    assert missing(proven)[0] == 1


def test_counts_of_several_tables_together_report_nothing(proven: IngestHarness) -> None:
    proven.put("u", ID)
    proven.arcion(*counted("u", range(151, 400)))
    proven.arcion(*counted("t", range(400, 600)))
    proven.arcion(*counted("u", range(600, 700)), *counted("t", range(700, 710)))
    assert [missing(proven, name) for name in "tu"] == [(0, []), (0, [])]


def test_the_option_ignores_the_counts_and_a_new_generation_forgets_them(proven: IngestHarness) -> None:
    proven.arcion(*counted("t", [200]))
    assert missing(proven)[0] == 49
    proven.put("t", operation_counts="ignore")
    assert missing(proven)[0] == 0
    proven.arcion(*counted("t", [500]))
    proven.put("t", operation_counts="check")
    assert missing(proven)[0] == 49


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
