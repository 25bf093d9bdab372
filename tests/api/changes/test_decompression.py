"""Compressed bodies that take more work than their size suggests."""

import gzip
from collections.abc import Callable

import pytest
import zstandard

from app.api.changes.endpoints import MAX_MEMBERS, decompress
from mirrorgate.errors import Code
from tests.support.rejections import rejected

SKIPPABLE = b"\x50\x2a\x4d\x18" + bytes(4)
COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}


def expanded(body: bytes, encoding: str) -> bytes:
    return decompress(body, encoding, lambda _: None)


@pytest.mark.parametrize(
    ("encoding", "empty"),
    [*((name, of(b"")) for name, of in COMPRESS.items()), ("zstd", SKIPPABLE)],
    ids=["gzip", "zstd", "zstd skippable"],
)
def test_a_body_of_many_empty_frames_is_rejected(encoding: str, empty: bytes) -> None:
    end = COMPRESS[encoding](b"x")
    with rejected(Code.BAD_ENCODING) as rejection:
        expanded(empty * MAX_MEMBERS + end, encoding)
    assert "frames" in rejection.detail
    assert expanded(empty * (MAX_MEMBERS - 1) + end, encoding) == b"x"


@pytest.mark.parametrize("encoding", COMPRESS)
def test_frames_one_after_the_other_are_one_body(encoding: str) -> None:
    parts = [str(number).encode() * number for number in range(1_000)]
    assert expanded(b"".join(map(COMPRESS[encoding], parts)), encoding) == b"".join(parts)
