"""A document with a duplicate key is always rejected, and no other document is rejected for one."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.formats.arcion.messages import decode_arcion
from app.formats.json.decoder import MessageDecoder
from mirrorgate.errors import Code, RejectedInput
from tests.support.rejections import rejected

ANY = MessageDecoder(dict[str, Any])
NAMES = st.text('a":\\ {é', max_size=3)
TEXTS = st.text('a":\\ {[é,}', max_size=6)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False, places=3) | TEXTS
)
BLANKS = st.sampled_from(["", " ", "\n", "\t", " \r\n"])
ESCAPED = {'"': "\\u0022", ":": "\\u003a", "a": "\\u0061"}


@st.composite
def texts(draw: st.DrawFn, value: str) -> str:
    """Draw a string as JSON text, with some characters written as escapes that need none."""
    written = json.dumps(value, ensure_ascii=draw(st.booleans()))[1:-1]
    if draw(st.booleans()):
        written = "".join(ESCAPED.get(character, json.dumps(character)[1:-1]) for character in value)
    return f'"{written}"'


@st.composite
def documents(draw: st.DrawFn, depth: int = 0) -> tuple[str, bool]:
    """Draw the JSON text of an object, and whether it has a duplicate key anywhere."""
    parts, names, repeated = [], [], False
    for _ in range(draw(st.integers(0, 3))):
        name = draw(NAMES)
        repeated |= name in names
        names.append(name)
        kind = draw(st.integers(0, 4)) if depth < 3 else 0
        if kind == 3:
            value, inner = draw(documents(depth + 1))
        elif kind == 4:
            element, inner = draw(documents(depth + 1))
            value = f"[1,{draw(BLANKS)}{element}]"
        else:
            scalar, inner = draw(SCALARS), False
            value = draw(texts(scalar)) if isinstance(scalar, str) else scalar_text(scalar)
        repeated |= inner
        parts.append(f"{draw(BLANKS)}{draw(texts(name))}{draw(BLANKS)}:{draw(BLANKS)}{value}{draw(BLANKS)}")
    return "{" + ",".join(parts) + "}", repeated


def scalar_text(value: Any) -> str:
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value)


@given(documents())
def test_a_document_is_rejected_exactly_if_a_key_is_repeated(document: tuple[str, bool]) -> None:
    text, repeated = document
    if repeated:
        with rejected() as rejection:
            ANY.decode(text.encode())
        assert rejection.code == Code.DUPLICATE_MEMBER
    else:
        assert ANY.decode(text.encode()) == [json.loads(text, parse_float=Decimal)]


COLUMN = st.sampled_from(["a", "b", 'c"', "d:", "e\\"])
VALUE = st.sampled_from(["1", ":", '":', '":"', '\\":', "null", '{"x":1}', "12:30", "é", " :"])


@st.composite
def arcion_members(draw: st.DrawFn) -> tuple[str, bool]:
    """Draw an Arcion insert as text, each object's members in any order, some of them written twice."""
    repeated = False

    def rendered(members: list[tuple[str, str]]) -> str:
        nonlocal repeated
        if members and draw(st.integers(0, 5)) == 5:
            members = [*members, draw(st.sampled_from(members))]
            repeated = True
        return "{" + ",".join(f"{draw(texts(n))}{draw(BLANKS)}:{v}" for n, v in draw(st.permutations(members))) + "}"

    after = draw(st.dictionaries(COLUMN, VALUE, max_size=3))
    space = draw(st.dictionaries(st.sampled_from(["catalog", "schema"]), st.just('"s"')))
    address = [("name", '"t"'), *draw(st.sampled_from([[], [("hash", "1")]]))]
    address += [("namespace", rendered(list(space.items())))] if draw(st.booleans()) else []
    members = [
        ("tableName", rendered(address)),
        ("opType", '"I"'),
        ("after", rendered([(name, draw(texts(value))) for name, value in after.items()])),
        ("exists", rendered([(name, '"1"') for name in after])),
    ]
    cursor = draw(st.none() | st.sampled_from(['{"v":2}', '":":":', "\\", "x"]))
    members += [("cursor", draw(texts(cursor)))] if cursor is not None else []
    members += draw(st.sampled_from([[], [("before", "null")], [("before", "{}"), ("other", '{"x":[1]}')]]))
    return rendered(members), repeated


