"""Arcion's CSV: fields, headers, and records as they are written."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import Operation
from app.formats.arcion.csv import csv_records, decode_arcion_csv
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import CsvLayout, CsvMode
from tests.support.rejections import rejected

COLUMNS = ("a", "b")
SNAPSHOT = CsvLayout(CsvMode.SNAPSHOT, COLUMNS)
REALTIME = CsvLayout(CsvMode.REALTIME, COLUMNS)


def rows(body: bytes, layout: CsvLayout = SNAPSHOT, trimmed: Sequence[str] = ()) -> list[object]:
    return [change.after for change in decode_arcion_csv(body, layout, frozenset(trimmed)).changes]


@pytest.mark.parametrize(
    ("record", "values"),
    [
        (b"1,x", ["1", "x"]),
        (b'NULL,"NULL"', [None, "NULL"]),
        (b"null, NULL", ["null", " NULL"]),
        (b',""', ["", ""]),
        (b" a ,\tb", [" a ", "\tb"]),
        (b'"1,2","a""b"', ["1,2", 'a"b']),
        (b'"one\r\ntwo","\n"', ["one\r\ntwo", "\n"]),
        ("é,\U0001f600".encode(), ["é", "\U0001f600"]),
        (b"\\,'x'", ["\\", "'x'"]),
    ],
)
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n\n"])
def test_fields_are_read_as_they_stand(record: bytes, values: list[str | None], end: bytes) -> None:
    row = dict(zip(COLUMNS, values, strict=True))
    assert rows(record + end) == [row]
    assert rows(b"\xef\xbb\xbf" + record + b"\n" + record + end) == [row, row]


def test_a_snapshot_record_has_a_field_for_each_column() -> None:
    assert rows(b"0,AFRICA\n1,ASIA\n") == [{"a": "0", "b": "AFRICA"}, {"a": "1", "b": "ASIA"}]
    for record in (b"0\n", b"0,AFRICA,AFRICA\n"):
        with rejected(Code.CSV_FIELD_COUNT):
            rows(record)


def test_a_realtime_record_has_three_fields_for_each_column_and_three_more() -> None:
    record = b'India,NULL,1,10,NULL,1,I,"{""v"":2}","{""insertCount"":6}"\n'
    [change] = decode_arcion_csv(record, REALTIME).changes
    assert (change.operation, change.after) == (Operation.INSERT, {"a": "India", "b": "10"})
    for wrong in (record.replace(b"India,", b""), b"0," + record):
        with rejected(Code.CSV_FIELD_COUNT):
            decode_arcion_csv(wrong, REALTIME)


@pytest.mark.parametrize(
    ("exists", "before", "after"),
    [
        (0, {}, {}),
        (1, {}, {"a": "new"}),
        (2, {"a": "old"}, {"a": "old"}),
        (3, {"a": "old"}, {"a": "new"}),
    ],
)
def test_exists_val_says_which_values_of_a_triplet_are_given(
    exists: int, before: dict[str, str], after: dict[str, str]
) -> None:
    [change] = decode_arcion_csv(f"new,old,{exists},NULL,NULL,0,U,,".encode(), REALTIME).changes
    assert (change.before, change.after) == (before, after)


def test_a_null_of_the_user_differs_from_a_column_that_the_dml_does_not_mention() -> None:
    given, omitted = decode_arcion_csv(b"NULL,x,3,y,x,3,U,,\nNULL,NULL,0,y,x,3,U,,\n", REALTIME).changes
    assert (given.after, omitted.after) == ({"a": None, "b": "y"}, {"b": "y"})


def test_the_documented_update_gives_what_it_sets_and_the_key_of_its_condition() -> None:
    layout = CsvLayout(CsvMode.REALTIME, ("r_comment", "r_name", "r_regionkey"))
    [change] = decode_arcion_csv(b'USA,NULL,1,NULL,NULL,0,NULL,10,2,U,"{}","{}"', layout).changes
    assert change.before == {"r_regionkey": "10"}
    assert change.after == {"r_comment": "USA", "r_regionkey": "10"}


def test_blanks_are_no_data_where_a_column_holds_no_text() -> None:
    assert rows(b"  10\t, x \n", trimmed=["a"]) == [{"a": "10", "b": " x "}]


def test_a_header_names_the_columns() -> None:
    layout = CsvLayout(CsvMode.SNAPSHOT, header=True)
    assert rows(b"b, a\n1,2\n", layout) == [{"b": "1", "a": "2"}]
    assert rows(b"x,y\n1,2\n", CsvLayout(CsvMode.SNAPSHOT, COLUMNS, header=True)) == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize(
    "header",
    [
        "a,a_old,a_exists,b,b_old,b_exists",
        "a,a,a,b,b,b",
        "a_NEW,a_OLD,a_EXISTS,b_NEW,b_OLD,b_EXISTS",
        "NEW_VAL a,OLD_VAL a,EXISTS_VAL a,NEW_VAL b,OLD_VAL b,EXISTS_VAL b",
        "new.a,old.a,exists.a,b,b_1,b_2",
    ],
)
def test_a_realtime_header_may_name_each_field(header: str) -> None:
    layout = CsvLayout(CsvMode.REALTIME, header=True)
    body = f"{header},op,cursor,counts\n\n1,NULL,1,x,NULL,1,I,,\n".encode()
    decoded = decode_arcion_csv(body, layout)
    assert [change.after for change in decoded.changes] == [{"a": "1", "b": "x"}]
    assert (decoded.columns, decoded.lines) == (("a", "b"), [3])
    assert csv_records(body, layout, [0]) == {0: b"1,NULL,1,x,NULL,1,I,,\n"}


def test_a_realtime_header_may_name_each_column_also_where_there_are_three() -> None:
    layout = CsvLayout(CsvMode.REALTIME, header=True)
    names = "abcdef"
    record = ",".join(["1,NULL,1"] * len(names))
    body = f"{','.join(names)}\n{record},I,,\n".encode()
    assert [change.after for change in decode_arcion_csv(body, layout).changes] == [dict.fromkeys(names, "1")]


@pytest.mark.parametrize("header", ["a,b,c", "OLD_a,NEW_a,EXISTS_a", "a_new,a_exists,a_old", "a,a_exists,a_old"])
def test_a_realtime_header_that_does_not_tell_the_columns_asks_for_them(header: str) -> None:
    body = f"{header},op,cursor,counts\n1,NULL,1,I,,\n".encode()
    with rejected(Code.COLUMNS_REQUIRED) as rejection:
        decode_arcion_csv(body, CsvLayout(CsvMode.REALTIME, header=True))
    assert "`columns`" in rejection.text


def test_lines_that_end_with_cr_alone_are_named() -> None:
    with rejected(Code.MALFORMED_CSV) as rejection:
        decode_arcion_csv(b"1,x\r2,y\r", CsvLayout(CsvMode.SNAPSHOT, COLUMNS))
    assert "CR only" in rejection.text


def test_delimiter_quote_and_escape_are_the_callers() -> None:
    layout = CsvLayout(CsvMode.SNAPSHOT, COLUMNS, delimiter="|", quote="'", escape="\\")
    assert rows(b"'it\\'s|','\\\\'\n\"x\"|NULL\n".replace(b"','", b"'|'"), layout) == [
        {"a": "it's|", "b": "\\"},
        {"a": '"x"', "b": None},
    ]


@pytest.mark.parametrize("json", [b'"{""v"":2}","{}"', rb'"{\"v\":2}","{}"', b'"{""v"":2}",NULL'])
def test_the_quotes_of_a_cursor_may_be_doubled_or_carry_backslashes(json: bytes) -> None:
    [change] = decode_arcion_csv(b"1,NULL,1,x,NULL,1,I," + json, REALTIME).changes
    assert (change.operation, change.after) == (Operation.INSERT, {"a": "1", "b": "x"})
    assert change.source_position == '{"v":2}'


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (b"1", Code.CSV_FIELD_COUNT),
        (b"1,2,3", Code.CSV_FIELD_COUNT),
        (b"1,2,3,4,5,6,I,8,9", Code.MODE_MISMATCH),
        (b'1,"{\\"x\\":1}"', Code.MALFORMED_CSV),
        (b'1,"x', Code.MALFORMED_CSV),
        (b'1,"x"y', Code.MALFORMED_CSV),
        (b'1,x"y"', Code.MALFORMED_CSV),
        (b"1,\xff", Code.MALFORMED_CSV),
        (b"1,\0", Code.MALFORMED_CSV),
        (b"1,x\ry", Code.MALFORMED_CSV),
    ],
)
def test_a_record_that_is_wrong_is_named_by_its_line(record: bytes, code: Code) -> None:
    with rejected(code) as rejection:
        rows(b'1,"one\ntwo"\r\n\n' + record + b"\n")
    assert rejection.detail.startswith("line 4")
    assert rejection.places in ([], [(code, 1, None, None)])


@pytest.mark.parametrize(
    ("record", "place"),
    [
        (b"1,2", (Code.MODE_MISMATCH, 0, None, None)),
        (b"1,NULL,1,2,NULL,1,X,NULL,NULL", (Code.BAD_OP, 0, None, None)),
        (b"1,NULL,4,2,NULL,1,I,NULL,NULL", (Code.BAD_EXISTS, 0, "/exists/a", "a")),
        (b"1,NULL,1,2,NULL,NULL,I,NULL,NULL", (Code.BAD_EXISTS, 0, "/exists/b", "b")),
        (b"1,NULL,3,2,NULL,1,I,NULL,NULL", (Code.EXISTS_MISMATCH, 0, "/exists/a", "a")),
    ],
)
def test_a_realtime_record_obeys_the_rules_of_the_json_form(record: bytes, place: object) -> None:
    with rejected(places=[place]) as rejection:
        decode_arcion_csv(record, REALTIME)
    assert rejection.detail.startswith("line 1: ")


@pytest.mark.parametrize(
    ("layout", "code"),
    [
        (CsvLayout(CsvMode.SNAPSHOT), Code.COLUMNS_REQUIRED),
        (CsvLayout(CsvMode.SNAPSHOT, ("a", "a")), Code.BAD_REQUEST),
        (CsvLayout(CsvMode.SNAPSHOT, COLUMNS, delimiter=""), Code.BAD_REQUEST),
        (CsvLayout(CsvMode.SNAPSHOT, COLUMNS, delimiter='"'), Code.BAD_REQUEST),
        (CsvLayout(CsvMode.SNAPSHOT, COLUMNS, quote="\n"), Code.BAD_REQUEST),
        (CsvLayout(CsvMode.SNAPSHOT, COLUMNS, escape="é"), Code.BAD_REQUEST),
    ],
)
def test_a_layout_that_cannot_be_read_is_rejected(layout: CsvLayout, code: Code) -> None:
    with rejected(code):
        rows(b"1,2\n", layout)


def test_an_empty_line_is_skipped_unless_it_is_the_null_of_one_column() -> None:
    one = CsvLayout(CsvMode.SNAPSHOT, ("a",))
    body = b'1\n\n""\r\n\r\n2'
    assert rows(body, one) == [{"a": "1"}, {"a": ""}, {"a": "2"}]
    assert rows(body, replace(one, null="")) == [{"a": "1"}, {"a": None}, {"a": ""}, {"a": None}, {"a": "2"}]
    assert csv_records(body, replace(one, null=""), [1, 2]) == {1: b"\n", 2: b'""\r\n'}


@pytest.mark.parametrize("body", [b"", b"\n\r\n", b"\xef\xbb\xbf"])
def test_a_body_without_a_record_is_an_empty_request(body: bytes) -> None:
    with rejected(Code.EMPTY_REQUEST):
        rows(body)


VALUES = st.none() | st.sampled_from(["NULL", "", "null"]) | st.text("a ,;\"'\\\r\n{é", max_size=6)
SIGNS = st.sampled_from([(",", '"', '"'), (";", "'", "'"), ("\t", '"', "\\"), ("|", "^", "\\"), ("]", "[", "[")])


@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(VALUES, min_size=n, max_size=n), min_size=1)), SIGNS)
def test_rendering_rows_and_reading_them_gives_the_same_rows(
    table: list[list[str | None]], signs: tuple[str, str, str]
) -> None:
    delimiter, quote, escape = signs
    columns = tuple(f"c{number}" for number in range(len(table[0])))

    def field(value: str | None) -> str:
        if value is None:
            return "NULL"
        for sign in {quote, escape} if escape != quote else {quote}:
            value = value.replace(sign, "\0" + sign)
        return quote + value.replace("\0", escape) + quote

    text = "\r\n".join(delimiter.join(map(field, row)) for row in table)
    layout = CsvLayout(CsvMode.SNAPSHOT, columns, False, delimiter, quote, escape)
    assert rows(text.encode(), layout) == [dict(zip(columns, row, strict=True)) for row in table]


@given(st.lists(st.lists(st.text('a ,"\r\n', max_size=4), min_size=2, max_size=2), min_size=1))
def test_what_the_standard_writer_writes_is_read_back(table: list[list[str]]) -> None:
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows(table)
    assert rows(written.getvalue().encode()) == [dict(zip(COLUMNS, row, strict=True)) for row in table]


@given(
    st.binary(max_size=40) | st.text(',"\\\r\n{}NULI123é\0 ', max_size=60).map(str.encode),
    st.sampled_from(CsvMode),
    st.sampled_from([(), ("a",), COLUMNS]),
    st.booleans(),
    SIGNS,
)
def test_no_bytes_make_the_decoder_fail(
    body: bytes, mode: CsvMode, columns: tuple[str, ...], header: bool, signs: tuple[str, str, str]
) -> None:
    try:
        decoded = decode_arcion_csv(body, CsvLayout(mode, columns, header, *signs))
        assert len(decoded.changes) == len(decoded.lines)
    except RejectedInput as rejection:
        assert all(problem.index is not None for problem in rejection.problems)


FIELDS: Final = st.sampled_from([b"1", b"", b"NULL", b'"a\nb"', b'"\r\n"', b'"x, ""y"""', b"\xef\xbb\xbf"])
ENDS: Final = st.sampled_from([b"\n", b"\r\n"])


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("columns", [("a",), ("a", "b")])
@given(data=st.data())
def test_a_record_is_found_as_it_is_written(columns: tuple[str, ...], header: bool, data: st.DataObject) -> None:
    layout = CsvLayout(CsvMode.SNAPSHOT, columns, header, null="")
    names = b",".join(name.encode() for name in columns) + b"\n" if header else b""
    records: list[bytes] = []
    body = b"\xef\xbb\xbf" + names  # without it, a first field that looks like one is taken for it
    for _ in range(data.draw(st.integers(1, 4))):
        record = b",".join(data.draw(FIELDS) for _ in columns) + data.draw(ENDS)
        records.append(record)
        blank = data.draw(st.sampled_from([b"", b"\n", b"\r\n"]))
        records += [blank] * (len(columns) == 1 and bool(blank))
        body += record + blank
    if data.draw(st.booleans()) and len(columns) == 2:
        records.append(b"1,1")
        body += b"1,1"
    decoded = decode_arcion_csv(body, layout)
    assert [change.index for change in decoded.changes] == [*range(len(records))]
    assert csv_records(body, layout, range(len(records))) == dict(enumerate(records))
