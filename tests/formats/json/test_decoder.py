"""Bodies: framings of messages, and what is rejected as no body."""

import json
import time
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, UnsetType

from app.errors import Code
from app.formats.arcion.messages import decode_arcion
from app.formats.json.decoder import MessageDecoder
from app.formats.replicate.messages import decode_replicate
from tests.support.rejections import rejected
from tests.support.samples.messages import metadata


class Pair(msgspec.Struct):
    key: str
    value: Any = UNSET
    inner: dict[str, str] | UnsetType = UNSET


DECODER = MessageDecoder(Pair)
MESSAGES: list[dict[str, Any]] = [
    {"key": "a", "value": '}{ \\" ]['},
    {"key": "b", "value": {"x": [1, {"y": None}]}},
    {"key": "c"},
]


def decode(body: bytes) -> list[tuple[str, Any]]:
    return [(message.key, message.value) for message in DECODER.decode(body)]


EXPECTED = [(message["key"], message.get("value", UNSET)) for message in MESSAGES]
COMPACT = [json.dumps(message).encode() for message in MESSAGES]
PRETTY = [json.dumps(message, indent=2).encode() for message in MESSAGES]


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b",".join(COMPACT) + b"]",
        b"[\n" + b",\n".join(PRETTY) + b"\n]\n",
        b"\n".join(COMPACT),
        b"\n".join(COMPACT) + b"\n",
        b"\r\n".join(COMPACT) + b"\r\n",
        b"\n\n".join(COMPACT),
        b"".join(COMPACT),
        b" \t".join(COMPACT),
        b"\n".join(PRETTY),
        b"".join(PRETTY),
        b"\xef\xbb\xbf" + b"\n".join(COMPACT),
        b"\xef\xbb\xbf  \n[" + b",".join(PRETTY) + b"]",
    ],
    ids=[
        "array",
        "pretty-printed array",
        "NDJSON",
        "NDJSON with a last newline",
        "NDJSON with CRLF",
        "NDJSON with blank lines",
        "concatenated",
        "concatenated with blanks",
        "pretty-printed one after the other",
        "pretty-printed without a blank",
        "NDJSON with a byte order mark",
        "array with a byte order mark",
    ],
)
def test_messages_may_stand_in_any_framing(body: bytes) -> None:
    assert decode(body) == EXPECTED


@pytest.mark.parametrize("body", [COMPACT[1], PRETTY[1], b" \n" + PRETTY[1] + b"\n ", b"\xef\xbb\xbf" + COMPACT[1]])
def test_one_object_is_one_message(body: bytes) -> None:
    assert decode(body) == EXPECTED[1:2]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993", 9007199254740993),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("0.1", Decimal("0.1")),
        ("1.10", Decimal("1.10")),
        ("1e400", Decimal("1e400")),
        ("-0.0", Decimal("-0.0")),
        (r'"é\u00e9\ud83d\ude00"', "éé\U0001f600"),
        (r'"\\u0000"', "\\u0000"),
        (r'"\\\\u0000"', "\\\\u0000"),
    ],
)
def test_a_value_is_read_exactly(text: str, value: Any) -> None:
    assert decode(f'{{"key":"a","value":{text}}}'.encode()) == [("a", value)]


@pytest.mark.parametrize("body", [b"", b" \n\t", b"\xef\xbb\xbf", b"[]", b"[ ]"])
def test_a_body_without_a_message_is_an_empty_request(body: bytes) -> None:
    with rejected() as rejection:
        DECODER.decode(body)
    assert rejection.code == Code.EMPTY_REQUEST


GOOD = b'{"key":"a"}'


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'"text"', "must start with { or ["),
        (b"1", "must start with { or ["),
        (b"table=1&x=2", "must start with { or ["),
        (b"\xff\xfe{\x00}\x00", "not UTF-8 at byte 0"),
        (b'{"key":"\xff"}', "not UTF-8 at byte 8"),
        (b'{"key":"\xed\xa0\x80"}', "not UTF-8 at byte 8"),
        (GOOD + b"x", "between messages at byte 11"),
        (GOOD + b"," + GOOD, "between messages at byte 11"),
        (GOOD + b"\n" + GOOD + b"\nx", "between messages at byte 23"),
        (GOOD + b"}", "unexpected } at byte 11"),
        (GOOD + GOOD[:-1], "starts at byte 11 does not end"),
        (b'{"key":"a', "starts at byte 0 does not end"),
        (b"[" + GOOD, "not valid JSON"),
        (b"[" + GOOD + b",]", "not valid JSON"),
        (b"[" + GOOD + b"]x", "not valid JSON"),
        (rb'{"key":"\u0000"}', "U+0000 at byte 8"),
        (rb'{"key":"\\\u0000"}', "U+0000 at byte 10"),
    ],
)
def test_a_malformed_body_is_rejected_with_the_byte(body: bytes, detail: str) -> None:
    with rejected() as rejection:
        DECODER.decode(body)
    assert rejection.code == Code.MALFORMED_JSON
    assert detail in rejection.detail


