"""Any bytes give changes or a rejection."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.errors import RejectedInput
from app.formats.arcion.messages import decode_arcion
from app.formats.replicate.messages import decode_replicate

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
