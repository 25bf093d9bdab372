"""Duplicate keys of Arcion messages are named, also among many messages, and so is other JSON that is rejected."""

import pytest

from app.formats.arcion.messages import decode_arcion
from mirrorgate.errors import Code
from tests.support.rejections import rejected


def arcion(after: str, more: str = "") -> str:
    return f'{{"tableName":{{"name":"t"}},"opType":"I","exists":{{"a":"1"}},"after":{after}{more}}}'


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        (arcion('{"a":"1","a":"1"}'), "/after/a"),
        (arcion('{"a":"1","\\u0061":"1"}'), "/after/a"),
        (arcion('{"a":"1","a" :"1"}'), "/after/a"),
        (arcion('{"a":"1"}', ',"before":{},"before":{}'), "/before"),
        (arcion('{"a":"1"}', ',"unknown":[0,{"x":1,"x":1}]'), "/unknown"),
        (arcion('{"a":"1"}', ',"un/known":{"x~":1,"x~":1}'), "/un~1known"),
        (arcion('{"a":{"x":1,"x":2}}'), "/after/a"),
        (arcion('{"a":[{"y":{"x":1,"x":2}}]}'), "/after/a"),
        (arcion('{"a/b":1,"a/b":2}'), "/after/a~1b"),
        (arcion('{"a":"1","a":"1"}', ',"cursor":"\\u0022:"'), "/after/a"),
        (arcion('{"a":"1","a":"1"}', ',"cursor":"\\"\\u003A"'), "/after/a"),
    ],
)
@pytest.mark.parametrize("framing", ["{0}{1}", "{0}\n{1}", "[{0},\n{1}]"])
def test_a_repeated_key_is_named(message: str, pointer: str, framing: str) -> None:
    with rejected(places=[(Code.DUPLICATE_MEMBER, 1, pointer, None)]):
        decode_arcion(framing.format(arcion('{"a":"1"}'), message).encode())


@pytest.mark.parametrize("count", [1, 400])
def test_the_prefilter_sees_one_repeated_key_among_many_messages(count: int) -> None:
    clean = [arcion('{"a":"12:30 text"}')] * count
    assert len(decode_arcion("\n".join(clean).encode())) == count
    with rejected(places=[(Code.DUPLICATE_MEMBER, count, "/after/a", None)]):
        decode_arcion("\n".join([*clean, arcion('{"a":"1","a":"2"}')]).encode())


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"x":', "}")])
def test_values_nest_to_a_limit(opening: str, closing: str) -> None:
    def nested(levels: int) -> bytes:
        return arcion(f'{{"a":{opening * levels}1{closing * levels}}}').encode()

    assert len(decode_arcion(nested(62))) == 1
    for levels in (63, 500, 5_000):
        with rejected(Code.MALFORMED_JSON):
            decode_arcion(nested(levels))


@pytest.mark.parametrize("value", ["1e6145", "-1E-6146", "1e999999999999999999999"])
def test_an_absurd_exponent_is_rejected(value: str) -> None:
    with rejected(Code.MALFORMED_JSON):
        decode_arcion(arcion(f'{{"a":{value}}}').encode())


def test_a_byte_in_a_rejection_counts_from_the_start_of_the_request() -> None:
    with rejected() as rejection:
        decode_arcion(b'\xef\xbb\xbf \n[{"a":tru}]')
    assert "(byte 12)" in rejection.detail
