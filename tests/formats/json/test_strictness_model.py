"""The decoder rejects exactly what a plain recursive model of strict JSON rejects, with the same index and pointer."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from app.formats.json.decoder import MessageDecoder
from app.formats.json.texts import MAX_NESTING
from mirrorgate.errors import Code, RejectedInput


class Inner(msgspec.Struct):
    a: Any = UNSET
    b: Any = UNSET


class Known(msgspec.Struct):
    """A message that knows only some of the keys below, as those of the formats do."""

    a: Any = UNSET
    b: Any = UNSET
    inner: Inner | UnsetType | None = UNSET


DECODERS: Final[dict[str, MessageDecoder[Any]]] = {
    "every key known": MessageDecoder(dict[str, Any]),
    "some keys known": MessageDecoder(Known, images=["/inner"]),
}
IMAGES: Final = {"every key known": "", "some keys known": "/inner"}
WAYS: Final[dict[str, Any]] = {"as short": {"_SHORT": 2**30}, "as long, in small slices": {"_SHORT": 0, "_SLICE": 1}}
SURROGATE: Final = re.compile("[\ud800-\udfff]")

NAMES: Final = st.sampled_from(["a", "b", "c", 'd"', "e\\", "\\u0022", "\\u0000", "é", ":", "{", "[", ""])
CHARACTERS: Final = st.sampled_from([*'a":\\{[é,]}', "\U0001f600", "\\u0022", "\\u0000"])
TEXTS: Final = st.lists(CHARACTERS, max_size=4).map("".join)
WRONG_TEXTS: Final = st.sampled_from(["\0", "\ud83d", "\ude00\ud83d", "a\udbff"])
DEEP: Final = st.tuples(st.sampled_from(["[", '{"c":', "[[],"]), st.integers(1, MAX_NESTING + 2))
BLANKS: Final = st.sampled_from(["", "", " ", "\n", "\t", "\r\n"])


@st.composite
def texts(draw: st.DrawFn, value: str) -> str:
    """Draw a way to write a text: any character may be written by its number."""
    by_number = draw(st.sampled_from(["", '"', "abc", '"\\:{[é\U0001f600']))
    return '"' + "".join(_escaped(one) if one in by_number else _written(one) for one in value) + '"'


def _written(character: str) -> str:
    return json.dumps(character, ensure_ascii=character < " " or SURROGATE.match(character) is not None)[1:-1]


def _escaped(character: str) -> str:
    halves = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{halves[at : at + 4]}" for at in range(0, len(halves), 4))


@st.composite
def values(draw: st.DrawFn, levels: int) -> str:
    """Draw a value as JSON text."""
    kind = draw(st.integers(0, 9))
    if kind == 9:
        opening, count = draw(DEEP)
        return opening * count + "1" + {"{": "}", "[": "]"}[opening[0]] * count
    if kind > 6 and levels:
        return "[" + ",".join(draw(st.lists(values(levels - 1), max_size=2))) + "]"
    if kind > 4 and levels:
        return draw(objects(levels - 1))
    if kind == 0:
        return draw(st.sampled_from(["1", "-0", "1.50", "1e5", "null", "true", "123456789012345678901"]))
    return draw(texts(draw(TEXTS if draw(st.integers(0, 30)) else WRONG_TEXTS)))


@st.composite
def objects(draw: st.DrawFn, levels: int = 2) -> str:
    """Draw an object as JSON text, with some keys more than once."""
    members = []
    for _ in range(draw(st.integers(0, 4))):
        name = draw(NAMES if draw(st.integers(0, 30)) else WRONG_TEXTS)
        members.append(f"{draw(texts(name))}{draw(BLANKS)}:{draw(BLANKS)}{draw(values(levels))}{draw(BLANKS)}")
    if draw(st.booleans()):
        members.append(f'"inner":{draw(objects(0))}')
    return "{" + ",".join(members) + "}"


class Pairs(list[tuple[str, Any]]):
    """The members of an object in order."""


class Wrong(NamedTuple):
    """The code, message and pointer of a rejection."""

    code: Code
    message: int | None = None
    pointer: str | None = None


def expected(messages: list[str], images: str) -> Wrong | None:
    """Return what is wrong with a body: texts before everything else, then message by message.

    A pointer is that of a key of the message or of its `images`.
    """
    read = [json.JSONDecoder(object_pairs_hook=Pairs).decode(message) for message in messages]
    if any("\0" in text or SURROGATE.search(text) for message in read for text in texts_of(message)):
        return Wrong(Code.MALFORMED_JSON)
    for index, message in enumerate(read):
        repeated = next(repeated_in(message, ""), None)
        if repeated is not None:
            _, first, *steps = repeated.split("/")
            shown = f"/{first}/{steps[0]}" if steps and f"/{first}" == images else f"/{first}"
            return Wrong(Code.DUPLICATE_MEMBER, index, shown)
        if depth_of(message) > MAX_NESTING:
            return Wrong(Code.MALFORMED_JSON, index)
    return None


def inner_of(value: Any) -> list[tuple[Any, Any]]:
    """Return the values inside a value with the step to each."""
    return value if isinstance(value, Pairs) else list(enumerate(value)) if isinstance(value, list) else []


def texts_of(value: Any) -> Iterator[str]:
    """Yield all keys and texts."""
    if isinstance(value, str):
        yield value
    for step, inner in inner_of(value):
        yield from texts_of(str(step))
        yield from texts_of(inner)


def depth_of(value: Any) -> int:
    """Return the levels of objects and lists."""
    return isinstance(value, list) + max((depth_of(inner) for _, inner in inner_of(value)), default=0)


def repeated_in(value: Any, pointer: str) -> Iterator[str]:
    """Yield the JSON Pointers of repeated keys, outer objects first."""
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step, _ in inner_of(value)]
    yield from (f"{pointer}/{step}" for at, step in enumerate(steps) if step in steps[:at])
    for step, (_, inner) in zip(steps, inner_of(value), strict=True):
        yield from repeated_in(inner, f"{pointer}/{step}")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("decoder", DECODERS)
@given(messages=st.lists(objects(), min_size=1, max_size=3), separator=st.sampled_from(["", "\n", " ,\n"]))
@example(messages=[r'{"a":"\u0022\u0022","c":1}'], separator="\n")
@example(messages=[r'{"a":"\u0022\u0022","b":1,"b":2}'], separator="\n")
@example(messages=['{"a":1,"a":"x"}', '{"b":"}}}}"}'], separator=",")
def test_a_body_is_rejected_exactly_as_by_the_model(
    decoder: str, way: str, messages: list[str], separator: str
) -> None:
    text = separator.join(messages)
    body = (f"[{text}]" if "," in separator else text).encode()
    with patch.multiple("app.formats.json.decoder", **WAYS[way]):
        assert found(decoder, body) == expected(messages, IMAGES[decoder])


def found(decoder: str, body: bytes) -> Wrong | None:
    """Return how a body is rejected, None if it is not."""
    try:
        DECODERS[decoder].decode(body)
    except RejectedInput as rejection:
        if not rejection.problems:
            return Wrong(rejection.code)
        [problem] = rejection.problems
        return Wrong(problem.code, problem.index, problem.pointer)
    return None