@given(st.lists(arcion_members(), min_size=1, max_size=3), st.sampled_from(["", "\n", ","]))
def test_the_prefilter_clears_no_arcion_body_with_a_repeated_key(
    messages: list[tuple[str, bool]], separator: str
) -> None:
    text = separator.join(message for message, _ in messages)
    body = (f"[{text}]" if separator == "," else text).encode()
    try:
        decode_arcion(body)
        found = False
    except RejectedInput as rejection:
        found = rejection.code == Code.DUPLICATE_MEMBER
        assert found or rejection.code == Code.TABLE_MISMATCH, rejection  # two catalogs: looked at after the members
    assert found == any(repeated for _, repeated in messages)


def arcion(after: str, more: str = "") -> str:
    return f'{{"tableName":{{"name":"t"}},"opType":"I","exists":{{"a":"1"}},"after":{after}{more}}}'


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        (arcion('{"a":"1","a":"1"}'), "/after/a"),
        (arcion('{"a":"1","\\u0061":"1"}'), "/after/a"),
        (arcion('{"a":"1","a" :"1"}'), "/after/a"),
        (arcion('{"a":"1"}', ',"before":{},"before":{}'), "/before"),
        (arcion('{"a":"1"}', ',"unknown":[0,{"x":1,"x":1}]'), "/unknown/1/x"),
        (arcion('{"a":"1"}', ',"un/known":{"x~":1,"x~":1}'), "/un~1known/x~0"),
        (arcion('{"a":"1","a":"1"}', ',"cursor":"\\u0022:"'), "/after/a"),
        (arcion('{"a":"1","a":"1"}', ',"cursor":"\\"\\u003A"'), "/after/a"),
    ],
)
@pytest.mark.parametrize("framing", ["{0}{1}", "{0}\n{1}", "[{0},\n{1}]"])
def test_a_repeated_key_is_named(message: str, pointer: str, framing: str) -> None:
    with rejected() as rejection:
        decode_arcion(framing.format(arcion('{"a":"1"}'), message).encode())
    assert rejection.places == [(Code.DUPLICATE_MEMBER, 1, pointer, None)]


@pytest.mark.parametrize("count", [1, 400])
def test_the_prefilter_sees_one_repeated_key_among_many_messages(count: int) -> None:
    clean = [arcion('{"a":"12:30 text"}')] * count
    assert len(decode_arcion("\n".join(clean).encode())) == count
    with rejected() as rejection:
        decode_arcion("\n".join([*clean, arcion('{"a":"1","a":"2"}')]).encode())
    assert rejection.places == [(Code.DUPLICATE_MEMBER, count, "/after/a", None)]


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"x":', "}")])
def test_values_nest_to_a_limit(opening: str, closing: str) -> None:
    def nested(levels: int) -> bytes:
        value = opening * levels + "1" + closing * levels
        return f'{{"tableName":{{"name":"t"}},"opType":"I","exists":{{"a":"1"}},"after":{{"a":{value}}}}}'.encode()

    assert len(decode_arcion(nested(62))) == 1
    for levels in (63, 500, 5_000):
        with rejected() as rejection:
            decode_arcion(nested(levels))
        assert rejection.code == Code.MALFORMED_JSON


@pytest.mark.parametrize("value", ["1e6145", "-1E-6146", "1e999999999999999999999"])
def test_an_absurd_exponent_is_rejected(value: str) -> None:
    with rejected() as rejection:
        decode_arcion(arcion(f'{{"a":{value}}}').encode())
    assert rejection.code == Code.MALFORMED_JSON


@pytest.mark.parametrize("text", ["\\ud800", "\\udc00\\ud800", "\\u0000", "x\\\\\\uDBff"])
@pytest.mark.parametrize("member", ["after", "unknown"])
def test_what_is_no_text_is_rejected_under_any_key(text: str, member: str) -> None:
    body = arcion(f'{{"a":"{text}"}}') if member == "after" else arcion('{"a":"1"}', f',"unknown":"{text}"')
    with rejected() as rejection:
        decode_arcion(b"\xef\xbb\xbf \n" + body.encode())
    assert rejection.code == Code.MALFORMED_JSON
    assert "at byte" in rejection.detail


def test_a_byte_in_a_rejection_counts_from_the_start_of_the_request() -> None:
    with rejected() as rejection:
        decode_arcion(b'\xef\xbb\xbf \n[{"a":tru}]')
    assert "(byte 12)" in rejection.detail
