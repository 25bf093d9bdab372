"""Numbers of a producer for the requests of its files: going on exactly where an earlier run ended.

The last request of the journal is cut again where it was cut, and sent again under its number. The gateway, which
keeps what each number was, tells whether it was durable, or that the file is not what it was.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.client.chunking.parts import Part
from app.client.http import GatewayClient, RejectedByGateway
from app.client.send.journal import Begun, Finished, Journal
from app.errors import Code, RejectedInput

STANDARD_INPUT: Final = "-"


@dataclass(frozen=True, slots=True)
class FileState:
    """What tells whether a file is still the one that was sent."""

    size: int
    modified: int
    """Nanoseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where in a file to begin: `first_end` is where the first request ended in an earlier run."""

    skip: int = 0
    first_end: int | None = None
    is_done: bool = False


FROM_THE_START: Final = Start()


def durable_number(client: GatewayClient, producer: str) -> int:
    """The producer's last durable number, 0 for a producer that the gateway does not know."""
    try:
        return int(client.get(f"/v1/producers/{producer}")["sequence"])
    except RejectedByGateway as error:
        if error.code is not Code.UNKNOWN_PRODUCER:
            raise
        return 0


class Numbering:
    """Gives each request its number. `durable` is the gateway's last one at the start of this run.

    Raises RejectedInput `producer_gap` where the journal and the gateway cannot have the same past.
    """

    is_numbered = True

    def __init__(self, journal: Journal, producer: str, durable: int) -> None:
        self.producer = producer
        self._journal = journal
        self._durable_at_start = durable
        self._file = ""
        begun = 0 if journal.last is None else journal.last.number
        if durable not in (begun, begun - 1):
            detail = (
                f"{durable} requests of the producer {producer} are durable, and {journal.path} tells of {begun}"
                if durable > begun
                else f"{journal.path} tells of {begun} requests, and {durable} of the producer {producer} are durable"
            )
            remedy = (
                "Use the --state-dir, the --key and the gateway with which the producer began. After a restored backup "
                "or without that journal, begin a new --producer with the --from-message that is to be sent next."
            )
            raise RejectedInput(Code.PRODUCER_GAP, detail, remedy=remedy)
        self._next = durable + 1

    @property
    def durable(self) -> int:
        """The last number that is known to be durable."""
        return self._next - 1

    def start(self, file: str, state: FileState | None, exists: Callable[[str], bool], skip: int = 0) -> Start:
        """Where to begin with a file; `state` is None for a stream that has none.

        Raises RejectedInput `bad_request` for a file that was changed after it was sent, or while another one that
        still exists has not been sent to its end.
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
            detail = f"{unfinished} has not been sent to its end, and comes first"
            remedy = f"Send it with the same --producer {self.producer}, or move it away to leave the rest of it out."
            raise RejectedInput(Code.BAD_REQUEST, detail, remedy=remedy)
        if unfinished != file or last is None:
            return Start(skip)
        if skip:
            detail = f"the producer {self.producer} has sent the messages of {file} before {last.first}"
            raise RejectedInput(Code.BAD_REQUEST, detail, remedy="Leave --from-message out: it goes on where it ended.")
        self._next = last.number
        return Start(last.first, last.end)

    def begin(self, part: Part) -> Mapping[str, str]:
        """The headers of the request with this part, once the journal tells of it."""
        self._journal.begin(Begun(self._next, self._file, part.first, part.after, part.end))
        return {"Mirrorgate-Producer": self.producer, "Mirrorgate-Producer-Sequence": str(self._next)}

    def accepted(self) -> None:
        """The request that was begun last is durable."""
        self._next += 1

    def finish(self, state: FileState | None, messages: int) -> None:
        """All messages of the file are durable."""
        state = state or FileState(0, 0)
        self._journal.finish(Finished(self._file, state.size, state.modified, messages))

    def settled(self, post: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """The answer of `post`; where the gateway has forgotten that of a durable number, one that tells of nothing."""
        try:
            return post()
        except RejectedByGateway as error:
            if error.code is not Code.RECEIPT_EXPIRED or self._next != self._durable_at_start:
                raise
            return {"receipts": [], "ignored": 0, "duplicates": 0, "replayed": True}


def _changed(file: str, finished: Finished) -> RejectedInput:
    detail = (
        f"{file} was sent to its end, {finished.messages} messages and {finished.size} bytes, and changed after that"
    )
    remedy = (
        "A file is sent once, when it is complete: give new content a name of its own. What was added to this one can "
        f"be sent with --from-message {finished.messages} and without --producer."
    )
    return RejectedInput(Code.BAD_REQUEST, detail, remedy=remedy)
