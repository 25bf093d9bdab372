"""Post streams of changes to a gateway, request by request; each is durable before the next one is sent.

Each request carries an idempotency key or a producer's number, so that a request whose answer was lost can be repeated
and lands once.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol
from uuid import uuid4

from app.client.chunking.chunks import Chunk, Limits, Splitter, positions_of
from app.client.retrying import OnWait, Pause, call_with_retries, is_final, may_have_been_accepted
from app.client.send.decompress import decompress
from app.client.send.numbering import FROM_THE_START, Start
from app.client.send.progress import Progress
from app.errors import Code, MirrorgateError, RejectedInput

BLOCK_BYTES: Final = 2**18
_BYTE_OR_LINE: Final = re.compile(r"\b(byte|line) (\d+)")
_LINE_PREFIX: Final = re.compile(r"^line \d+: ")
_SMALLER: Final = {
    Code.BODY_TOO_LARGE: "Give a smaller --max-bytes.",
    Code.TOO_MANY_MESSAGES: "Give a smaller --batch.",
    Code.TOO_MANY_NESTED_VALUES: "Give a smaller --batch.",
}


class SendFailed(MirrorgateError):
    """A stream was not sent completely. `errors` name messages by their index in the stream."""

    def __init__(self, cause: MirrorgateError, detail: str, *, remedy: str, errors: list[dict[str, Any]]) -> None:
        super().__init__(cause.code, detail, remedy=remedy)
        self.errors = errors
        self.gave_up: bool = (
            cause.gave_up
            if isinstance(cause, SendFailed)
            else not isinstance(cause, RejectedInput) and not is_final(cause)
        )
        """The gateway did not reject the request: it was unreachable, busy, or did not answer in time."""

    @property
    def exit_status(self) -> int:
        """Exit status of the command: 1 for a rejection, 3 if another try later may succeed."""
        return 3 if self.gave_up else 1


class RequestNames(Protocol):
    """Names each request, so that the gateway recognizes a repetition."""

    is_numbered: bool
    """True if the same command continues by itself where it ended."""

    def begin(self, chunk: Chunk) -> Mapping[str, str]:
        """Return the headers for the next request, which sends this chunk."""

    def accepted(self) -> None:
        """Note that the last request is durable."""


class RandomKeys:
    """Gives each request a random idempotency key, which no later run knows."""

    is_numbered = False

    def begin(self, chunk: Chunk) -> Mapping[str, str]:
        """Return the headers for the next request, which sends this chunk."""
        return {"Idempotency-Key": uuid4().hex}

    def accepted(self) -> None:
        """Do nothing: nothing is remembered."""


@dataclass
class Sender:
    """Sends streams one after the other. `post` sends a body with the headers that name the request."""

    post: Callable[[bytes, Mapping[str, str]], Mapping[str, Any]]
    split: Splitter
    give_up_after: float
    """Seconds to retry a request that the gateway cannot accept yet."""
    pause: Pause
    on_accepted: Callable[[Progress], None] = lambda _: None
    on_retry: OnWait = lambda _, __: None
    names: RequestNames = field(default_factory=RandomKeys)
    progress: Progress = field(default_factory=Progress)
    """What was sent so far; up to date at any time."""

    def send(
        self, blocks: Iterable[bytes], limits: Limits, start: Start = FROM_THE_START, *, may_be_empty: bool = False
    ) -> None:
        """Send a stream from `start` on.

        Raises SendFailed. What `progress` counts by then stays accepted.
        """
        self.progress.begin(start.skip)
        is_repeated = start.first_end is not None
        try:
            for chunk in self.split(decompress(blocks), replace(limits, first_end=start.first_end), start.skip):
                self._send(chunk, is_repeated=is_repeated)
                is_repeated = False
            if not self.progress.next_message and not may_be_empty:
                raise RejectedInput(Code.EMPTY_REQUEST, "the file holds no message")
        except RejectedInput as error:
            raise SendFailed(error, error.detail, remedy=self._and_resume(error.remedy), errors=[]) from error
        self.progress.files += 1

    def _send(self, chunk: Chunk, *, is_repeated: bool) -> None:
        headers = self.names.begin(chunk)
        try:
            answer = call_with_retries(
                lambda: self._post(chunk, headers), self.give_up_after, self.pause, self.on_retry
            )
        except MirrorgateError as error:
            raise (self._unanswered if self.progress.in_doubt else self._rejected)(error, chunk) from error
        self.names.accepted()
        self.progress.record(chunk, answer, is_earlier=is_repeated and answer["replayed"])
        self.on_accepted(self.progress)

    def _post(self, chunk: Chunk, headers: Mapping[str, str]) -> Mapping[str, Any]:
        earlier, self.progress.in_doubt = self.progress.in_doubt, (chunk.first, chunk.after - 1)
        try:
            return self.post(chunk.body, headers)
        except MirrorgateError as error:
            if is_final(error):  # no earlier try was accepted either: the gateway would have repeated its answer
                self.progress.in_doubt = None
            elif not may_have_been_accepted(error):
                self.progress.in_doubt = earlier
            raise

    def _rejected(self, error: MirrorgateError, chunk: Chunk) -> SendFailed:
        problems = getattr(error, "errors", [])
        positions = positions_of(chunk, {problem["index"] for problem in problems if "index" in problem}, self.split)
        errors = []
        for problem in problems:
            detail = _positions_in_stream(problem["detail"], chunk)
            if position := positions.get(problem.get("index", -1)):
                detail = f"byte {position.byte}, line {position.line}: {_LINE_PREFIX.sub('', detail)}"
                problem = problem | {"index": position.message, "byte": position.byte, "line": position.line}
            errors.append(problem | {"detail": detail})
        detail = errors[0]["detail"] if errors else _positions_in_stream(error.detail, chunk)
        return SendFailed(error, detail, remedy=self._and_resume(self._remedy(error, chunk)), errors=errors)

    def _remedy(self, error: MirrorgateError, chunk: Chunk) -> str:
        if error.code is Code.PRODUCER_SEQUENCE_REUSED and self.names.is_numbered:
            return (
                f"Messages {chunk.first} to {chunk.after - 1} were sent before with other content, another --table or "
                "other options. Give the same file and options, or a new --producer with --from-message "
                f"{chunk.after}."
            )
        return _SMALLER.get(error.code, error.remedy)

    def _and_resume(self, remedy: str) -> str:
        start = self.progress.next_message
        if self.names.is_numbered:
            return f"{remedy} The same command then continues with message {start}."
        return f"{remedy} Then send the rest with --from-message {start}." if start else remedy

    def _unanswered(self, error: MirrorgateError, chunk: Chunk) -> SendFailed:
        detail = f"{error.detail}; messages {chunk.first} to {chunk.after - 1} may have been accepted"
        remedy = (
            "Run the same command again: it finds out whether they were accepted, and continues."
            if self.names.is_numbered
            else "Compare last_sequence in `mirrorgate status --json` with the last sequence here: if it has grown, "
            f"continue with --from-message {chunk.after}, else with --from-message {chunk.first}."
        )
        return SendFailed(error, detail, remedy=remedy, errors=[])


def _positions_in_stream(detail: str, chunk: Chunk) -> str:
    """Replace positions counted from the start of the request by positions in the stream."""

    def moved(match: re.Match[str]) -> str:
        position = int(match[2])
        return f"{match[1]} {chunk.byte_in_stream(position) if match[1] == 'byte' else chunk.line_in_stream(position)}"

    return _BYTE_OR_LINE.sub(moved, detail)
