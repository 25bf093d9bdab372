"""Arrow streams with specific errors, because random changes of bytes seldom get past the framing."""

import io
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any, Final

import pyarrow as pa

from tests.support.samples.arrow_streams import hostile_streams

SHARE_NOT_TAKEN: Final = 0.1
"""The share of columns whose type is rejected before anything is read."""

_COLUMNS: Final = ("a", "b", "c", "id", "name", "é")
_TEXTS: Final = ("", "a", "null", '{"a": 1}', "é" * 9, "x" * 40, None)
_NUMBERS: Final = (0, 1, 7, 100, None)
_MOMENTS: Final = (datetime(2026, 1, 2, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), None)
_MARK: Final = b"\xff\xff\xff\xff"
_END: Final = _MARK + bytes(4)
_SMALL_WORDS: Final = (0, 1, -1, 2, 8, 16, 64, 255, -(2**16), 2**16, 2**31 - 1, -(2**31), 2_000_000_000)
_LARGE_WORDS: Final = (*_SMALL_WORDS, 2**63 - 1, -(2**63), 2**32, 2**40, 10**9)


def _typed(values: Sequence[Any], *types: pa.DataType) -> list[tuple[Sequence[Any], pa.DataType]]:
    return [(values, of) for of in types]


_STRUCT: Final = pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.list_(pa.string()))])
TAKEN: Final = (
    *_typed(_NUMBERS, pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *_typed((0.0, 1.5, -1e300, float("nan"), None), pa.float64()),
    *_typed((0.0, 1.5, float("inf"), None), pa.float32(), pa.float16()),
    *_typed(_TEXTS, pa.string(), pa.large_string()),
    *_typed((b"", b"\0", b"abc", None), pa.binary(), pa.large_binary()),
    *_typed((b"abcd", None), pa.binary(4)),
    *_typed((Decimal("1.5"), Decimal("-0.1"), None), pa.decimal32(4, 1), pa.decimal64(9, 2), pa.decimal256(60, 30)),
    *_typed((Decimal("1.5"), None), pa.decimal128(5, 2), pa.decimal128(38, 10), pa.decimal128(38, 37)),
    *_typed((date(2026, 1, 2), date(9999, 12, 31), None), pa.date32(), pa.date64()),
    *_typed(_MOMENTS, pa.timestamp("us", "UTC"), pa.timestamp("s", "Europe/Paris"), pa.timestamp("ms", "+01:00")),
    *_typed(
        (None, datetime(2026, 1, 2, tzinfo=UTC)), pa.timestamp("ns", "UTC"), pa.timestamp("us"), pa.timestamp("ns")
    ),
    *_typed((datetime(2026, 3, 29, 2, 30), datetime(2026, 10, 25, 2, 30), None), pa.timestamp("s"), pa.timestamp("ms")),
    *_typed((True, False, None), pa.bool_()),
    *_typed((None,), pa.null()),
    *_typed(_TEXTS, pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint32(), pa.string())),
    *_typed((b"", b"abc", b"\0" * 30, None), pa.binary_view(), pa.dictionary(pa.int64(), pa.binary())),
    *_typed((1, 2, None), pa.dictionary(pa.int16(), pa.int64())),
    *_typed(([1], [], [2, None], None), pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.float32())),
    *_typed(([1, 2], None), pa.list_(pa.int64(), 2)),
    *_typed(
        (["a", "x" * 40], [None], None), pa.list_(pa.string_view()), pa.list_(pa.dictionary(pa.int8(), pa.string()))
    ),
    *_typed(({"a": 1, "b": ["é"]}, {"a": None, "b": None}, None), _STRUCT),
    *_typed(([("a", 1.5), ("b", None)], [("a", 1.0), ("a", 2.0)], [], None), pa.map_(pa.string(), pa.float64())),
    *_typed(([[], None, [b"a"]], None), pa.list_(pa.list_(pa.binary()))),
    *_typed(([date(2026, 1, 2)], [None]), pa.list_(pa.date32()), pa.list_(pa.date64())),
    *_typed(([None, None], None), pa.list_(pa.null())),
)
_NOT_TAKEN: Final = (
    *_typed(([1], [], None), pa.list_view(pa.int64()), pa.list_(pa.duration("s"))),
    *_typed((1, None), pa.duration("us"), pa.time64("us")),
)
_HOSTILE: Final = tuple(hostile_streams().values())


def made(random: Random) -> bytes:
    """Return a valid stream of any columns, some of types that are rejected."""
    names = random.sample(_COLUMNS, random.randint(1, 4))
    rows = random.choice((1, 2, 3, 9, 70))
    columns = {}
    for name in names:
        values, of = random.choice(_NOT_TAKEN if random.random() < SHARE_NOT_TAKEN else TAKEN)
        columns[name] = pa.array([random.choice(values) for _ in range(rows)], of)
    table = pa.table(columns)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=random.choice((1, 2, 100)))
    return sink.getvalue()


def mutant(data: bytes, max_bytes: int, seed: int) -> bytes:
    """Return a stream made of `data`, or a new one, changed in a few places."""
    random = Random(seed)  # the engine's seed makes it repeatable
    start = random.random()
    if start < 0.3:
        data = made(random)
    elif start < 0.35:
        data = random.choice(_HOSTILE)
    changed = bytearray(data)
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        if len(changed) >= 16:
            random.choice(_CHANGES)(changed, random)
    return bytes(changed[:max_bytes])


def _set_small_word(body: bytearray, random: Random) -> None:
    at = random.randrange(len(body) // 4) * 4
    struct.pack_into("<i", body, at, random.choice((*_SMALL_WORDS, random.randrange(100))))


def _set_large_word(body: bytearray, random: Random) -> None:
    at = random.randrange(len(body) // 8) * 8
    struct.pack_into("<q", body, at, random.choice((*_LARGE_WORDS, random.randrange(100))))


def _set_byte(body: bytearray, random: Random) -> None:
    body[random.randrange(len(body))] = random.choice(
        (0, 1, 0x7F, 0x80, 0xFF, random.randrange(256), random.randrange(30))
    )


def _add_to_word(body: bytearray, random: Random) -> None:
    at = random.randrange(len(body) // 4) * 4
    (word,) = struct.unpack_from("<I", body, at)
    struct.pack_into("<I", body, at, (word + random.choice((-8, -4, -1, 1, 4, 8, 64))) % 2**32)


def _copy_words(body: bytearray, random: Random) -> None:
    size = 8 * random.choice((1, 2, 4, 6))
    source, target = (random.randrange(max(1, (len(body) - size) // 8)) * 8 for _ in range(2))
    body[target : target + size] = body[source : source + size]


def _take_messages_of_another(body: bytearray, random: Random) -> None:
    parts = [*messages(bytes(body)), *messages(made(random))]
    random.shuffle(parts)
    body[:] = b"".join(parts[: random.randint(1, 4)]) + _END


def _repeat_message(body: bytearray, random: Random) -> None:
    parts = messages(bytes(body).removesuffix(_END))
    if parts:
        body[:] = b"".join((*parts, *([random.choice(parts)] * random.randint(1, 9)))) + _END


def messages(body: bytes) -> list[bytes]:
    """About: the parts that begin with a mark."""
    return [_MARK + part for part in body.split(_MARK)[1:]]


_CHANGES: Final[Sequence[Callable[[bytearray, Random], None]]] = (
    _set_small_word,
    _set_small_word,
    _set_large_word,
    _set_large_word,
    _set_byte,
    _set_byte,
    _add_to_word,
    _copy_words,
    _take_messages_of_another,
    _repeat_message,
)
