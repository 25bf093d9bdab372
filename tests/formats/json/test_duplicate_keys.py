"""Duplicate keys and what else strict JSON rejects, by cases and by a model."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from app.domain.model.names import TableName
from app.formats.arcion.messages import ArcionMessage, decode_arcion
from app.formats.debezium.records import decode_debezium
from app.formats.json import decoder
from app.formats.json.decoder import MessageDecoder
from app.formats.json.quote_accounting import (
    are_opaque,
    count_quotes,
    count_structural_quotes,
    is_all_decoded,
    is_all_read,
)
from app.formats.json.texts import MAX_NESTING
from app.formats.replicate.messages import decode_replicate
from app.formats.replicate.standard_form import ReplicateMessage
from mirrorgate.errors import Code, RejectedInput
from tests.formats.json.odd_json import arcion_messages, bodies, replicate_messages
from tests.support.rejections import rejected
from tests.support.samples.messages import HEADERS

SAMPLES = Path(__file__).parents[2] / "samples"
OBJECTS_AS_VALUES = {"legacy_data_list", "legacy_before_data_list"}
TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
COMPACT: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False}
LAYOUTS: dict[str, dict[str, Any]] = {"compact": COMPACT, "one line": {}, "indented": {"indent": 1}}
WAYS: dict[str, Any] = {"as short": {"_SHORT": 2**30}, "as long, in small slices": {"_SHORT": 0, "_SLICE": 1}}
either_format = pytest.mark.parametrize(
    ("decode", "messages"),
    [(decode_arcion, arcion_messages()), (decode_replicate, replicate_messages())],
    ids=["Arcion", "Replicate"],
)
each_way = pytest.mark.parametrize("way", WAYS)


@contextmanager
def screened(way: str) -> Iterator[None]:
    """Count the quotes and brackets of any body as those of a short one, or as those of a long one."""
    with patch.multiple(decoder, **WAYS[way]):
        yield


@either_format
@each_way
@given(data=st.data())
def test_a_repeated_key_is_rejected_anywhere(
    decode: Callable[[bytes], object], messages: st.SearchStrategy[Any], way: str, data: st.DataObject
) -> None:
    body, _ = data.draw(bodies(messages, twice=True))
    with screened(way), rejected(Code.DUPLICATE_MEMBER):
        decode(body)


@pytest.mark.parametrize(
    ("decode", "body", "pointer"),
    [
        (decode_debezium, '{"after":%s}', "/after/a"),
        (decode_debezium, '{"payload":{"before":%s}}', "/payload/before/a"),
        (decode_debezium, "%s", "/a"),
        (decode_replicate, '{"data":%s}', "/data/a"),
        (decode_replicate, '{"message":{"beforeData":%s}}', "/message/beforeData/a"),
    ],
)
@pytest.mark.parametrize("row", ['{"a":1,"a":2}', '{"a":{"SECRET":1,"SECRET":2}}'])
def test_a_repeated_column_is_named_and_a_key_inside_its_value_is_not(
    decode: Callable[[bytes], object], body: str, row: str, pointer: str
) -> None:
    with rejected(places=[(Code.DUPLICATE_MEMBER, 0, pointer, None)]):
        decode((body % row).encode())


@each_way
@given(arcion=bodies(arcion_messages(), twice=False), replicate=bodies(replicate_messages(), twice=False))
def test_a_clean_body_is_never_rejected_whatever_its_texts(
    way: str, arcion: tuple[bytes, int], replicate: tuple[bytes, int]
) -> None:
    with screened(way):
        assert len(decode_arcion(arcion[0], TableName(None, "t"))) == arcion[1]
        request = decode_replicate(replicate[0])
    assert len(request.metadata) + len(request.changes) == replicate[1]


@either_format
@each_way
@given(data=st.data(), wrong=st.sampled_from([b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\\uDC00x", b"\\u0000"]))
def test_what_is_no_text_is_rejected_in_any_name_or_value(
    decode: Callable[[bytes], object], messages: st.SearchStrategy[Any], way: str, data: st.DataObject, wrong: bytes
) -> None:
    body, _ = data.draw(bodies(messages, twice=False))
    text = data.draw(st.sampled_from(list(TEXT.finditer(body))))
    with screened(way), rejected(Code.MALFORMED_JSON):
        decode(body[: text.start() + 1] + wrong + body[text.start() + 1 :])


def is_read_twice(decode: Callable[[bytes], object], message: Any, layout: dict[str, Any] = COMPACT) -> bool:
    """Return True if every key is looked at, whatever else is wrong with the message."""
    with patch.object(decoder, "_check_each_key") as look, suppress(RejectedInput):
        decode(json.dumps(message, **layout).encode())
    return bool(look.called)


@pytest.mark.parametrize(
    ("decode", "folder"), [(decode_arcion, "arcion"), (decode_replicate, "replicate")], ids=["Arcion", "Replicate"]
)
@pytest.mark.parametrize("layout", LAYOUTS)
@each_way
def test_what_the_tools_write_is_read_once(
    decode: Callable[[bytes], object], folder: str, layout: str, way: str
) -> None:
    paths = [path for path in (SAMPLES / folder).glob("*.json") if path.stem not in OBJECTS_AS_VALUES]
    samples = [json.loads(path.read_bytes()) for path in paths]
    messages = [message for sample in samples for key in ("earlier", "messages") for message in sample.get(key, [])]
    assert messages
    with screened(way):
        assert [message for message in messages if is_read_twice(decode, message, LAYOUTS[layout])] == []


FLATTENED = {f"headers_{name}": value for name, value in HEADERS.items()}
FIELDS = [{"name": f"c{number}", "type": ["null", {"type": "array", "items": "int"}]} for number in range(30)]


METADATA = {"lineage": {"table": "t"}, "tableStructure": {"tableColumns": {}}}


@pytest.mark.parametrize(
    "message",
    [
        {"data": {"a": 1}, "beforeData": None, "headers": HEADERS},
        {"data": {"a": 1}, "beforeData": {"a": 2}, "schema": "s", "table": "t"} | FLATTENED,
        METADATA | {"dataSchema": json.dumps(FIELDS)},
        METADATA | {"dataSchema": json.dumps(FIELDS, indent=1)},
        METADATA | {"dataSchema": None},
    ],
    ids=["object", "flattened", "Avro schema", "Avro schema, indented", "no Avro schema"],
)
@pytest.mark.parametrize("enveloped", [True, False])
@each_way
def test_every_key_that_qlik_documents_is_known(message: dict[str, Any], enveloped: bool, way: str) -> None:
    kind = "MD" if "lineage" in message else "DT"
    facts = {"headers": None, "messageSchemaId": None, "messageSchema": None}
    with screened(way):
        assert not is_read_twice(
            decode_replicate, {"magic": "atMSG", "type": kind} | facts | {"message": message} if enveloped else message
        )


def test_metadata_of_many_columns_is_read_once() -> None:
    columns = {f"c{number}": {"ordinal": number, "type": "STRING", "length": 9} for number in range(1, 200)}
    message = {"lineage": {"table": "t"}, "tableStructure": {"tableColumns": columns}}
    for layout in LAYOUTS.values():
        assert not is_read_twice(decode_replicate, message | {"dataSchema": json.dumps(FIELDS * 9, **layout)})


@pytest.mark.parametrize(
    "text",
    [
        *("12:30", 'a "b": c', "C:\\", "[INFO], [a]", 'é": ', "{", "a: [b]"),
        '{"a":1,"b":{"c":[1,[2,[3]]]}}',
        json.dumps({"a": json.dumps({"b": 1})}),
    ],
)
@each_way
def test_a_usual_text_is_read_once(text: str, way: str) -> None:
    message = {
        "tableName": {"name": "t"},
        "opType": "I",
        "exists": {"a": "1", f"{text}!": "1"},
        "after": {"a": text * 4, f"{text}!": text},
        "cursor": {"position": text},
    }
    with screened(way):
        assert not is_read_twice(decode_arcion, message)


def nested(opening: str, closing: str, levels: int) -> dict[str, Any]:
    value: Any = json.loads(opening * levels + "1" + closing * levels)
    return {"data": {"a": value}, "headers": {"operation": "INSERT"}}


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"x":', "}"), ('[{"x":', "}]"), ("[1, [", "]]")])
@pytest.mark.parametrize("layout", LAYOUTS)
@each_way
def test_only_deep_nesting_is_read_twice(opening: str, closing: str, layout: str, way: str) -> None:
    levels = 62 // len(closing)
    with screened(way):
        assert not is_read_twice(decode_replicate, nested(opening, closing, levels), LAYOUTS[layout])
        for deep in (levels + 1, 2 * levels):
            assert is_read_twice(decode_replicate, nested(opening, closing, deep), LAYOUTS[layout])


@pytest.mark.parametrize("message_type", [ArcionMessage, ReplicateMessage])
def test_a_key_that_was_not_written_is_not_written_again(message_type: type[msgspec.Struct]) -> None:
    structs = list(structs_in(msgspec.inspect.type_info(message_type)))
    assert len(structs) > 2
    for struct in structs:
        for field in msgspec.structs.fields(struct):
            assert field.required or field.default is msgspec.UNSET, f"{struct}.{field.name}"


def structs_in(found: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield all structs that a message consists of."""
    if isinstance(found, msgspec.inspect.StructType):
        yield found.cls
    inner = getattr(found, "types", ()) or [field.type for field in getattr(found, "fields", ())]
    for below in (*inner, *filter(None, [getattr(found, "value_type", None)])):
        yield from structs_in(below)


