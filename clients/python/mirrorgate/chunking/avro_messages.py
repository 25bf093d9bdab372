"""Cut files of Replicate's messages: envelopes in Avro, which begin with `atMSG`, or JSON.

Only the lengths in an envelope are read. What is wrong inside its message remains in the body, and the gateway reports
it.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from mirrorgate.avro_envelope import MAGIC, Incomplete, read_envelope, skip_breaks
from mirrorgate.chunking.chunks import Chunk, Extent, Frame, Limits, StreamBuffer, group_into_chunks
from mirrorgate.chunking.json_messages import split_json
from mirrorgate.errors import Code, RejectedInput


def split_replicate(blocks: Iterable[bytes], limits: Limits, skip: int = 0) -> Iterator[Chunk]:
    """Yield the chunks of a stream of envelopes or of JSON, without its first `skip` messages."""
    rest, head = iter(blocks), b""
    while len(head.lstrip(b"\r\n")) < len(MAGIC) and (block := next(rest, b"")):
        head += block
    stream = chain([head], rest)
    if not head.lstrip(b"\r\n").startswith(MAGIC):
        yield from split_json(stream, limits, skip)
        return
    buffer = StreamBuffer(stream, limits.max_message_bytes)
    yield from group_into_chunks(_envelopes(buffer), buffer, limits, skip, Frame(b"", b""))


def is_avro(body: bytes) -> bool:
    """Return True if a body that was cut here has envelopes."""
    return body.startswith(MAGIC)


def _envelopes(buffer: StreamBuffer) -> Iterator[Extent]:
    at = 0
    while True:
        at = skip_breaks(buffer.data, at - buffer.start) + buffer.start
        if at == buffer.end:
            if not buffer.read_more(at):
                return
            continue
        try:
            _, place = read_envelope(buffer.data, at - buffer.start)
        except Incomplete:
            if buffer.read_more(at):
                continue
            raise _malformed(at, "the file ends before it does") from None
        except ValueError as error:
            raise _malformed(at, str(error)) from None
        end = place + buffer.start
        yield Extent(at, end, 1)
        at = end


def _malformed(at: int, reason: str) -> RejectedInput:
    detail = f"the message that starts at byte {at} is not an envelope of Replicate: {reason}"
    return RejectedInput(Code.MALFORMED_AVRO, detail, remedy="Check whether the file was cut off.")
