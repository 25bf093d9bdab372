"""Bodies of very many tiny messages: an error is found before all of them are read."""

import tracemalloc
from collections.abc import Callable

import pytest

from app.domain.model.change import InputLimits
from app.errors import Code
from app.formats.arcion.csv import decode_arcion_csv
from app.formats.arcion.csv_layout import CsvLayout, CsvMode
from app.formats.arcion.messages import decode_arcion
from app.formats.csv import MAX_FIELDS
from tests.support.rejections import rejected

TIMES = 100_000
LIMITS = InputLimits(messages=1_000, value_bytes=1_000)
TWO_COLUMNS = CsvLayout(CsvMode.SNAPSHOT, ("a", "b"))


@pytest.mark.parametrize(
    "body",
    [b"{}" * TIMES, b"{}\n1\n" * TIMES, b"[" + b"1," * TIMES + b"1]", b"[" + b"{}," * TIMES + b"x]"],
    ids=["objects", "lines", "array", "array with an end that is no JSON"],
)
def test_a_wrong_body_of_tiny_messages_takes_little_memory(body: bytes) -> None:
    tracemalloc.start()
    try:
        with rejected() as rejection:
            decode_arcion(body, limits=LIMITS)
        assert tracemalloc.get_traced_memory()[1] < 5 * len(body)
    finally:
        tracemalloc.stop()
    assert rejection.code is Code.MALFORMED_MESSAGE
    assert [index for _, index, _, _ in rejection.places] == [0]


@pytest.mark.parametrize(
    ("decode", "code"),
    [
        (lambda: decode_arcion_csv(b"\n" * TIMES, TWO_COLUMNS, limits=LIMITS), Code.TOO_MANY_MESSAGES),
        (lambda: decode_arcion_csv(b"," * TIMES, TWO_COLUMNS, limits=LIMITS), Code.MALFORMED_CSV),
    ],
    ids=["lines without anything", "a record of fields without end"],
)
def test_csv_of_nothing_is_rejected_long_before_its_end(decode: Callable[[], object], code: Code) -> None:
    with rejected() as rejection:
        decode()
    assert rejection.code is code


def test_a_record_of_many_fields_is_counted() -> None:
    with rejected() as rejection:
        decode_arcion_csv(b"," * (MAX_FIELDS - 1), TWO_COLUMNS)
    assert rejection.code is Code.CSV_FIELD_COUNT
