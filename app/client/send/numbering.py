"""Number the requests of a producer, continuing exactly where an earlier run ended.

The last request in the journal is cut at the same positions and sent again under its number. The gateway keeps a
fingerprint for each number. It answers that the request was durable, accepts it now, or rejects changed content.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.client.chunking.chunks import Chunk
from app.client.http import RejectedByGateway
from app.client.send.folder import FileState
from app.client.send.journal import Finished, Journal, Started
from app.errors import Code, RejectedInput

STANDARD_INPUT: Final = "-"


@dataclass(frozen=True, slots=True)
class Start:
    """Where to start in a file. `first_end` is the position where an earlier run ended the first request."""

    skip: int = 0
    first_end: int | None = None
    is_done: bool = False


FROM_THE_START: Final = Start()


class Numbering:
    """Gives each request its number. `durable` is the gateway's last number at the start of the run.

    Raises RejectedInput `producer_gap` if the journal and the gateway contradict each other.
    """

    is_numbered = True

    def __init__(self, journal: Journal, producer: str, durable: int) -> None:
        self.producer = producer
        self._journal = journal
        self._durable_at_start = durable
        self._file = ""
        started = 0 if journal.last is None else journal.last.number
        if durable not in (started, started - 1):
            detail = (
                f"{durable} requests of the producer {producer} are durable, and {journal.path} records {started}"
                if durable > started
                else f"{journal.path} records {started} requests, and {durable} of the producer {producer} are durable"
            )
            remedy = (
                "Use the --state-dir, --key and gateway that the producer started with. If a backup was restored or "
                "the journal is lost, start a new --producer with the --from-message to send next."
            )
            raise RejectedInput(Code.PRODUCER_GAP, detail, remedy=remedy)
        self._next = durable + 1

    @property
    def durable(self) -> int:
        """The last number known to be durable."""
        return self._next - 1

    def start(self, file: str, state: FileState | None, exists: Callable[[str], bool], skip: int = 0) -> Start:
        """Return where to start in a file. `state` is None for a stream without a file.

        Raises RejectedInput `bad_request` for a file that changed after it was sent, or while another file that still
        exists is only partly sent.
        """
        self._file = file
        journal, last = self._journal, self._journal.last
        if file == STANDARD_INPUT and file in journal.finished:
            journal.forget(file)
        if (finished := journal.finished.get(file)) is not None:
            if state != FileState(finished.size, finished.modified):
                raise _changed(file, finished)
            return Start(finished.messages, is_done=True)
        if (unfinished := journal.unfinished) and unfinished != file and exists(unfinished):
            detail = f"{unfinished} is only partly sent and must be completed first"
            remedy = f"Send it with the same --producer {self.producer}, or move it away to skip the rest of it."
            raise RejectedInput(Code.BAD_REQUEST, detail, remedy=remedy)
        if unfinished != file or last is None:
            return Start(skip)
        if skip:
            detail = f"the producer {self.producer} has already sent the messages of {file} before {last.first}"
            raise RejectedInput(
                Code.BAD_REQUEST, detail, remedy="Leave --from-message out: the command continues where it ended."
            )
        self._next = last.number
        return Start(last.first, last.end)

    def begin(self, chunk: Chunk) -> Mapping[str, str]:
        """Record the next request, which sends this chunk, in the journal; return its headers."""
        self._journal.start(Started(self._next, self._file, chunk.first, chunk.after, chunk.end))
        return {"Mirrorgate-Producer": self.producer, "Mirrorgate-Producer-Sequence": str(self._next)}

    def accepted(self) -> None:
        """Note that the last request is durable."""
        self._next += 1

    def finish(self, state: FileState | None, messages: int) -> None:
        """Record that all messages of the file are durable."""
        state = state or FileState(0, 0)
        self._journal.finish(Finished(self._file, state.size, state.modified, messages))

    def accept_expired_receipt(self, post: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the answer of `post`; an empty one if the request was durable before and its receipt has expired."""
        try:
            return post()
        except RejectedByGateway as error:
            if error.code is not Code.RECEIPT_EXPIRED or self._next != self._durable_at_start:
                raise
            return {"receipts": [], "ignored": 0, "duplicates": 0, "replayed": True}


def _changed(file: str, finished: Finished) -> RejectedInput:
    detail = (
        f"{file} was sent completely, {finished.messages} messages and {finished.size} bytes, and has changed since"
    )
    remedy = (
        "A file is sent once, when it is complete: give new content its own file name. To send what was added to this "
        f"file, use --from-message {finished.messages} without --producer."
    )
    return RejectedInput(Code.BAD_REQUEST, detail, remedy=remedy)
