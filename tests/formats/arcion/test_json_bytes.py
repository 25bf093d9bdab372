"""Any bytes sent as Arcion JSON give changes or a rejection."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from app.errors import RejectedInput
from app.formats.arcion.messages import decode_arcion

SAMPLES = [path.read_bytes() for path in sorted((Path(__file__).parents[3] / "demo/samples/arcion").glob("*.json"))]
COMPACT = [json.dumps(json.loads(sample)).encode() for sample in SAMPLES]
PIECES = st.sampled_from(
    [b"", b'"', b"\\", b":", b",", b"{", b"}", b"[", b"]", b"\\u0000", b"\\ud800", b"\xff", b"1e9", b"-"]
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Sample messages in which a few bytes were replaced."""
    body = draw(st.sampled_from([b"", b"\n", b" "])).join(
        draw(st.lists(st.sampled_from(COMPACT + SAMPLES), max_size=3))
    )
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(body)))
        body = body[:start] + draw(PIECES | st.binary(max_size=2)) + body[start + draw(st.integers(0, 3)) :]
    return body


@given(damaged() | st.binary(max_size=40))
def test_no_bytes_make_the_decoder_fail(body: bytes) -> None:
    try:
        decode_arcion(body)
    except RejectedInput as rejection:
        assert all(problem.index is not None for problem in rejection.problems)
