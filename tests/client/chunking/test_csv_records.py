"""CSV streams are cut between records, exactly where the gateway sees a record end."""

from functools import partial

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from app.domain.model.change import Change
from app.formats.arcion.csv import CsvChanges, decode_arcion_csv
from app.formats.rows.messages import RowsLayout, decode_csv_rows
from mirrorgate.chunking.chunks import Chunk, Limits, positions_of
from mirrorgate.chunking.csv_records import split_csv
from mirrorgate.errors import Code
from mirrorgate.parameters import CsvDialect, CsvLayout, CsvMode
from tests.client.chunking.cutting import SIZES, check_chunks, outcome, pieces
from tests.support.rejections import rejected

SIGNS = st.sampled_from([(",", '"', '"'), (";", "'", "'"), ("\t", '"', "\\"), ("|", "^", "\\"), ("]", "[", "[")])
SNAPSHOT = CsvLayout(CsvMode.SNAPSHOT, ("a", "b"))


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, CsvLayout]:
    """Records, with a header or without, and how they are written."""
    delimiter, quote, escape = draw(SIGNS)
    columns = tuple("abc"[: draw(st.integers(1, 3))])
    mode, header, null = draw(st.sampled_from(CsvMode)), draw(st.booleans()), draw(st.sampled_from([None, ""]))
    layout = CsvLayout(mode, () if header else columns, header, delimiter, quote, escape, null)

    def field(value: str) -> str:
        if not draw(st.booleans()):
            return "".join(sign for sign in value if sign not in f"{delimiter}{quote}\r\n")
        for sign in {quote, escape} if escape != quote else {quote}:
            value = value.replace(sign, "\0" + sign)
        return quote + value.replace("\0", escape) + quote

    def record() -> str:
        value = st.text(f'{delimiter}{quote}{escape}a "\r\n{{', max_size=4)
        if mode is CsvMode.SNAPSHOT:
            return delimiter.join(field(draw(value)) for _ in columns)
        json = rf'"{{\"v{delimiter}\n\":\"{{1}}\"}}"' if escape == quote == '"' and draw(st.booleans()) else "{}"
        return delimiter.join([*(text for _ in columns for text in (field(draw(value)), "NULL", "1")), "I", json, "{}"])

    records = [record() for _ in range(draw(st.integers(1, 5)))]
    if header:
        records.insert(0, delimiter.join(f"{quote}{name}{quote}" for name in columns))
    ends = st.sampled_from(["\n", "\r\n", "\n\n", "\n\r\n\n"])
    text = "".join(record + draw(ends) for record in records)
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return (mark + (text.rstrip("\r\n") if draw(st.booleans()) else text)).encode(), layout


def split(body: bytes, layout: CsvLayout, sizes: list[int], limits: Limits, skip: int = 0) -> list[Chunk]:
    return list(split_csv(pieces(body, sizes), limits, skip, layout=layout))


def without_index(decoded: CsvChanges) -> list[tuple[object, ...]]:
    return [(change.operation, change.before, change.after, change.source_position) for change in decoded.changes]


@given(streams(), SIZES, st.integers(1, 200), st.integers(0, 3))
def test_the_parts_hold_the_records_of_the_whole(
    stream: tuple[bytes, CsvLayout], sizes: list[int], limit: int, skip: int
) -> None:
    body, layout = stream
    whole = outcome(lambda: decode_arcion_csv(body, layout))
    assume(whole)  # a stream of one column may be nothing but blank lines
    assert whole is not None
    chunks = split(body, layout, sizes, Limits(limit), skip)
    check_chunks(chunks, body, limit, first=skip)
    decoded = [decode_arcion_csv(chunk.body, layout) for chunk in chunks]
    assert [change for chunk in decoded for change in without_index(chunk)] == without_index(whole)[skip:]
    assert [len(chunk.changes) for chunk in decoded] == [chunk.messages for chunk in chunks]
    lines = [chunk.line_in_stream(line) for chunk, found in zip(chunks, decoded, strict=True) for line in found.lines]
    assert lines == whole.lines[skip:]
    placed = [positions_of(chunk, range(chunk.messages), partial(split_csv, layout=layout)) for chunk in chunks]
    assert [position.line for positions in placed for _, position in sorted(positions.items())] == lines


