"""The content of a file: decompressed, hashed, cut into requests, and continued in its middle if it is unchanged.

A mark is the position in the files of one producer, as the text that the gateway keeps with the data. It is JSON of at
most 256 ASCII characters; a long key is cut and completed by its hash. Invariant: a mark and a listing are all that
decides what is read next, so any process can continue.
"""

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Protocol, Self, TypeVar

import zstandard

from mirrorgate.chunking.chunks import Chunk, Limits, Splitter, positions_of
from mirrorgate.errors import Code, Misconfigured, RejectedInput

MAX_CHARACTERS: Final = 256
CHANGED_REMEDY: Final = "Restore the part that was sent, or delete the file to continue with the next one."
_BYTE_OR_LINE: Final = re.compile(r"\b(byte|line) (\d+)")
_LINE_PREFIX: Final = re.compile(r"^line \d+: ")
_DIGEST: Final = 16
_KEY_HASH: Final = 24

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
"""Magic numbers of zstd's skippable frames, which some programs put before, between and after the others."""
_MAX_MAGIC_BYTES: Final = 4
_PIECE_BYTES: Final = 2**10
"""Compressed bytes per step. They decompress to at most 44 MB with zstd and 1 MB with gzip."""
_BLOCK_BYTES: Final = 2**18
_MAX_WINDOW_BYTES: Final = 2**27
"""Maximum memory that a zstd frame may request; `zstd --long` requests this much."""

Piece = TypeVar("Piece")


class _Decompressor(Protocol):
    """Decompressor of one gzip member or one zstd frame."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def digest_of(text: str | bytes, digits: int = _DIGEST) -> str:
    """Return the short hash by which contents, ETags and keys are compared."""
    return sha256(text.encode(errors="surrogatepass") if isinstance(text, str) else text).hexdigest()[:digits]


@dataclass(frozen=True, slots=True)
class Mark:
    """The last object of which something is durable. `next_message` is None if all of it is."""

    key: str
    etag: str
    """Hash of the object's ETag."""
    newest: int
    """The latest modification time of the objects read so far, in milliseconds since 1970."""
    next_message: int | None = None
    end: int = 0
    """The byte of the decompressed object after the durable messages."""
    content: str = ""
    """Hash of the decompressed object before `end`: the rest is only read if it is unchanged."""
    key_hash: str | None = None
    """Hash of the whole key if `key` is only its beginning."""

    def encoded(self) -> str:
        """Return the mark as a position."""
        fields: dict[str, Any] = {"o": self.key, "e": self.etag, "t": self.newest}
        if self.next_message is not None:
            fields |= {"n": self.next_message, "b": self.end, "p": self.content}
        text = _compact(fields)
        if len(text) <= MAX_CHARACTERS:
            return text
        fields["h"] = digest_of(self.key, _KEY_HASH)
        key = self.key[:MAX_CHARACTERS]
        while len(text) > MAX_CHARACTERS:
            key = key[:-1]
            text = _compact(fields | {"o": key})
        return text

    @classmethod
    def decoded(cls, text: str) -> Self:
        """Read a position. Raises Misconfigured `producer_shared` for one that is not a mark."""
        try:
            fields = json.loads(text)
            return cls(
                str(fields["o"]),
                str(fields["e"]),
                int(fields["t"]),
                int(fields["n"]) if "n" in fields else None,
                int(fields.get("b", 0)),
                str(fields.get("p", "")),
                fields.get("h"),
            )
        except (ValueError, KeyError, TypeError) as error:
            detail = (
                "the position that the gateway keeps for this producer was not written by a program that reads files"
            )
            remedy = "Another program used the producer's name: give this one another name."
            raise Misconfigured(Code.PRODUCER_SHARED, detail, remedy=remedy) from error

    def is_of(self, key: str) -> bool:
        """Return whether the mark is at this object."""
        if self.key_hash is None:
            return key == self.key
        return key.startswith(self.key) and digest_of(key, _KEY_HASH) == self.key_hash


def stored_mark(producer: str, sequence: int, position: str | None) -> Mark | None:
    """Return the mark of a producer as the gateway keeps it, None before its first request.

    Raises Misconfigured `producer_shared` if another program has sent requests under its name.
    """
    if position is not None:
        return Mark.decoded(position)
    if sequence:
        detail = f"the producer {producer} has sent requests without a position"
        remedy = "Another program uses its name: give this one another name."
        raise Misconfigured(Code.PRODUCER_SHARED, detail, remedy=remedy)
    return None


def _compact(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":"))


class HashedStream:
    """Hash of the decompressed bytes of an object up to positions that only grow.

    What is before `known_end` is hashed as it is read, so that a large part that was sent takes no memory.
    """

    def __init__(self, blocks: Iterable[bytes], known_end: int = 0) -> None:
        self._blocks = blocks
        self._known_end = known_end
        self._hash = sha256()
        self._hashed = 0
        self._ahead = bytearray()

    def __iter__(self) -> Iterator[bytes]:
        for block in decompress(self._blocks):
            self._ahead += block
            if self._hashed < self._known_end:
                self._advance(min(self._known_end, self._hashed + len(self._ahead)))
            yield block

    def digest_at(self, end: int) -> str:
        """Return the hash of the content before `end`, which was read already; another string if it is shorter."""
        if end > self._hashed + len(self._ahead):
            return "too short"
        self._advance(end)
        return self._hash.hexdigest()[:16]

    def _advance(self, end: int) -> None:
        count = end - self._hashed
        with memoryview(self._ahead) as ahead:
            self._hash.update(ahead[:count])
        del self._ahead[:count]
        self._hashed = end


