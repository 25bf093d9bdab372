"""Bodies: content types, encodings, sizes, compressed ones that take much work; and parameters with several names."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
import zstandard

from app.api.changes.endpoints import MAX_MEMBERS, decompress
from app.api.changes.parameters import CsvParameters, csv_query, debezium_query
from mirrorgate.errors import Code
from tests.api.calls import MAX_BODY_BYTES, Gateway, insert, problem
from tests.support.rejections import rejected

PATH = "/v1/changes/arcion"
BODY = json.dumps([insert("t", id=str(number)) for number in range(50)]).encode()


def zstd(content: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(content)


@pytest.fixture
def orders(gateway: Gateway) -> Gateway:
    gateway.register("t", {"id": "int64"}, ["id"])
    return gateway


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/x-ndjson", None],
)
def test_json_content_types_are_read(orders: Gateway, content_type: str | None) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    assert orders.post(PATH, content=BODY, headers=headers).status_code == 202


@pytest.mark.parametrize(
    "content_type",
    [
        *("text/plain", "application/xml", "", "json"),
        *("application/json; charset=iso-8859-1", 'application/json;x=1; Charset="UTF-16"', "text/csv;charset=latin1"),
    ],
)
def test_another_content_type_is_rejected(orders: Gateway, content_type: str) -> None:
    problem(orders.body("arcion", BODY, content_type), 415, "unsupported_media_type")


COMPRESSED = {
    "gzip": ("gzip", gzip.compress(BODY)),
    "upper case": ("GZIP", gzip.compress(BODY)),
    "two gzip members": ("gzip", gzip.compress(BODY[:100]) + gzip.compress(BODY[100:])),
    "zstd": ("zstd", zstd(BODY)),
    "two zstd frames": ("zstd", zstd(BODY[:100]) + zstd(BODY[100:])),
    "identity": ("identity", BODY),
}


@pytest.mark.parametrize(("encoding", "content"), COMPRESSED.values(), ids=COMPRESSED)
def test_a_compressed_body_is_read(orders: Gateway, encoding: str, content: bytes) -> None:
    [receipt] = orders.post(PATH, content=content, headers={"Content-Encoding": encoding}).json()["receipts"]
    assert receipt["rows"] == 50


NOT_WHOLE = {
    "plain body for gzip": ("gzip", BODY),
    "gzip cut at its end": ("gzip", gzip.compress(BODY)[:-1]),
    "gzip cut at its start": ("gzip", gzip.compress(BODY)[:20]),
    "bytes after gzip": ("gzip", gzip.compress(BODY) + b"x"),
    "zlib for gzip": ("gzip", zlib.compress(BODY)),
    "wrong gzip checksum": ("gzip", bytes(gzip.compress(BODY)[:-8]) + bytes(8)),
    "plain body for zstd": ("zstd", BODY),
    "zstd cut at its end": ("zstd", zstd(BODY)[:-1]),
    "zstd cut at its start": ("zstd", zstd(BODY)[:10]),
    "bytes after zstd": ("zstd", zstd(BODY) + b"x"),
    "gzip for zstd": ("zstd", gzip.compress(BODY)),
}


@pytest.mark.parametrize(("encoding", "content"), NOT_WHOLE.values(), ids=NOT_WHOLE)
def test_a_body_that_is_not_whole_in_its_encoding_is_rejected(orders: Gateway, encoding: str, content: bytes) -> None:
    problem(orders.post(PATH, content=content, headers={"Content-Encoding": encoding}), 400, "bad_encoding")
    assert orders.status("t")["last_sequence"] == 0


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
def test_lines_cut_off_by_a_broken_transfer_are_never_taken_for_the_whole(
    orders: Gateway, compress: Callable[[bytes], bytes]
) -> None:
    lines = b"\n".join(json.dumps(insert("t", id=str(number))).encode() for number in range(300))
    encoding = "gzip" if compress is gzip.compress else "zstd"
    whole = compress(lines)
    for length in range(0, len(whole), max(1, len(whole) // 20)):
        response = orders.post(PATH, content=whole[:length], headers={"Content-Encoding": encoding})
        assert response.status_code in {400, 422}


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "x-gzip", "gzip;q=1"])
def test_another_encoding_is_rejected(orders: Gateway, encoding: str) -> None:
    response = orders.post(PATH, content=BODY, headers={"Content-Encoding": encoding})
    problem(response, 415, "unsupported_encoding")


def chunks(content: bytes) -> Iterator[bytes]:
    """Yield a body without a Content-Length."""
    for start in range(0, len(content), 10_000):
        yield content[start : start + 10_000]


BEYOND_THE_LIMIT = {
    "plain": ("identity", b" " * (MAX_BODY_BYTES + 1)),
    "chunked": ("identity", chunks),
    "gzip": ("gzip", gzip.compress(b" " * (MAX_BODY_BYTES + 1))),
    "gzip bomb": ("gzip", gzip.compress(bytes(50_000_000))),
    "zstd": ("zstd", zstd(b" " * (MAX_BODY_BYTES + 1))),
    "zstd bomb": ("zstd", zstd(bytes(50_000_000))),
    "many members": ("gzip", b"".join([gzip.compress(bytes(1000))] * 200)),
}


@pytest.mark.parametrize(("encoding", "content"), BEYOND_THE_LIMIT.values(), ids=BEYOND_THE_LIMIT)
def test_a_body_beyond_the_limit_is_rejected(orders: Gateway, encoding: str, content: Any) -> None:
    sent = chunks(b" " * (MAX_BODY_BYTES + 1)) if content is chunks else content
    problem(orders.post(PATH, content=sent, headers={"Content-Encoding": encoding}), 413, "body_too_large")


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd])
def test_a_body_of_exactly_the_limit_is_read(orders: Gateway, compress: Callable[[bytes], bytes]) -> None:
    encoding = {bytes: "identity", gzip.compress: "gzip", zstd: "zstd"}[compress]
    content = compress(BODY.ljust(MAX_BODY_BYTES))
    assert orders.post(PATH, content=content, headers={"Content-Encoding": encoding}).status_code == 202


@pytest.mark.parametrize(
    ("path", "type_", "parameters"),
    [
        ("arcion", "application/json", {"dryrun": "true"}),
        ("replicate", "application/json", {"override": "true", "table": "t"}),
        ("arcion", "text/csv", {"override": "true", "table": "t", "mode": "snapshot", "columns": "id"}),
    ],
)
def test_a_parameter_that_does_nothing_here_is_rejected(
    gateway: Gateway, path: str, type_: str, parameters: dict[str, str]
) -> None:
    gateway.register("t", {"id": "int64"}, ["id"])
    problem(gateway.body(path, b"[]", type_, **parameters), 400, "bad_request")


SKIPPABLE = b"\x50\x2a\x4d\x18" + bytes(4)
COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd}


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


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        ("id,name", ("id", "name")),
        (" id , name ", ("id", "name")),
        ('id,"a,b"', ("id", "a,b")),
        ('id, "a,b", "say ""x"""', ("id", "a,b", 'say "x"')),
        (None, ()),
    ],
)
def test_columns_are_names_between_commas_one_with_a_comma_in_quotes(
    given: str | None, columns: tuple[str, ...]
) -> None:
    parameters = CsvParameters.model_validate({"mode": "snapshot", "columns": given})
    assert parameters.layout.columns == columns


@pytest.mark.parametrize("names", ["a\rb", "a\nb", "x" * 140_000])
@pytest.mark.parametrize(
    ("read", "others", "parameter"),
    [
        (csv_query, "table=t&mode=snapshot&", "columns"),
        (debezium_query, "", "key_columns"),
        (debezium_query, "", "unavailable"),
    ],
)
def test_names_that_cannot_be_read_are_rejected(
    read: Callable[[bytes], Any], others: str, parameter: str, names: str
) -> None:
    with rejected(Code.BAD_REQUEST) as rejection:
        read(f"{others}{parameter}={quote(names)}".encode())
    assert parameter in rejection.detail
