"""Staged payloads decode to the rows that were staged."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from app.domain.arrow import MAX_PLAIN_BYTES, decode_payload, encode_payload, payload_digest
from tests.support.samples.schemas import schema_of

VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int16": [-(2**15), 2**15 - 1, 0],
    "int32": [-(2**31), 2**31 - 1, 0],
    "int64": [-(2**63), 2**63 - 1, 0],
    "float32": [math.nan, math.inf, -math.inf, -0.0, 3.4028234663852886e38, 1.401298464324817e-45],
    "float64": [math.nan, math.inf, -math.inf, -0.0, 1.7976931348623157e308, 5e-324],
    "decimal(38,38)": [Decimal("0." + "9" * 38), Decimal("-0." + "9" * 38), Decimal("0E-38")],
    "decimal(38,0)": [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(0)],
    "date": [date.min, date.max, date(1970, 1, 1)],
    "timestamp": [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)],
    "string": ["", "é\U0001f600", "x" * 100_000, "\n"],
    "binary": [b"", b"\x00\xff", b"x" * 100_000],
    "json": ["{}", "null", '{"a": 1}'],
}
SCHEMA = schema_of({name: name for name in VALUES})


def batch_of(rows: int, *, value: int | None) -> pa.RecordBatch:
    """`rows` rows, NULL everywhere or with each column's value of this number (the last one if it has fewer)."""
    columns = [
        pa.array([None if value is None else values[min(value, len(values) - 1)]] * rows, column.type.arrow)
        for values, column in zip(VALUES.values(), SCHEMA.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays([*columns, pa.array([0] * rows, pa.int32())], schema=SCHEMA.arrow)


def same(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Equal in schema and in every value; NaN is NaN and -0.0 is not 0.0."""
    return one.schema.equals(other.schema, check_metadata=True) and repr(one.to_pylist()) == repr(other.to_pylist())


@pytest.mark.parametrize("value", [None, *range(6)])
@pytest.mark.parametrize("rows", [1, 9])
def test_every_type_survives_with_its_extremes(rows: int, value: int | None) -> None:
    batch = batch_of(rows, value=value)
    assert same(decode_payload(encode_payload([batch]).message, SCHEMA.arrow), batch)


def compressed(batch: pa.RecordBatch) -> bytes:
    """Return the payload as earlier releases wrote it: every message compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()[batch.schema.serialize().size : -8]


@pytest.mark.parametrize("rows", [1, 9, 500])
def test_short_payloads_that_were_compressed_are_still_read(rows: int) -> None:
    batch = batch_of(rows, value=0)
    assert same(decode_payload(compressed(batch), SCHEMA.arrow), batch)


def test_only_a_long_message_is_compressed_and_each_form_is_the_shorter_or_cheaper_one() -> None:
    one = pa.RecordBatch.from_arrays([pa.array(["x"]), pa.array([0], pa.int32())], names=["text", "__rowMarker__"])
    assert len(encode_payload([one]).message) < len(compressed(one))
    for repeats in range(1, 400, 7):
        batches = [one] * repeats
        plain = pa.ipc.get_record_batch_size(pa.concat_batches(batches))
        payload = encode_payload(batches).message
        assert (len(payload) == plain) is (plain <= MAX_PLAIN_BYTES)
        assert same(decode_payload(payload, one.schema), pa.concat_batches(batches))


def test_several_batches_become_one_in_their_order() -> None:
    batches = [batch_of(2, value=0), batch_of(1, value=None), batch_of(3, value=1)]
    decoded = decode_payload(encode_payload(batches).message, SCHEMA.arrow)
    assert same(decoded, pa.concat_batches(batches))


def test_a_slice_of_a_batch_is_staged_without_the_rest() -> None:
    batch = pa.concat_batches([batch_of(1, value=value) for value in range(6)])
    assert same(decode_payload(encode_payload([batch.slice(2, 3)]).message, SCHEMA.arrow), batch.slice(2, 3))


def test_equal_batches_have_equal_payloads_and_digests() -> None:
    one, other = encode_payload([batch_of(5, value=1)]).message, encode_payload([batch_of(5, value=1)]).message
    assert payload_digest(one) == payload_digest(other)
    assert payload_digest(one) != payload_digest(encode_payload([batch_of(5, value=2)]).message)
    assert len(payload_digest(one)) == 32


def test_the_schema_is_not_in_the_payload() -> None:
    payload = encode_payload([batch_of(1, value=None)]).message
    assert b"decimal(38,38)" not in payload
    assert b"__rowMarker__" not in payload


@pytest.mark.parametrize(
    "payload",
    [b"", bytes(64), encode_payload([batch_of(3, value=0)]).message[:-100]],
    ids=["none", "zeros", "truncated"],
)
def test_bytes_that_are_no_payload_are_rejected(payload: bytes) -> None:
    with pytest.raises((pa.ArrowInvalid, OSError, EOFError)):
        decode_payload(payload, SCHEMA.arrow)