class Cutter(Protocol):
    """Cuts the content of files into requests."""

    def chunks(
        self, blocks: Iterable[bytes], limits: Limits, skip: int, mark: Mark | None = None
    ) -> Iterator[tuple[Chunk, str]]:
        """Yield the chunks of a file after its first `skip` messages, each with a hash that resuming checks.

        With a `mark` that is in this file, the chunks after it. Raises RejectedInput, also `source_position_lost` if
        what was sent has changed.
        """

    def located(self, chunk: Chunk, problems: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the problems of a chunk with the place of each in the file."""


@dataclass(frozen=True, slots=True)
class StreamCutter:
    """Cuts a stream of messages. The hash is that of the content before the chunk's end."""

    split: Splitter

    def chunks(
        self, blocks: Iterable[bytes], limits: Limits, skip: int, mark: Mark | None = None
    ) -> Iterator[tuple[Chunk, str]]:
        """Yield the chunks of a file after its first `skip` messages or after `mark`, as Cutter says."""
        stream = HashedStream(blocks, 0 if mark is None else mark.end)
        is_checked = mark is None
        for chunk in self.split(stream, limits, skip if mark is None else mark.next_message or 0):
            if mark is not None and not is_checked:
                check_unchanged(stream.digest_at(mark.end), mark)
                is_checked = True
            yield chunk, stream.digest_at(chunk.end)
        if mark is not None and not is_checked:
            check_unchanged(stream.digest_at(mark.end), mark)

    def located(self, chunk: Chunk, problems: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the problems of a chunk with the byte and line of each in the decompressed file."""
        positions = positions_of(chunk, {problem["index"] for problem in problems if "index" in problem}, self.split)
        found = []
        for problem in problems:
            detail = in_stream(problem["detail"], chunk)
            place: dict[str, int] = {}
            if position := positions.get(problem.get("index", -1)):
                detail = f"byte {position.byte}, line {position.line}: {_LINE_PREFIX.sub('', detail)}"
                place = {"index": position.message, "byte": position.byte, "line": position.line}
            found.append({**problem, **place, "detail": detail})
        return found


def in_stream(detail: str, chunk: Chunk) -> str:
    """Replace positions counted from the start of the request by positions in the stream."""

    def moved(match: re.Match[str]) -> str:
        position = int(match[2])
        return f"{match[1]} {chunk.byte_in_stream(position) if match[1] == 'byte' else chunk.line_in_stream(position)}"

    return _BYTE_OR_LINE.sub(moved, detail)


def check_unchanged(content: str, mark: Mark) -> None:
    """Raise RejectedInput `source_position_lost` if the part of an object that was sent is not what it was."""
    if content != mark.content:
        detail = f"it has changed in its first {mark.next_message} messages, which were sent before"
        raise RejectedInput(Code.SOURCE_POSITION_LOST, detail, remedy=CHANGED_REMEDY)


def with_lookahead(pieces: Iterator[Piece]) -> Iterator[tuple[Piece, bool]]:
    """Yield each piece, and whether it is the last one. A RejectedInput follows the piece before it."""
    previous: Piece | None = None
    try:
        for piece in pieces:
            if previous is not None:
                yield previous, False
            previous = piece
    except RejectedInput:
        if previous is not None:
            yield previous, False
        raise
    if previous is not None:
        yield previous, True


def decompress(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the blocks of a stream, decompressed if it is compressed by gzip or zstd: all of its members or frames.

    The first bytes tell. Input is decompressed in small pieces, so that a file with an extreme compression ratio cannot
    fill the memory.

    Raises RejectedInput `bad_encoding` for a damaged or truncated stream, after yielding the bytes before the damage.
    """
    stream = iter(blocks)
    start = b""
    for block in stream:
        start += block
        if len(start) >= _MAX_MAGIC_BYTES:
            break
    if start.startswith(_GZIP):
        return _decompress_with("gzip", lambda: zlib.decompressobj(wbits=31), start, stream)
    if start.startswith((_ZSTD, *_SKIPPABLE)):
        return _decompress_with(
            "zstd", lambda: zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj(), start, stream
        )
    return _following(start, stream)


def _following(start: bytes, stream: Iterator[bytes]) -> Iterator[bytes]:
    if start:
        yield start
    yield from stream


def _decompress_with(
    name: str, begin: Callable[[], _Decompressor], start: bytes, stream: Iterator[bytes]
) -> Iterator[bytes]:
    decompressor, read, ready = begin(), 0, b""
    within = False
    for block in _following(start, stream):
        position = 0
        while position < len(block):
            if decompressor.eof:
                decompressor, within = begin(), False
            piece = block[position : position + _PIECE_BYTES]
            try:
                ready += decompressor.decompress(piece)
            except (zlib.error, zstandard.ZstdError) as error:
                if ready:
                    yield ready
                raise _damaged(name, read + position) from error
            position += len(piece) - len(decompressor.unused_data)
            within = True
            if len(ready) >= _BLOCK_BYTES:
                yield ready
                ready = b""
        read += len(block)
        if ready:
            yield ready
            ready = b""
    if within and not decompressor.eof:
        detail = f"the {name} stream ends in the middle of its data, after {read} compressed bytes"
        raise RejectedInput(
            Code.BAD_ENCODING, detail, remedy="Check whether the file was truncated, and get the complete file."
        )


def _damaged(name: str, position: int) -> RejectedInput:
    detail = f"the {name} stream is damaged within {_PIECE_BYTES} bytes of its compressed byte {position}"
    return RejectedInput(Code.BAD_ENCODING, detail, remedy=f"Check it with `{name} -t`, and get the file again.")
