"""The records of a CSV body as written, by the indexes that decoding gives them."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.formats.arcion.csv import csv_records, decode_arcion_csv
from app.formats.arcion.csv_layout import CsvLayout, CsvMode

FIELDS: Final = st.sampled_from([b"1", b"", b"NULL", b'"a\nb"', b'"\r\n"', b'"x, ""y"""', b"\xef\xbb\xbf"])
ENDS: Final = st.sampled_from([b"\n", b"\r\n"])


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("columns", [("a",), ("a", "b")])
@given(data=st.data())
def test_a_record_is_found_as_it_is_written(columns: tuple[str, ...], header: bool, data: st.DataObject) -> None:
    layout = CsvLayout(CsvMode.SNAPSHOT, columns, header)
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