@given(
    st.text(',"\\\r\n{}NULI1\u00e9\ufeff\0 ', max_size=60).map(str.encode) | streams().map(lambda s: s[0][:-1]),
    st.sampled_from(CsvMode),
    st.sampled_from([(), ("a",), ("a", "b")]),
    st.booleans(),
    SIGNS,
    SIZES,
)
@example(b'1,"x\r\ny"\r\n2,"\r"\r\n', CsvMode.SNAPSHOT, ("a", "b"), False, (",", '"', '"'), [1])
@example(b'x\n\n\n"y"\n', CsvMode.SNAPSHOT, ("a",), False, (",", '"', '"'), [1])
@example(b'"{\\"a\\":\n1}"\n"{"\n', CsvMode.SNAPSHOT, ("a",), False, (",", '"', '"'), [1])
@example(b'"{""a"":1,\\"\n"{""}"\n', CsvMode.SNAPSHOT, ("a",), False, (",", '"', '"'), [1])
@example("a\n\ufeffb\n\ufeff\ufeffc\n".encode(), CsvMode.SNAPSHOT, ("a",), False, (",", '"', '"'), [1])
@example("a\n\ufeffb\n\ufeff\ufeffc\n".encode(), CsvMode.SNAPSHOT, (), True, (",", '"', '"'), [1])
def test_splitting_neither_heals_nor_breaks_a_text(
    body: bytes,
    mode: CsvMode,
    columns: tuple[str, ...],
    header: bool,
    signs: tuple[str, str, str],
    sizes: list[int],
) -> None:
    layout = CsvLayout(mode, columns, header, *signs)
    whole = outcome(lambda: decode_arcion_csv(body, layout))
    for limit in (1, 10, 200):
        chunks = outcome(lambda limit=limit: split(body, layout, sizes, Limits(limit)))  # type: ignore[misc]
        decoded = [outcome(lambda chunk=chunk: decode_arcion_csv(chunk.body, layout)) for chunk in chunks or []]  # type: ignore[misc]
        if whole is None:
            assert not decoded or None in decoded
        else:
            found: list[Change | None] = []
            assert [
                change for chunk in decoded for change in (without_index(chunk) if chunk else found)
            ] == without_index(whole)


def test_every_chunk_has_the_header() -> None:
    layout = CsvLayout(CsvMode.SNAPSHOT, header=True)
    chunks = split(b'"one, 1",b\r\n1,2\r\n3,"4\n5"\r\n', layout, [5], Limits(20))
    assert [chunk.body for chunk in chunks] == [
        b'\xef\xbb\xbf"one, 1",b\r\n1,2\r\n',
        b'\xef\xbb\xbf"one, 1",b\r\n3,"4\n5"\r\n',
    ]
    assert [(chunk.line, chunk.line_in_stream(2)) for chunk in chunks] == [(2, 2), (3, 3)]


@given(
    st.lists(st.sampled_from([b"1", b'"x\ny"', b"", b"NULL", b'""']), max_size=9), SIZES, st.sampled_from([None, ""])
)
def test_blank_lines_between_plain_rows_are_no_rows_unless_they_are_null(
    fields: list[bytes], sizes: list[int], null: str | None
) -> None:
    body = b"a\n" + b"".join(field + b"\n" for field in fields)
    layout, rows = CsvLayout(CsvMode.SNAPSHOT, header=True, null=null), RowsLayout(dialect=CsvDialect(null=null))
    chunks = split(body, layout, sizes, Limits(8))
    parts = [decode_csv_rows(chunk.body, rows).changes for chunk in chunks]
    assert [len(part) for part in parts] == [chunk.messages for chunk in chunks]
    assert sum(map(len, parts)) == len(fields if null == "" else [field for field in fields if field])
    whole = outcome(lambda: decode_csv_rows(body, rows).changes) or []
    assert [change.after for part in parts for change in part] == [change.after for change in whole]


@pytest.mark.parametrize("body", [b"", b"a,b", b"a,b\r\n", b"\xef\xbb\xbfa,b\n\n\n"])
def test_a_header_alone_makes_no_part(body: bytes) -> None:
    assert split(body, CsvLayout(CsvMode.SNAPSHOT, header=True), [1], Limits(100)) == []


@pytest.mark.parametrize("record", [b'1,"x"y\n', b'1,x"y"\n', b"1,x\ry\n"])
def test_a_field_whose_quotes_do_not_fit_is_named_at_once(record: bytes) -> None:
    given_out = iter([b'1,"one\ntwo"\r\n\n' + record] + [b"x"] * 1_000)
    with rejected(Code.MALFORMED_CSV) as rejection:
        list(split_csv(given_out, Limits(10), layout=SNAPSHOT))
    assert rejection.detail.startswith("line 4 ")
    assert len(list(given_out)) == 1_000


def test_a_quote_that_is_never_closed_is_named_at_the_end_or_at_the_limit() -> None:
    with rejected() as rejection:
        split(b'1,2\n3,"4\n5,6\n', SNAPSHOT, [4], Limits(10))
    assert rejection.detail.startswith("line 2 ")
    with rejected() as rejection:
        split(b'1,2\n3,"4\n' * 1_000, SNAPSHOT, [100], Limits(10, max_message_bytes=50))
    assert rejection.code == Code.MALFORMED_CSV or rejection.code == Code.BODY_TOO_LARGE


def test_a_layout_that_cannot_be_read_is_rejected_before_anything_is_read() -> None:
    def unread() -> object:
        raise AssertionError

    with rejected(Code.COLUMNS_REQUIRED):
        next(split_csv(iter(unread, None), Limits(10), layout=CsvLayout(CsvMode.SNAPSHOT)))  # type: ignore[arg-type]
