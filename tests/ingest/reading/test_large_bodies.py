"""Arcion bodies on the columnar path have the rows, images and rejections of the exact path."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.ingest import ArcionJson
from app.ingest.request_typing import RequestTyper
from mirrorgate.errors import Code, RejectedInput
from tests.support.ingest_harness import IngestHarness
from tests.support.postgres.dead_letters import waiting
from tests.support.rejections import rejected
from tests.support.samples.images import stored_images
from tests.support.samples.messages import Message, arcion
from tests.support.samples.schemas import schema_of

SCHEMA: Final = schema_of({"id": "int64", "name": "string", "total": "decimal(9,2)"}, ["id"], ["id", "name"])
_NAMES: Final = (f"t{number}" for number in itertools.count())


def insert(table: str, key: str, name: str, total: str = "null") -> Message:
    return arcion(table, None, {"id": key, "name": name, "total": total})


def changed(table: str, key: str, new_key: str = "", **given: str) -> Message:
    """Return an update as Replicant writes it by default: the key before, what changed after."""
    blank = dict.fromkeys(SCHEMA.names, "null")
    after = blank | given | ({"id": new_key} if new_key else {})
    exists = dict.fromkeys(SCHEMA.names, "0") | dict.fromkeys(given, "1") | {"id": "3" if new_key else "2"}
    return arcion(table, blank | {"id": key}, after) | {"exists": exists}


def large(*messages: Message) -> Sequence[Message]:
    return [messages[0] | {"cursor": "x" * 2**14}, *messages[1:]]


@pytest.fixture
def hurried(harness: IngestHarness, monkeypatch: pytest.MonkeyPatch) -> IngestHarness:
    """Return a harness without the exact path; it knows its tables `t`, which completes updates, and `u`."""
    harness.put("t", SCHEMA, partial_updates="complete")
    harness.put("u", SCHEMA)
    harness.arcion(insert("t", "1", "Ada", "1.5"), insert("u", "1", "Ada", "1.5"))
    monkeypatch.setattr(RequestTyper, "type_request", None)
    return harness


def test_updates_completed_by_row_images_take_the_columnar_path(hurried: IngestHarness) -> None:
    hurried.arcion(*large(changed("t", "1", total="2"), insert("t", "2", "Bob"), changed("t", "2", total="3")))
    hurried.arcion(*large(arcion("t", {"id": "2", "name": "Bob", "total": "3"}), changed("t", "1", name="Eve")))
    rows = hurried.landed("t", "id", "name", "total")[1:]
    assert rows[:3] == [[1, 1, "Ada", 2], [0, 2, "Bob", None], [1, 2, "Bob", 3]]
    assert rows[3:] == [[2, 2, None, None], [1, 1, "Eve", 2]]
    assert [*stored_images(hurried.engine, hurried.table("t")).values()] == [{"id": "1", "name": "Eve", "total": "2"}]


def test_an_update_with_only_the_key_in_the_before_image_takes_the_columnar_path(
    hurried: IngestHarness,
) -> None:
    hurried.arcion(*large(changed("u", "1", name="Eve", total="2")))
    assert hurried.landed("u", "id", "name")[1:] == [[1, 1, "Eve"]]


def test_an_update_that_no_image_completes_is_rejected_by_message_and_column_and_leaves_nothing(
    harness: IngestHarness,
) -> None:
    harness.put("t", SCHEMA, partial_updates="complete")
    harness.arcion(insert("t", "1", "Ada"))
    with rejected() as rejection:
        harness.arcion(
            *large(changed("t", "1", name="Eve"), changed("t", "2", name="Bob"), changed("t", "3", total="1"))
        )
    assert rejection.places == [
        (Code.INCOMPLETE_UPDATE, 1, "/after/total", "total"),
        (Code.INCOMPLETE_UPDATE, 2, "/after/name", "name"),
    ]
    assert harness.landed("t", "id", "name") == [[0, 1, "Ada"]]
    assert [image["name"] for image in stored_images(harness.engine, harness.table("t")).values()] == ["Ada"]


def test_an_update_that_no_image_completes_is_kept_as_a_dead_letter_and_the_others_land(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, partial_updates="complete", dead_letters="accept")
    harness.arcion(insert("t", "1", "Ada"))
    accepted = harness.arcion(*large(changed("t", "1", name="Eve"), changed("t", "2", name="Bob")), keep_rejected=True)
    assert (accepted.dead_letters, [receipt.changes for receipt in accepted.receipts]) == (1, [1])
    assert [letter.message_index for letter in waiting(harness.engine)] == [1]
    assert harness.landed("t", "id", "name") == [[0, 1, "Ada"], [1, 1, "Eve"]]


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Draw a change of one of three rows, which need not exist."""
    key, other = draw(st.permutations(["1", "2", "3"]))[:2]
    given_columns = draw(st.fixed_dictionaries({}, optional={"name": NAMES, "total": TOTALS}))
    kind = draw(st.sampled_from(["insert", "upsert", "update", "update", "update", "move", "delete"]))
    if kind == "delete":
        return arcion("", {"id": key, "name": "null", "total": "null"})
    if kind in {"insert", "upsert"}:
        return insert("", key, draw(NAMES), draw(TOTALS)) | {"opType": kind[0].upper().replace("U", "R")}
    return changed("", key, other if kind == "move" else "", **given_columns)


NAMES: Final = st.sampled_from(["Ada", "", "Bob", "Zoë"])
TOTALS: Final = st.sampled_from(["1", "2.50", "null"])


class _ExactOnly(ArcionJson):
    @property
    def is_columnar(self) -> bool:
        return False


def outcome(harness: IngestHarness, table: str, sent: Sequence[Message], *, exact: bool = False) -> Any:
    """Return the answer to a request, which the exact path can be forced to read."""
    body = json.dumps([message | {"tableName": {"name": table}} for message in sent]).encode()
    reader = (_ExactOnly if exact else ArcionJson)(body)
    try:
        accepted = harness.accept(reader)
        return [(receipt.sequence, receipt.changes) for receipt in accepted.receipts]
    except RejectedInput as rejection:
        return [replace(problem, table=None) for problem in rejection.problems]


@given(requests=st.lists(st.lists(messages(), min_size=1, max_size=5), min_size=1, max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_columnar_path_makes_the_rows_the_images_and_the_rejections_of_the_exact_path(
    harness: IngestHarness, requests: list[list[Message]]
) -> None:
    one, other = next(_NAMES), next(_NAMES)
    for name in (one, other):
        harness.put(name, SCHEMA, partial_updates="complete")
        harness.arcion(*(insert(name, key, "Old", "7") for key in ("1", "2")))
    for sent in requests:
        assert outcome(harness, one, sent, exact=True) == outcome(harness, other, sent)
    assert harness.rows(one) == harness.rows(other)
    assert stored_images(harness.engine, harness.table(one)) == stored_images(harness.engine, harness.table(other))
