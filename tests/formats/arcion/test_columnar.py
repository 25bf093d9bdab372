"""Columnar reading of Arcion bodies gives the rows of the general reader, and accepts nothing that it rejects."""

import json
import tracemalloc
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.rows.row_rules import RowRules
from app.formats.arcion.columnar import ArcionTableReader, decode_columnar
from app.formats.json.texts import MAX_NESTED_VALUES
from mirrorgate.errors import RejectedInput
from tests.fuzz.decoders import COMPLETING, FULL_IMAGES, TABLE, check_paths_agree, columnar_arcion, exact_arcion, tried
from tests.support.samples.messages import body_of
from tests.support.samples.schemas import schema_of

NAMES = TABLE.names
TEXTS = st.sampled_from(["1", "2", "null", "", 'a " : {', "\\", "ä", "\u2028", "x: [", '","id":"3'])
OTHERS = st.sampled_from([(), (), (), ("other",)])
FLAGS = {"I": "1", "R": "1", "U": "3", "D": "2"}


@st.composite
def messages(draw: st.DrawFn, operations: str = "IRUD") -> dict[str, Any]:
    """Draw a columnar message with a cursor of its own."""
    operation = draw(st.sampled_from(operations))

    def image(key: str) -> dict[str, str]:
        return {"id": key} | {name: draw(TEXTS) for name in NAMES[1:]}

    key = draw(st.sampled_from(["1", "2"]))
    message: dict[str, Any] = {
        "tableName": {"namespace": {"catalog": "tpch", "schema": "default_schema"}, "name": "t"},
        "opType": operation,
        "cursor": draw(st.sampled_from([None, "here", '{"position": "1:2"}'])),
        "exists": dict.fromkeys(NAMES, FLAGS[operation]),
        "after": draw(st.sampled_from([{}, None, image("3")])) if operation == "D" else image(key),
        "before": image(key) if operation in "UD" else dict.fromkeys((*NAMES, *draw(OTHERS)), "null"),
    }
    for optional in ("cursor", "after") if operation == "D" else ("cursor",):
        if draw(st.booleans()):
            message.pop(optional, None)
    return message


@st.composite
def partial_updates(draw: st.DrawFn) -> dict[str, Any]:
    """Draw an update whose `exists` says by column which image has it; the other can have anything, or nothing."""
    message = draw(messages("U"))
    message["exists"] = {"id": draw(st.sampled_from("23"))} | {
        name: draw(st.sampled_from("0123")) for name in NAMES[1:]
    }
    for image, flags in (("before", "01"), ("after", "02")):
        spare = [name for name, flag in message["exists"].items() if flag in flags]
        left_out = draw(st.sets(st.sampled_from(spare))) if spare else set()
        message[image] = {name: value for name, value in message[image].items() if name not in left_out}
    return message


@given(
    all_messages=st.lists(messages(), min_size=1, max_size=6),
    lines=st.booleans(),
    escaped=st.booleans(),
    compact=st.booleans(),
)
def test_an_eligible_body_takes_the_fast_path_with_the_same_rows(
    all_messages: list[dict[str, Any]], *, lines: bool, escaped: bool, compact: bool
) -> None:
    body = body_of(all_messages, lines=lines, escaped=escaped, compact=compact)
    tried("arcion_json", body)
    for rules in (FULL_IMAGES, COMPLETING):
        if _is_taken(body, rules) and _is_clear(all_messages):
            assert columnar_arcion(body, rules) is not None


@given(
    all_messages=st.lists(partial_updates() | messages(), min_size=1, max_size=6),
    lines=st.booleans(),
    escaped=st.booleans(),
    compact=st.booleans(),
)
def test_partial_updates_take_the_fast_path_with_the_same_rows_and_images(
    all_messages: list[dict[str, Any]], *, lines: bool, escaped: bool, compact: bool
) -> None:
    body = body_of(all_messages, lines=lines, escaped=escaped, compact=compact)
    tried("arcion_json", body)
    updates = [message for message in all_messages if message["opType"] == "U"]
    has_whole_images = all(message["before"].keys() == message["after"].keys() == {*NAMES} for message in updates)
    if has_whole_images and _is_taken(body, COMPLETING) and _is_clear(all_messages):
        assert columnar_arcion(body, COMPLETING) is not None


def _is_taken(body: bytes, rules: RowRules) -> bool:
    """Read the body with the general reader."""
    try:
        exact_arcion(body, rules)
    except RejectedInput:
        return False
    return True


def _is_clear(all_messages: list[dict[str, Any]]) -> bool:
    """Return True if no text can be mistaken for a JSON key."""
    return all(json.dumps(message).count(":") == json.dumps(message).count('":') for message in all_messages)


@given(
    all_messages=st.lists(partial_updates() | messages(), min_size=1, max_size=4),
    old=st.sampled_from(['"1"', '"id"', '"after"', '"before"', '"I"', '"t"', ": {", "}", '"null"', '"exists"', ","]),
    new=st.sampled_from(
        ['"2"', "1", '"id": "7", "id"', '"\\u0000"', '"\\ud800"', "null", '"name"', "{}", ', "z": "1"', ""]
    ),
    place=st.integers(0, 9),
    filler=st.sampled_from(["", "x" * 5_000]),
)
def test_any_other_body_takes_the_slow_path_or_gives_the_same(
    all_messages: list[dict[str, Any]], old: str, new: str, place: int, filler: str
) -> None:
    all_messages[-1]["cursor"] = filler
    parts = body_of(all_messages, lines=False, escaped=True, compact=False).decode().split(old)
    place %= len(parts)
    tried("arcion_json", (old.join(parts[:place]) + new + old.join(parts[place:])).encode())


