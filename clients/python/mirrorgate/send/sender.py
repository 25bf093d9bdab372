"""Post files of changes to a gateway, request by request; each is durable before the next one is sent.

Each request carries an idempotency key or a producer's number, so that a request whose answer was lost can be repeated
and lands once.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from mirrorgate.chunking.chunks import Chunk, Limits
from mirrorgate.errors import Code, MirrorgateError, RejectedInput
from mirrorgate.file_content import Cutter, Mark, in_stream, with_lookahead
from mirrorgate.http import RejectedByGateway
from mirrorgate.producer import ChangeRequest, KeyedRequests, ProducerConflict, RequestNames
from mirrorgate.retrying import OnWait, Pause, call_with_retries, is_final, may_have_been_accepted
from mirrorgate.send.progress import Post, Progress

_SMALLER: Final = {
    Code.BODY_TOO_LARGE: "Give a smaller --max-bytes.",
    Code.TOO_MANY_MESSAGES: "Give a smaller --batch.",
    Code.TOO_MANY_NESTED_VALUES: "Give a smaller --batch.",
}


_ONE_PROCESS: Final = (
    "Let one process at a time send for a producer: end the other one and run the same command again, or give this one "
    "another --producer."
)
_SEND_AGAIN: Final = (
    "The database of the gateway is in an earlier state, as after a failover. Run the same command again: it continues "
    "after the last request that the gateway has."
)


class SendFailed(MirrorgateError):
    """A file was not sent completely. `errors` name messages by their index in the file."""

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


@dataclass
class Sender:
    """Sender of files one after the other. `post` sends a body with the headers that name the request."""

    post: Post
    cutter: Cutter
    give_up_after: float | None
    """Seconds to retry a request that the gateway cannot accept yet."""
    pause: Pause
    on_accepted: Callable[[Progress], None] = lambda _: None
    on_retry: OnWait = lambda _, __: None
    names: RequestNames = field(default_factory=lambda: KeyedRequests(lambda: uuid4().hex))
    position_of: Callable[[Chunk, str, bool], str] | None = None
    """Returns the position of a request by its chunk, the hash of the file before the chunk's end, and whether it is
    the last one of the file. With it, the same command continues by itself where it ended."""
    progress: Progress = field(default_factory=Progress)
    """Messages and bytes that were sent so far; up to date at any time."""

    def send(
        self,
        blocks: Iterable[bytes],
        limits: Limits,
        skip: int = 0,
        mark: Mark | None = None,
        *,
        may_be_empty: bool = False,
    ) -> None:
        """Send a file without its first `skip` messages, or what follows a `mark` that is in this file.

        Raises SendFailed. What `progress` counts by then remains accepted.
        """
        start = skip if mark is None else mark.next_message or 0
        self.progress.begin(start)
        chunks = self.cutter.chunks(blocks, limits, skip, mark)
        try:
            for (chunk, content), is_last in (
                with_lookahead(chunks) if self.position_of is not None else ((chunk, False) for chunk in chunks)
            ):
                self._send(chunk, content, is_last=is_last)
        except RejectedInput as error:
            raise SendFailed(error, error.detail, remedy=self._and_resume(error.remedy), errors=[]) from error
        if self.progress.next_message == start and not may_be_empty:
            detail, remedy = "the file holds no message", Code.EMPTY_REQUEST.remedy
            if start:
                detail += f" after the first {start:,}"
                remedy = "If they were accepted, nothing is left to send."
            raise SendFailed(RejectedInput(Code.EMPTY_REQUEST, detail), detail, remedy=remedy, errors=[])
        self.progress.files += 1

    def _send(self, chunk: Chunk, content: str, *, is_last: bool) -> None:
        position = None if self.position_of is None else self.position_of(chunk, content, is_last)
        request = ChangeRequest("", chunk.body, position=position)
        headers = self.names.headers(request)
        tries = 0

        def post() -> Mapping[str, Any]:
            nonlocal tries
            tries += 1
            return self._post(chunk, headers)

        try:
            answer = call_with_retries(post, self.give_up_after, self.pause, self.on_retry)
        except MirrorgateError as error:
            raise (self._unanswered if self.progress.in_doubt else self._rejected)(error, chunk) from error
        self.names.accepted(request)
        self.progress.record(chunk, answer, is_earlier=answer["replayed"] and tries == 1)
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
        meaning = self.names.meaning_of(error) if isinstance(error, RejectedByGateway) else error
        if isinstance(meaning, ProducerConflict):
            remedy = _SEND_AGAIN if meaning.code is Code.PRODUCER_GAP else _ONE_PROCESS
            return SendFailed(error, meaning.detail, remedy=remedy, errors=[])
        errors = self.cutter.located(chunk, getattr(error, "errors", []))
        detail = errors[0]["detail"] if errors else in_stream(error.detail, chunk)
        return SendFailed(error, detail, remedy=self._and_resume(_SMALLER.get(error.code, error.remedy)), errors=errors)

    def _and_resume(self, remedy: str) -> str:
        start = self.progress.next_message
        if self.position_of is not None:
            return f"{remedy} The same command then continues with message {start}."
        return f"{remedy} Then send the rest with --from-message {start}." if start else remedy

    def _unanswered(self, error: MirrorgateError, chunk: Chunk) -> SendFailed:
        detail = f"{error.detail}; messages {chunk.first} to {chunk.after - 1} may have been accepted"
        remedy = (
            "Run the same command again: it finds out whether they were accepted, and continues."
            if self.position_of is not None
            else "Compare last_sequence in `mirrorgate status --json` with the last sequence here: if it has grown, "
            f"continue with --from-message {chunk.after}, else with --from-message {chunk.first}."
        )
        return SendFailed(error, detail, remedy=remedy, errors=[])
