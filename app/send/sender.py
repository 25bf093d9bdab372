"""Posting a stream of changes to a gateway, request after request, each durable before the next begins.

Each has an idempotency key of its own, so that one whose answer was lost can be repeated and lands once.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from uuid import uuid4

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_before_delay, wait_random_exponential

from app.client import AnswerLost, RefusedByGateway
from app.errors import Code, MirrorgateError, RejectedInput, TemporarilyUnavailable
from app.splitting.parts import Limits, Part, Splitter, places_of

CHUNK_BYTES: Final = 2**18
_COMPRESSED: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_PASSING: Final = frozenset({408, 429, 502, 503, 504})
_BYTE_OR_LINE: Final = re.compile(r"\b(byte|line) (\d+)")
_LINE_PREFIX: Final = re.compile(r"^line \d+: ")

_SMALLER: Final = {
    Code.BODY_TOO_LARGE: "Give a smaller --max-bytes.",
    Code.TOO_MANY_MESSAGES: "Give a smaller --batch.",
}

Pause: TypeAlias = Callable[[float], None]


class NotSent(MirrorgateError):
    """The stream could not be sent to its end; `errors` name messages by their index in the stream."""

    def __init__(self, cause: MirrorgateError, detail: str, *, remedy: str, errors: list[dict[str, Any]]) -> None:
        super().__init__(cause.code, detail, remedy=remedy)
        self.errors = errors


@dataclass
class SentTable:
    """What one table has taken."""

    generation: int
    last_sequence: int
    changes: int = 0
    rows: int = 0


@dataclass
class Sent:
    """How far the sending has come. Everything before `next_message` was accepted or left out."""

    next_message: int = 0
    requests: int = 0
    changes: int = 0
    ignored: int = 0
    duplicates: int = 0
    bytes: int = 0
    """How much of the stream is done."""
    tables: dict[str, SentTable] = field(default_factory=dict)
    in_doubt: tuple[int, int] | None = None
    """First and last message of a request that was begun and whose answer never came."""

    def record(self, part: Part, answer: Mapping[str, Any]) -> None:
        self.next_message, self.bytes, self.in_doubt = part.after, part.end, None
        self.requests += 1
        self.ignored += answer["ignored"]
        self.duplicates += answer["duplicates"]
        for receipt in answer["receipts"]:
            self.changes += receipt["changes"]
            table = self.tables.setdefault(receipt["table"], SentTable(receipt["generation"], receipt["sequence"]))
            table.generation, table.last_sequence = receipt["generation"], receipt["sequence"]
            table.changes += receipt["changes"]
            table.rows += receipt["rows"]


@dataclass
class Sender:
    """Sends one stream. `post` gives the gateway's answer to a body under an idempotency key."""

    post: Callable[[bytes, str], Mapping[str, Any]]
    split: Splitter
    patience: float
    """Seconds after which a request that the gateway cannot take yet is given up."""
    pause: Pause
    on_accepted: Callable[[Sent], None] = lambda _: None
    on_wait: Callable[[MirrorgateError], None] = lambda _: None
    """Called before a pause, with what the request is repeated for."""
    sent: Sent = field(default_factory=Sent)
    """How far it has come, at any time."""

    def send(self, chunks: Iterable[bytes], limits: Limits, skip: int = 0) -> None:
        """Send all but the first `skip` messages. Raises NotSent; what `sent` holds by then stays accepted."""
        self.sent.next_message = skip
        try:
            for part in self.split(uncompressed(chunks), limits, skip):
                self._send(part)
            if not self.sent.requests and not skip:
                raise RejectedInput(Code.EMPTY_REQUEST, "the file holds no message")
        except RejectedInput as error:
            raise NotSent(error, error.detail, remedy=self._and_resume(error.remedy), errors=[]) from error

    def _send(self, part: Part) -> None:
        retrying = Retrying(
            retry=retry_if_exception(_may_be_repeated),
            wait=_wait,
            stop=stop_before_delay(self.patience),
            sleep=self.pause,
            before_sleep=lambda state: self.on_wait(_error_of(state)),
            reraise=True,
        )
        try:
            answer = retrying(self._post, part, uuid4().hex)
        except MirrorgateError as error:
            raise (self._lost if self.sent.in_doubt else self._refused)(error, part) from error
        self.sent.record(part, answer)
        self.on_accepted(self.sent)

    def _post(self, part: Part, key: str) -> Mapping[str, Any]:
        earlier, self.sent.in_doubt = self.sent.in_doubt, (part.first, part.after - 1)
        try:
            return self.post(part.body, key)
        except MirrorgateError as error:
            if _is_final(error):  # so was every earlier try, or this one would have got its answer
                self.sent.in_doubt = None
            elif not _may_have_been_accepted(error):
                self.sent.in_doubt = earlier
            raise

    def _refused(self, error: MirrorgateError, part: Part) -> NotSent:
        problems = getattr(error, "errors", [])
        places = places_of(part, {problem["index"] for problem in problems if "index" in problem}, self.split)
        errors = []
        for problem in problems:
            detail = _in_stream(problem["detail"], part)
            if place := places.get(problem.get("index", -1)):
                detail = f"byte {place.byte}, line {place.line}: {_LINE_PREFIX.sub('', detail)}"
                problem = problem | {"index": place.message, "byte": place.byte, "line": place.line}
            errors.append(problem | {"detail": detail})
        detail = errors[0]["detail"] if errors else _in_stream(error.detail, part)
        remedy = _SMALLER.get(error.code, error.remedy)
        return NotSent(error, detail, remedy=self._and_resume(remedy), errors=errors)

    def _and_resume(self, remedy: str) -> str:
        start = self.sent.next_message
        return f"{remedy} Then send the rest with --from-message {start}." if start else remedy

    def _lost(self, error: MirrorgateError, part: Part) -> NotSent:
        detail = f"{error.detail}; messages {part.first} to {part.after - 1} may have been accepted"
        remedy = (
            "Compare last_sequence in `mirrorgate status --json` with the last sequence here: if it has grown, go on "
            f"with --from-message {part.after}, else with --from-message {part.first}."
        )
        return NotSent(error, detail, remedy=remedy, errors=[])


