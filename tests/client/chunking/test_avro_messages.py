"""Files of Replicate's envelopes are cut between messages, wherever their blocks end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorgate.chunking.avro_messages import split_replicate
from mirrorgate.chunking.chunks import Limits, positions_of
from mirrorgate.errors import Code
from tests.client.chunking.cutting import SIZES, check_chunks, pieces
from tests.support.rejections import rejected
from tests.support.samples.replicate_avro import envelope

ENVELOPES = st.builds(
    lambda message, schema_id: envelope("DT", message, schema_id=schema_id),
    st.binary(max_size=80) | st.just(b"atMSG\x04DT"),
    st.none() | st.text(max_size=5),
)
BREAKS = st.sampled_from([b"", b"\n", b"\r\n"])


@given(
    st.lists(st.tuples(ENVELOPES, BREAKS), min_size=1, max_size=8),
    SIZES,
    st.integers(1, 200),
    st.integers(0, 3),
)
def test_every_envelope_is_in_one_chunk_in_order(
    messages: list[tuple[bytes, bytes]], sizes: list[int], max_bytes: int, skip: int
) -> None:
    body = b"".join(message + after for message, after in messages)
    chunks = [*split_replicate(pieces(body, sizes), Limits(max_bytes), skip)]
    check_chunks(chunks, body, max_bytes, min(skip, len(messages)))
    assert sum(chunk.messages for chunk in chunks) == max(0, len(messages) - skip)
    for chunk in chunks:
        found = positions_of(chunk, range(chunk.messages), split_replicate)
        assert [found[index].message for index in range(chunk.messages)] == [*range(chunk.first, chunk.after)]


def test_json_is_cut_as_json() -> None:
    chunks = [*split_replicate([b"\n{}", b"{}"], Limits(2))]
    assert [chunk.body for chunk in chunks] == [b"{}", b"{}"]


@pytest.mark.parametrize(("rest", "reason"), [(b"atMSG\x04", "ends before"), (b"atXYZ", "does not begin with atMSG")])
def test_a_broken_envelope_ends_the_file_at_its_byte(rest: bytes, reason: str) -> None:
    whole = envelope("DT", b"x")
    chunks = split_replicate([whole, rest], Limits(1_000))
    assert next(chunks).body == whole
    with rejected(Code.MALFORMED_AVRO) as error:
        next(chunks)
    assert reason in error.detail
    assert f"byte {len(whole)} " in error.detail
