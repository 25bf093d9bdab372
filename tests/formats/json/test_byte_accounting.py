"""The length of a body proves that it holds no other keys; the check never passes a body that does."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, UnsetType

from app.formats.json.byte_accounting import are_texts, holds_nothing_else, names_stand_once
from app.formats.json.decoder import MessageDecoder, raw_messages
from tests.formats.json.odd_json import arcion_messages, bodies

LAYOUTS: dict[str, dict[str, Any]] = {"compact": {"separators": (",", ":")}, "one line": {}, "indented": {"indent": 1}}


class Message(msgspec.Struct, rename="camel"):
    table_name: Raw
    op_type: str
    after: Raw
    exists: Raw
    before: Raw | UnsetType = UNSET
    cursor: Raw | UnsetType = UNSET
    operationcount: Raw | UnsetType = UNSET


DECODER = MessageDecoder(Message)
MEMBERS = {*Message.__struct_encode_fields__}


def held(body: bytes) -> bool:
    messages = DECODER.decode_well_formed(body)
    if messages is None:
        return False
    members = list(zip(*map(msgspec.structs.astuple, messages), strict=True))
    return holds_nothing_else(body, Message.__struct_encode_fields__, members)


def own_members(message: bytes) -> list[str]:
    pairs: list[tuple[str, Any]] = json.loads(message, object_pairs_hook=list)
    return [name for name, _ in pairs]


@given(written=bodies(arcion_messages(), twice=False) | bodies(arcion_messages(), twice=True))
def test_no_body_with_an_unknown_or_repeated_key_is_cleared(written: tuple[bytes, int]) -> None:
    body, _ = written
    members = [own_members(message) for message in raw_messages(body)]
    if not all(len({*names}) == len(names) and {*names} <= MEMBERS for names in members):
        assert not held(body)


@pytest.mark.parametrize("lines", [True, False], ids=["lines", "array"])
@pytest.mark.parametrize("layout", LAYOUTS)
@given(messages=st.lists(arcion_messages(), min_size=1, max_size=3))
def test_what_was_decoded_whole_is_cleared_in_any_layout(
    messages: list[dict[str, Any]], layout: str, *, lines: bool
) -> None:
    known = [{name: value for name, value in message.items() if name in MEMBERS} for message in messages]
    texts = [json.dumps(message, ensure_ascii=False, **LAYOUTS[layout]) for message in known]
    assert held(("\n".join(texts) if lines else f"[{', '.join(texts)}]").encode())


@pytest.mark.parametrize(
    ("written", "once"),
    [
        (b'{"a": {"b": "1"}, "b": 2}', True),
        (b"null", True),
        (b'{"a": {"b": "1", "b": 2}}', False),
        (b'{"a": 1, "a": 1}', False),
        (b'{"a": "\\u0000"}', False),
        (b'{"a": ' + b"[" * 99 + b"]" * 99 + b"}", False),
    ],
)
def test_a_repeated_name_is_seen(written: bytes, *, once: bool) -> None:
    assert names_stand_once([b"{}", written]) is once


@pytest.mark.parametrize(
    ("value", "is_text"),
    [
        (b'"a"', True),
        (b'""', True),
        (b'"\\"a\\\\u0000"', False),  # may be wrong
        (b'"\\"a\\n"', True),
        (b'"\\u0000"', False),
        (b'"\\ud83d\\ude00"', False),
        (b'"\\u00e4"', True),
        (b"1", False),
        (b"null", False),
        (b'{"a": "b"}', False),
        (b'["a"]', False),
    ],
)
def test_what_is_no_plain_text_is_seen(value: bytes, *, is_text: bool) -> None:
    assert are_texts([Raw(b'"b"'), Raw(value)]) is is_text


def test_no_values_are_texts() -> None:
    assert are_texts([])