def uncompressed(chunks: Iterable[bytes]) -> Iterable[bytes]:
    """The same chunks. Raises RejectedInput `bad_encoding` when they begin like a compressed file."""
    for number, chunk in enumerate(chunks):
        if number == 0:
            for magic, name in _COMPRESSED.items():
                if chunk.startswith(magic):
                    remedy = f"Expand it on the way: {name} -dc FILE | mirrorgate send - …"
                    raise RejectedInput(Code.BAD_ENCODING, f"the file is compressed with {name}", remedy=remedy)
        yield chunk


def _is_final(error: MirrorgateError) -> bool:
    """Whether the gateway has looked at the request and will not have it."""
    return isinstance(error, RefusedByGateway) and error.status < 500 and error.status not in _PASSING


def _may_have_been_accepted(error: MirrorgateError) -> bool:
    if isinstance(error, RefusedByGateway):
        return error.code is Code.COMMIT_UNKNOWN or error.status not in (408, 429, 503)
    return isinstance(error, AnswerLost)


def _may_be_repeated(error: BaseException) -> bool:
    if isinstance(error, RefusedByGateway):
        return error.status in _PASSING
    return isinstance(error, TemporarilyUnavailable)


_backoff: Final = wait_random_exponential(multiplier=0.25, max=10)


def _wait(state: RetryCallState) -> float:
    """What the gateway asks for, or longer: a random, growing time, so that many senders do not come back at once."""
    return max(float(getattr(_error_of(state), "retry_after", 0)), _backoff(state))


def _error_of(state: RetryCallState) -> MirrorgateError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, MirrorgateError)
    return error


def _in_stream(detail: str, part: Part) -> str:
    """The detail with its places, which the gateway counts from the start of the request, counted in the stream."""

    def moved(match: re.Match[str]) -> str:
        place = int(match[2])
        return f"{match[1]} {part.byte_in_stream(place) if match[1] == 'byte' else part.line_in_stream(place)}"

    return _BYTE_OR_LINE.sub(moved, detail)
