"""Posting streams of changes to a gateway, request after request, each durable before the next begins.

Each has a name of its own, an idempotency key or a producer's number, so that one whose answer was lost can be repeated
and lands once.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol
from uuid import uuid4

from app.client.chunking.parts import Limits, Part, Splitter, places_of
from app.client.send.expanding import expanded
from app.client.send.numbering import FROM_THE_START, Start
from app.client.send.retrying import Pause, is_final, may_have_been_accepted, patiently
from app.errors import Code, MirrorgateError, RejectedInput

CHUNK_BYTES: Final = 2**18
_BYTE_OR_LINE: Final = re.compile(r"\b(byte|line) (\d+)")
_LINE_PREFIX: Final = re.compile(r"^line \d+: ")
_SMALLER: Final = {
    Code.BODY_TOO_LARGE: "Give a smaller --max-bytes.",
    Code.TOO_MANY_MESSAGES: "Give a smaller --batch.",
    Code.TOO_MANY_NESTED_VALUES: "Give a smaller --batch.",
}


class NotSent(MirrorgateError):
    """A stream could not be sent to its end; `errors` name messages by their index in the stream."""

    def __init__(self, cause: MirrorgateError, detail: str, *, remedy: str, errors: list[dict[str, Any]]) -> None:
        super().__init__(cause.code, detail, remedy=remedy)
        self.errors = errors
        self.gave_up = not isinstance(cause, RejectedInput) and not is_final(cause)
        """The gateway has not rejected it: it was away, busy, or did not answer."""

    @property
    def exit_status(self) -> int:
        """Of the command line: a rejection needs another file, giving up only another time."""
        return 3 if self.gave_up else 1


class Names(Protocol):
    """Gives each request a name under which it may be repeated."""

    is_numbered: bool
    """Whether the same command goes on by itself where it ended."""

    def begin(self, part: Part) -> Mapping[str, str]:
        """The headers of the request with this part, which is sent after that."""

    def accepted(self) -> None:
        """The request that was begun last is durable."""


class RandomKeys:
    """An idempotency key for each request, which only this process knows."""

    is_numbered = False

    def begin(self, part: Part) -> Mapping[str, str]:
        return {"Idempotency-Key": uuid4().hex}

    def accepted(self) -> None:
        pass


@dataclass
class SentTable:
    """What one table has taken."""

    generation: int
    last_sequence: int
    changes: int = 0
    rows: int = 0


@dataclass
class Sent:
    """How far the sending has come. Everything before `next_message` of the stream was accepted or left out."""

    next_message: int = 0
    requests: int = 0
    changes: int = 0
    ignored: int = 0
    duplicates: int = 0
    repeated: int = 0
    """Requests that were durable before this run, and were found so."""
    bytes: int = 0
    """How much of the stream, expanded, is done."""
    files: int = 0
    """How many streams were sent to their end."""
    tables: dict[str, SentTable] = field(default_factory=dict)
    in_doubt: tuple[int, int] | None = None
    """First and last message of a request that was begun and whose answer never came."""

    def begin(self, skip: int) -> None:
        """A stream begins, without its first `skip` messages."""
        self.next_message, self.bytes, self.in_doubt = skip, 0, None

    def record(self, part: Part, answer: Mapping[str, Any], *, is_earlier: bool = False) -> None:
        """What was answered to a part; `is_earlier` if that was durable before this run."""
        self.next_message, self.bytes, self.in_doubt = part.after, part.end, None
        if is_earlier:
            self.repeated += 1
            return
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
    """Sends streams one after the other. `post` gives the gateway's answer to a body under the headers that name it."""

    post: Callable[[bytes, Mapping[str, str]], Mapping[str, Any]]
    split: Splitter
    patience: float
    """Seconds after which a request that the gateway cannot take yet is given up."""
    pause: Pause
    on_accepted: Callable[[Sent], None] = lambda _: None
    on_wait: Callable[[MirrorgateError], None] = lambda _: None
    """Called before a pause, with what the request is repeated for."""
    names: Names = field(default_factory=RandomKeys)
    sent: Sent = field(default_factory=Sent)
    """How far it has come, at any time."""

    def send(
        self, chunks: Iterable[bytes], limits: Limits, start: Start = FROM_THE_START, *, may_be_empty: bool = False
    ) -> None:
        """Send a stream from `start` on. Raises NotSent; what `sent` holds by then stays accepted."""
        self.sent.begin(start.skip)
        is_repeated = start.first_end is not None
        try:
            for part in self.split(expanded(chunks), replace(limits, first_end=start.first_end), start.skip):
                self._send(part, is_repeated=is_repeated)
                is_repeated = False
            if not self.sent.next_message and not may_be_empty:
                raise RejectedInput(Code.EMPTY_REQUEST, "the file holds no message")
        except RejectedInput as error:
            raise NotSent(error, error.detail, remedy=self._and_resume(error.remedy), errors=[]) from error
        self.sent.files += 1

    def _send(self, part: Part, *, is_repeated: bool) -> None:
        headers = self.names.begin(part)
        try:
            answer = patiently(lambda: self._post(part, headers), self.patience, self.pause, self.on_wait)
        except MirrorgateError as error:
            raise (self._lost if self.sent.in_doubt else self._rejected)(error, part) from error
        self.names.accepted()
        self.sent.record(part, answer, is_earlier=is_repeated and answer["replayed"])
        self.on_accepted(self.sent)

    def _post(self, part: Part, headers: Mapping[str, str]) -> Mapping[str, Any]:
        earlier, self.sent.in_doubt = self.sent.in_doubt, (part.first, part.after - 1)
        try:
            return self.post(part.body, headers)
        except MirrorgateError as error:
            if is_final(error):  # so was every earlier try, or this one would have got its answer
                self.sent.in_doubt = None
            elif not may_have_been_accepted(error):
                self.sent.in_doubt = earlier
            raise

    def _rejected(self, error: MirrorgateError, part: Part) -> NotSent:
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
        return NotSent(error, detail, remedy=self._and_resume(self._remedy(error, part)), errors=errors)

    def _remedy(self, error: MirrorgateError, part: Part) -> str:
        if error.code is Code.PRODUCER_SEQUENCE_REUSED and self.names.is_numbered:
            return (
                f"Messages {part.first} to {part.after - 1} were sent before with another content, or with another "
                "--table or other options: give the same file and options, or a new --producer with --from-message "
                f"{part.after}."
            )
        return _SMALLER.get(error.code, error.remedy)

    def _and_resume(self, remedy: str) -> str:
        start = self.sent.next_message
        if self.names.is_numbered:
            return f"{remedy} The same command then goes on with message {start}."
        return f"{remedy} Then send the rest with --from-message {start}." if start else remedy

    def _lost(self, error: MirrorgateError, part: Part) -> NotSent:
        detail = f"{error.detail}; messages {part.first} to {part.after - 1} may have been accepted"
        remedy = (
            "Run the same command again: it finds out whether they were, and goes on."
            if self.names.is_numbered
            else "Compare last_sequence in `mirrorgate status --json` with the last sequence here: if it has grown, go "
            f"on with --from-message {part.after}, else with --from-message {part.first}."
        )
        return NotSent(error, detail, remedy=remedy, errors=[])


def _in_stream(detail: str, part: Part) -> str:
    """The detail with its places, which the gateway counts from the start of the request, counted in the stream."""

    def moved(match: re.Match[str]) -> str:
        place = int(match[2])
        return f"{match[1]} {part.byte_in_stream(place) if match[1] == 'byte' else part.line_in_stream(place)}"

    return _BYTE_OR_LINE.sub(moved, detail)