TEXTS = st.text(st.sampled_from('a"\\/:{é\u2028\n'), max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
FILLER = "x" * 5_000


@given(value=VALUES, escaped=st.booleans(), indent=st.none() | st.integers(0, 2), filler=st.sampled_from(["", FILLER]))
def test_a_document_consists_of_what_it_decodes_to(
    value: Any, *, escaped: bool, indent: int | None, filler: str
) -> None:
    document = json.dumps([value, filler], ensure_ascii=escaped, indent=indent).encode()
    assert is_all_read(document, [msgspec.json.decode(document)])


@given(value=st.dictionaries(TEXTS, VALUES, min_size=1), other=VALUES, filler=st.sampled_from(["", FILLER]))
def test_a_key_that_is_there_twice_is_noticed(value: dict[str, Any], other: Any, filler: str) -> None:
    repeated = f"{json.dumps(next(iter(value)))}: {json.dumps(other)}"
    document = f"[{json.dumps(value)[:-1]}, {repeated}}}, {json.dumps(filler)}]".encode()
    assert not is_all_read(document, [msgspec.json.decode(document)])


@given(text=TEXTS, filler=st.sampled_from(["", FILLER]))
def test_escaped_quotes_are_not_structural(text: str, filler: str) -> None:
    document = json.dumps([text, filler]).encode()
    assert count_structural_quotes(document) == 4
    assert count_quotes(document) == document.count(b'"')


@pytest.mark.parametrize(
    ("value", "is_opaque"),
    [
        ('"text"', True),
        ("null", True),
        ('{"position": "1:2"}', True),
        ('{"a": 1, "a": 2}', False),
        ('"\\u0000"', False),
        ('{"a": "\\ud800"}', False),
        ("[" * 20 + "]" * 20, False),
        (json.dumps({"a": "x" * 2**16}), False),
    ],
)
def test_an_opaque_value_must_hide_nothing(value: str, *, is_opaque: bool) -> None:
    assert are_opaque([msgspec.Raw(value.encode())], msgspec.json.decode) is is_opaque


@pytest.mark.parametrize("offset", range(-7, 3))
def test_u0000_is_found_wherever_slices_of_a_long_document_begin(offset: int) -> None:
    before = 2**20 - len('["') + offset
    document = f'["{"x" * before}\\u0000{"y" * 9_000}\\n"]'.encode()
    assert not is_all_decoded(document, document)
    assert is_all_decoded(document.replace(b"u0000", b"u0001"), document.replace(b"u0000", b"u0001"))


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
SURROGATE: Final = re.compile("[\ud800-\udfff]")

NAMES: Final = st.sampled_from(["a", "b", "c", 'd"', "e\\", "\\u0022", "\\u0000", "é", ":", "{", "[", ""])
CHARACTERS: Final = st.sampled_from([*'a":\\{[é,]}', "\U0001f600", "\\u0022", "\\u0000"])
ODD_TEXTS: Final = st.lists(CHARACTERS, max_size=4).map("".join)
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
    return draw(texts(draw(ODD_TEXTS if draw(st.integers(0, 30)) else WRONG_TEXTS)))


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


@each_way
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
    with screened(way):
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