@pytest.mark.parametrize(
    "value",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e99999999999999999999",
        "01",
        ".5",
        "+1",
        "0x1",
        "'a'",
        "True",
        "undefined",
        r'"\ud800"',
        r'"\udc00\ud800"',
        r'"\x41"',
        '"\x01"',
        "[1,]",
        "{,}",
        "[" * 100_000 + "]" * 100_000,
    ],
    ids=lambda value: value[:24],
)
@pytest.mark.parametrize("framing", ["{}", "[{}]", '{{"key":"a"}}\n{}', '[{{"key":"a"}},{}]'])
def test_a_malformed_message_makes_the_request_malformed(value: str, framing: str) -> None:
    with rejected() as rejection:
        DECODER.decode(framing.format(f'{{"key":"b","value":{value}}}').encode())
    assert rejection.code == Code.MALFORMED_JSON


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        ("{}", ""),
        ('{"key":1}', "/key"),
        ('{"key":null}', "/key"),
        ('{"key":"a","inner":1}', "/inner"),
        ('{"key":"a","inner":{"a.b":1}}', "/inner/a.b"),
    ],
)
@pytest.mark.parametrize("framing", ['{{"key":"a"}}\n{}', '{{"key":"a"}}{}', '[{{"key":"a"}},{}]'])
def test_a_message_of_another_shape_is_named_by_index_and_pointer(message: str, pointer: str, framing: str) -> None:
    with rejected() as rejection:
        DECODER.decode(framing.format(message).encode())
    assert rejection.places == [(Code.MALFORMED_MESSAGE, 1, pointer, None)]


@pytest.mark.parametrize("body", [b"[1]", b"[null]", b'["a"]', b"[[]]"])
def test_a_message_that_is_no_object_is_rejected(body: bytes) -> None:
    with rejected() as rejection:
        DECODER.decode(body)
    assert rejection.places == [(Code.MALFORMED_MESSAGE, 0, "", None)]


@pytest.mark.parametrize("body", [b'{"' + b'\\"' * 500_000, b'{"a":' * 200_000, b'{"key":"' + b"\\\\" * 500_000])
def test_a_body_made_to_be_slow_is_rejected_in_time_that_grows_with_its_length(body: bytes) -> None:
    started = time.process_time()
    with rejected():
        DECODER.decode(body)
    assert time.process_time() - started < 2


def test_a_rejection_never_repeats_a_value() -> None:
    for body in (b'{"key":7391}', b'{"key":"canary-7391" x}', b'{"key":"canary-7391"', b'{"key":"a"}7391{"key":"b"}'):
        with rejected() as rejection:
            DECODER.decode(body)
        assert "7391" not in rejection.text


@pytest.mark.parametrize(
    ("exists", "pointer"),
    [
        ('{"a": "1", "b/c": true}', "/exists/b~1c"),
        ('{"a": [], "b": "1"}', "/exists/a"),
        ('{"a": 1.5, "b": 1}', "/exists/a"),
        ("[]", "/exists"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_by_its_own_pointer(exists: str, pointer: str) -> None:
    body = f'{{"tableName": {{"name": "t"}}, "opType": "I", "exists": {exists}}}'
    with rejected() as rejection:
        decode_arcion(body.encode())
    assert rejection.places == [(Code.MALFORMED_MESSAGE, 0, pointer, None)]


def test_a_column_of_metadata_is_named_by_its_own_pointer() -> None:
    message = metadata("S.T", {"ID": "INT4", "A": {"type": 7}}, ("ID",))
    with rejected() as rejection:
        decode_replicate(json.dumps([message]).encode())
    assert rejection.places[0][2] == "/message/tableStructure/tableColumns/A/type"
