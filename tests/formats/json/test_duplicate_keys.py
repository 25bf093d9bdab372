"""Keys that are written twice are found, and what lets a body pass without a search."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.names import TableName
from app.formats.arcion.messages import ArcionMessage, decode_arcion
from app.formats.debezium.records import decode_debezium
from app.formats.json import decoder
from app.formats.json.quote_accounting import (
    are_opaque,
    count_quotes,
    count_structural_quotes,
    is_all_decoded,
    is_all_read,
)
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
