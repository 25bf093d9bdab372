"""The raw messages of a JSON body are those that the decoder reads, one by one."""

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.formats.json.decoder import MessageDecoder, raw_messages

NAMES: Final = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
OBJECTS: Final = st.dictionaries(NAMES, st.sampled_from([1, "}{", "a\nb", "\\", None, [{}], {"x": "]"}]))
DECODER: Final[MessageDecoder[dict[str, Any] | None]] = MessageDecoder(dict[str, Any] | None)  # type: ignore[arg-type]  # a union is read, too
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
