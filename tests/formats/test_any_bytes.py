"""Any bytes give changes or a rejection, with bounded work, and each message is kept as it is written."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.model.change import InputLimits
from app.formats.arcion.csv import decode_arcion_csv
from app.formats.arcion.messages import decode_arcion
from app.formats.csv import MAX_FIELDS
from app.formats.json.decoder import MessageDecoder, raw_messages
from app.formats.replicate.messages import decode_replicate
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import CsvLayout, CsvMode
from tests.support.rejections import rejected

DECODERS: list[Callable[[bytes], object]] = [decode_arcion, decode_replicate]
MESSAGES = [
    json.loads(path.read_bytes()) for path in sorted((Path(__file__).parents[2] / "demo" / "samples").glob("*/*.json"))
]
TEXTS = st.text(max_size=4) | st.sampled_from(["I", "UPDATE", "0", "3", "null", "NUMERIC", "atMSG", "MD", "_", "a.b"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2), max_leaves=4
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every key of a message, the outermost first."""
    found = []
    for name in value if isinstance(value, dict) else ():
        found += [(*path, name), *places(value[name], (*path, name))]
    return found


@st.composite
def wrong_messages(draw: st.DrawFn) -> Any:
    """Draw a sample message with one key replaced, renamed or left out."""
    message = json.loads(json.dumps(draw(st.sampled_from(MESSAGES))))
    *outer, name = draw(st.sampled_from(places(message)))
    parent = message
    for step in outer:
        parent = parent[step]
    value = parent.pop(name)
    match draw(st.sampled_from(["replace", "rename", "drop"])):
        case "replace":
            parent[name] = draw(VALUES)
        case "rename":
            parent[draw(TEXTS)] = value
    return message


@st.composite
def broken_texts(draw: st.DrawFn) -> bytes:
    """Draw the text of messages with a few bytes cut out, doubled or overwritten."""
    text = b"\n".join(json.dumps(message).encode() for message in draw(st.lists(wrong_messages(), max_size=2)))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 3)))
    return text[:start] + draw(st.binary(max_size=3) | st.just(text[start:end] * 2)) + text[end:]


BODIES = (
    broken_texts()
    | st.lists(wrong_messages() | VALUES, max_size=3).map(lambda messages: json.dumps(messages).encode())
    | st.text('{}[]",:\\ue10 \n', max_size=30).map(str.encode)
    | st.binary(max_size=30)
)


@pytest.mark.parametrize("decode", DECODERS)
@given(body=BODIES)
@example(body=b'{"a":' * 50_000)
@example(body=b"[" * 50_000)
@example(body=b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}")
@example(body=b'{"headers":{"operation":"INSERT"},"data":{"a":1e99999999999999999999}}')
@example(body=b'{"tableName":{"name":"t"},"opType":"I","exists":{"a":1},"after":{"a":-1e99999999999999999999}}')
@example(body=b'{"headers":{"operation":"INSERT"},"data":{"a":' + b"1" * 5_000 + b"}}")
@example(body=b'{"tableName":{"name":"\\ud800"},"opType":"I","exists":{}}')
def test_no_bytes_make_a_decoder_fail(decode: Callable[[bytes], object], body: bytes) -> None:
    try:
        decode(body)
    except RejectedInput as rejection:
        for problem in rejection.problems:
            assert problem.index is not None


TIMES = 100_000
LIMITS = InputLimits(messages=1_000, value_bytes=1_000)
TWO_COLUMNS = CsvLayout(CsvMode.SNAPSHOT, ("a", "b"))


@pytest.mark.parametrize(
    "body",
    [b"{}" * TIMES, b"{}\n1\n" * TIMES, b"[" + b"1," * TIMES + b"1]", b"[" + b"{}," * TIMES + b"x]"],
    ids=["objects", "lines", "array", "array with an end that is no JSON"],
)
def test_a_wrong_body_of_tiny_messages_takes_little_memory(body: bytes) -> None:
    tracemalloc.start()
    try:
        with rejected() as rejection:
            decode_arcion(body, limits=LIMITS)
        assert tracemalloc.get_traced_memory()[1] < 5 * len(body)
    finally:
        tracemalloc.stop()
    assert rejection.code is Code.MALFORMED_MESSAGE
    assert [index for _, index, _, _ in rejection.places] == [0]


@pytest.mark.parametrize(
    ("decode", "code"),
    [
        (lambda: decode_arcion_csv(b"\n" * TIMES, TWO_COLUMNS, limits=LIMITS), Code.TOO_MANY_MESSAGES),
        (lambda: decode_arcion_csv(b"," * TIMES, TWO_COLUMNS, limits=LIMITS), Code.MALFORMED_CSV),
        (lambda: decode_arcion_csv(b"," * (MAX_FIELDS - 1), TWO_COLUMNS), Code.CSV_FIELD_COUNT),
    ],
    ids=["lines without anything", "a record of fields without end", "a record of as many fields as are counted"],
)
def test_csv_of_nothing_is_rejected_long_before_its_end(decode: Callable[[], object], code: Code) -> None:
    with rejected(code):
        decode()


NAMES: Final = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
OBJECTS: Final = st.dictionaries(NAMES, st.sampled_from([1, "}{", "a\nb", "\\", None, [{}], {"x": "]"}]))
DECODER: Final = MessageDecoder(dict[str, Any] | None)
FRAMES: Final = {
    "array": (b"[", b" ,\n", b"]"),
    "lines": (b"", b"\n", b"\n"),
    "concatenated": (b"", b"", b""),
    "marked and padded": (b"\xef\xbb\xbf \n", b" \r\n\t", b" \n"),
}


@pytest.mark.parametrize("frame", FRAMES)
@given(data=st.data())
def test_each_message_is_found_as_it_is_written(frame: str, data: st.DataObject) -> None:
    with_null = OBJECTS | st.none() if frame in {"array", "lines"} else OBJECTS
    messages = [data.draw(OBJECTS), *data.draw(st.lists(with_null, max_size=4))]
    indent = data.draw(st.sampled_from([None, 1]))
    written = [json.dumps(message, indent=indent, ensure_ascii=False).encode() for message in messages]
    opening, between, closing = FRAMES[frame]
    body = opening + between.join(written) + closing
    assert DECODER.decode(body) == messages
    assert raw_messages(body) == written
