"""Random requests with random bad messages: exactly those are left out, and the others land as if sent alone."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.model.names import TableName
from app.ingest import ArcionCsv, ArcionJson, BodyReader, ReplicateJson
from app.staging.connection.database import open_engine
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import CsvLayout, CsvMode
from tests.support.ingest_harness import IngestHarness, open_harness
from tests.support.postgres import sql
from tests.support.postgres.dead_letters import letters, messages
from tests.support.samples.messages import arcion, data
from tests.support.samples.schemas import schema_of

SCHEMA: Final = schema_of({"id": "int64", "a": "string", "b": "int64"}, ["id"], ["id"])
OPTIONS: Final = {"partial_updates": "complete", "dead_letters": "accept"}
COLUMNS: Final = ("id", "a", "b")
CSV: Final = CsvLayout(CsvMode.REALTIME, COLUMNS)
TABLES: Final = ("t", "alone", "u")


class Written(NamedTuple):
    """A change of the source, perhaps invalid: I, U or D, old key, new image, and whether a column is unknown."""

    operation: str
    old: str | None
    new: dict[str, str | None]
    strange: bool


VALUES: Final = {"a": st.sampled_from(["x", "y", None]), "b": st.sampled_from(["1", "2", None, "no number"])}
KEYS: Final = st.sampled_from(["1", "2", "3", "1", "2", "3", None])


@st.composite
def written(draw: st.DrawFn) -> Written:
    operation = draw(st.sampled_from(["I", "I", "U", "U", "U", "D", "X"]))
    given_columns = draw(st.lists(st.sampled_from(["a", "b"]), unique=True))
    new = {"id": draw(KEYS), **{column: draw(VALUES[column]) for column in given_columns}}
    same_key = draw(st.integers(0, 3)) > 0
    return Written(operation, new["id"] if same_key else draw(KEYS), new, draw(st.integers(0, 9)) == 0)


def as_arcion(change: Written) -> dict[str, Any]:
    after = {} if change.operation == "D" else dict(change.new)
    before = {} if change.operation == "I" else {"id": change.old}
    if change.strange:
        (after or before)["strange"] = "1"
    return arcion("t", before, after) | {"opType": change.operation}


def arcion_array(changes: Sequence[Written]) -> list[bytes]:
    return [json.dumps(as_arcion(change)).encode() for change in changes]


def replicate_lines(changes: Sequence[Written]) -> list[bytes]:
    operations = {"I": "INSERT", "U": "UPDATE", "D": "DELETE", "X": "MERGE"}
    bodies = []
    for change in changes:
        new = {"id": change.old} if change.operation == "D" else dict(change.new)
        if change.strange:
            new["strange"] = "1"
        old = {"id": change.old} if change.operation == "U" else None
        bodies.append(json.dumps(data(operations[change.operation], new, old)).encode())
    return bodies


def csv_lines(changes: Sequence[Written]) -> list[bytes]:
    records = []
    for change in changes:
        fields = []
        for column in COLUMNS:
            new = column in change.new and change.operation != "D"
            old = column == "id" and change.operation != "I"
            fields += [change.new[column] or "NULL" if new else "NULL", change.old or "NULL" if old else "NULL"]
            fields.append(str(new + 2 * old))
        fields += [change.operation, "", ""] + ["strange"] * change.strange
        records.append((",".join(fields) + "\r\n").encode())
    return records


class Format(NamedTuple):
    """How changes are written, one after the other, and how a body of some of them is read."""

    write: Callable[[Sequence[Written]], list[bytes]]
    read: Callable[..., BodyReader]


def read_arcion(parts: Sequence[bytes], table: str, **others: Any) -> BodyReader:
    return ArcionJson(b"[" + b" , ".join(parts) + b"]", TableName.parse(table), override=True, **others)


def read_replicate(parts: Sequence[bytes], table: str, **others: Any) -> BodyReader:
    return ReplicateJson(b"\n".join(parts), TableName.parse(table), **others)


def read_csv(parts: Sequence[bytes], table: str, **others: Any) -> BodyReader:
    return ArcionCsv(b"".join(parts), TableName.parse(table), CSV, **others)


FORMATS: Final = {
    "arcion": Format(arcion_array, read_arcion),
    "replicate": Format(replicate_lines, read_replicate),
    "csv": Format(csv_lines, read_csv),
}


@pytest.fixture
def harness(database_url: str) -> Iterator[IngestHarness]:
    engine = open_engine(database_url)
    with open_harness(engine) as harness:
        yield harness
    engine.dispose()


def begin_again(harness: IngestHarness) -> None:
    """Create tables `t` and `alone` with the row of key 1, and `u` with the same for dry runs."""
    sql.run(harness.engine, "UPDATE mirrorgate.tables SET state = 'dropped'")
    sql.run(harness.engine, "DELETE FROM mirrorgate.dead_letters")
    for table in TABLES:
        harness.put(table, SCHEMA, **OPTIONS)
        harness.ingest.table_cache.forget_table(TableName.parse(table))
        harness.accept(read_arcion(arcion_array([Written("I", None, {"id": "1", "a": "x", "b": "1"}, False)]), table))


@pytest.mark.parametrize("source_format", FORMATS)
@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(written(), min_size=1, max_size=8))
def test_letters_are_what_is_rejected_and_the_rest_lands_as_if_sent_alone(
    harness: IngestHarness, source_format: str, changes: list[Written]
) -> None:
    begin_again(harness)
    write, read = FORMATS[source_format]
    parts = write(changes)
    try:
        accepted = harness.accept(read(parts, "t", keep_rejected=True))
    except RejectedInput as whole:
        # No single message is wrong where updates of keys contradict each other, so none can be left out.
        assert whole.code is Code.AMBIGUOUS_KEY_CHANGE
        assert (letters(harness.engine), harness.rows("t")) == ([], harness.rows("alone"))
        return
    left_out = [letter.message_index for letter in letters(harness.engine)]
    good = [part for index, part in enumerate(parts) if index not in left_out]
    assert accepted.dead_letters == len(left_out)
    assert sum(receipt.changes for receipt in accepted.receipts) + len(left_out) == len(parts)
    assert messages(harness.engine) == [parts[index] for index in left_out]
    if good:
        harness.accept(read(good, "alone"))
    assert harness.rows("t") == harness.rows("alone")
    for index in left_out:
        before = [part for place, part in enumerate(parts[:index]) if place not in left_out]
        with pytest.raises(RejectedInput) as rejection:
            harness.dry_run(read([*before, parts[index]], "u"))
        assert {problem.index for problem in rejection.value.problems} == {len(before)}