@pytest.mark.parametrize(("operation", "is_taken"), [("I", True), ("R", False)])
def test_a_column_only_in_the_other_image_is_rejected_as_on_the_slow_path(operation: str, is_taken: bool) -> None:
    message = {
        "tableName": {"name": "t"},
        "opType": operation,
        "exists": dict.fromkeys(NAMES, "1"),
        "before": {"other": "null"},
        "after": dict.fromkeys(NAMES, "1"),
    }
    body = json.dumps([message]).encode()
    tried("arcion_json", body)
    assert (columnar_arcion(body, FULL_IMAGES) is not None) is is_taken


@pytest.mark.parametrize("filler", ["", "x" * 5_000])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"note": "c"', '"note": "c", "note": "d"'),
        ('"cursor": "', '"cursor": "\\ud800'),
        ('"cursor": "', '"cursor": "\\u0000'),
        ('"opType": "I"', '"opType": "I", "opType": "R"'),
        ('"note": "1"', '"note": "1", "note": "1"'),
        ('"note": "null"', '"note": "null", "note": "null"'),
    ],
)
def test_what_nothing_reads_is_not_taken_unseen(old: str, new: str, filler: str) -> None:
    message = {
        "tableName": {"name": "t"},
        "opType": "I",
        "cursor": filler,
        "exists": dict.fromkeys(NAMES, "1"),
        "before": dict.fromkeys(NAMES, "null"),
        "after": {"id": "1", "name": "b", "note": "c"},
    }
    body = json.dumps([message])
    assert columnar_arcion(body.encode(), FULL_IMAGES) is not None
    assert old in body
    assert columnar_arcion(body.replace(old, new).encode(), FULL_IMAGES) is None


RULES = RowRules(schema_of({"id": "int64", "name": "string", "note": "string"}, ["id"], ["id"]))
FULL = '{"id":"1","name":"a","note":"b"}'
ALL_AFTER = '{"id":"1","name":"1","note":"1"}'


def message(more: str = "", *, exists: str = ALL_AFTER, after: str = FULL, address: str = '{"name":"t"}') -> str:
    return f'{{"tableName":{address},"opType":"I","exists":{exists},"after":{after}{more}}}'


LISTS = f"[{','.join(['[]'] * 20_000)}]"
REJECTED = {
    "a cursor beyond the exponents": message(',"cursor":1e7000'),
    "a cursor beyond all exponents": message(',"cursor":1e99999999999999999999'),
    "counts beyond all exponents": message(',"operationcount":{"a":1e99999999999999999999}'),
    "a number in an ignored image": message(',"before":{"id":1e-7000}'),
    "an ignored image has a column without a flag": message(
        ',"before":{"zz":"null"}', exists='{"id":"1","name":"1","note":"0"}', after='{"id":"1","name":"a"}'
    ),
    "the same with flags of both types": message(',"before":{"zz":"null"}', exists='{"id":"1","name":1,"note":"1"}'),
    "a flag that is no integer": message(exists='{"id":"1","name":"1","note":-0}', after='{"id":"1","name":"a"}'),
    "a hash that is no integer": message(address='{"name":"t","hash":-0}'),
    "lists in cursors": "\n".join([message(f',"cursor":{LISTS}')] * (MAX_NESTED_VALUES // 20_000 + 2)),
    "lists in addresses": "\n".join([message(address=f'{{"name":"t","x":{LISTS[:3_997]}[]]}}')] * 800),
}


@pytest.mark.parametrize("body", REJECTED.values(), ids=REJECTED.keys())
def test_what_the_exact_path_rejects_is_declined(body: str) -> None:
    with pytest.raises(RejectedInput):
        exact_arcion(body.encode(), RULES)
    assert columnar_arcion(body.encode(), RULES) is None


@pytest.mark.parametrize(
    "body",
    [
        message(address='{"name":"t","x":1e99999999999999999999}'),
        message(',"cursor":-0'),
        message(',"cursor":[-0]'),
        message(',"before":{"zz":"null"}'),
        message(',"before":{"id":1.5}'),
    ],
)
def test_an_odd_body_is_declined_or_gives_the_same_rows(body: str) -> None:
    check_paths_agree(partial(exact_arcion, body.encode(), RULES), columnar_arcion(body.encode(), RULES))


def test_a_body_beside_one_with_a_huge_number_is_read() -> None:
    good, bad = message().encode(), REJECTED["a cursor beyond all exponents"].encode()
    assert [found is not None for found in decode_columnar([good, bad, good])] == [True, False, True]


def test_caches_keep_no_large_parts_of_bodies() -> None:
    reader = ArcionTableReader.of(RULES.schema.names)
    tracemalloc.start()
    try:
        for number in range(20):
            blanks = " " * (100_000 + number)
            for body in (
                message(exists=f'{{"id":{blanks}"1","name":"1","note":"1"}}'),
                message(f',"before":{json.dumps({"id": blanks})}'),
            ):
                (decoded,) = decode_columnar([body.encode()])
                reader.read([part for _, part in decoded.parts])
            del decoded
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()
