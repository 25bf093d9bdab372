"""A chunk is cut again identically from its first message and its end, whatever the current limits and pieces."""

from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from app.client.chunking.chunks import Chunk, Limits
from app.formats.arcion.csv_layout import CsvLayout
from tests.client.chunking import test_csv_records as csv
from tests.client.chunking import test_json_messages as json

LIMITS = st.builds(Limits, st.integers(1, 200), st.none() | st.integers(1, 3))


def check_cut_again(chunks: list[Chunk], again: list[Chunk], chunk: Chunk) -> None:
    assert (again[0].body, again[0].first, again[0].after) == (chunk.body, chunk.first, chunk.after)
    assert again[-1].after == chunks[-1].after
    assert all(before.after == after.first for before, after in pairwise(again))


@example(([{}], b"[{} ]"), ([1], [300]), Limits(200), Limits(200), 0)
@given(json.streams(), st.tuples(json.SIZES, json.SIZES), LIMITS, LIMITS, st.integers(0, 5))
def test_json_is_cut_again(
    stream: tuple[list[Any], bytes], sizes: tuple[list[int], list[int]], then: Limits, now: Limits, which: int
) -> None:
    _, body = stream
    chunks = json.split(body, sizes[0], then)
    chunk = chunks[which % len(chunks)]
    limits = Limits(now.max_bytes, now.max_messages, first_end=chunk.end)
    check_cut_again(chunks, json.split(body, sizes[1], limits, chunk.first), chunk)


@given(csv.streams(), st.tuples(csv.SIZES, csv.SIZES), LIMITS, LIMITS, st.integers(0, 5))
def test_csv_is_cut_again(
    stream: tuple[bytes, CsvLayout],
    sizes: tuple[list[int], list[int]],
    then: Limits,
    now: Limits,
    which: int,
) -> None:
    body, layout = stream
    chunks = csv.split(body, layout, sizes[0], then)
    if chunks:
        chunk = chunks[which % len(chunks)]
        limits = Limits(now.max_bytes, now.max_messages, first_end=chunk.end)
        check_cut_again(chunks, csv.split(body, layout, sizes[1], limits, chunk.first), chunk)
