"""What both writers share: their options, the texts of rows, and the meaning of answers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar
from uuid import uuid4

from app.client.http import RejectedByGateway
from app.client.request_names import KeyedRequests
from app.client.retrying import OnWait
from app.client.writer.core import BufferLimits, WriterCore
from app.client.writer.outcome import Accepted, RejectedRow
from app.client.writer.row_encoding import as_row, encode_change, encode_row, in_one_line
from app.errors import Code, RejectedInput

Client = TypeVar("Client")
Row = TypeVar("Row")

GIVE_UP_AFTER_SECONDS: Final = 120.0


class WriterBase(ABC, Generic[Client, Row]):
    """The options of a writer, and its queue."""

    def __init__(
        self,
        client: Client,
        *,
        table: str | None = None,
        source_format: str = "rows",
        parameters: Mapping[str, str] | None = None,
        producer: str | None = None,
        limits: BufferLimits | None = None,
        give_up_after: float | None = GIVE_UP_AFTER_SECONDS,
        encode: Callable[[Row], bytes] = encode_row,
        on_accepted: Callable[[Accepted], None] | None = None,
        on_rejected: Callable[[RejectedRow], None] | None = None,
        on_wait: OnWait | None = None,
    ) -> None:
        """Begin to write through a gateway. Raises RejectedInput `bad_request` for rows without a table.

        - `table`: the table of all rows or messages. `source_format`: `rows`, `arcion`, `replicate` or `debezium`.
          `parameters`: other query parameters of the endpoint.
        - `producer`: the name under which requests are numbered. The gateway then keeps the last `position` that was
          given to `write`, and a restarted program continues after it. One process at a time may use a name.
        - `limits`: when a request is sent, and how much may wait.
        - `give_up_after`: seconds to repeat a request while the gateway is away or busy; None: for ever.
        - `encode`: a function that writes a row as a JSON object.
        - `on_accepted`: called with each durable request. `on_wait`: called before each pause, with its seconds and
          reason.
        - `on_rejected`: called with each rejected row, which is then left out. Without it the writer stops.

        The functions are called where requests are sent, and what they raise stops the writer.
        """
        if source_format == "rows" and not table:
            raise RejectedInput(Code.BAD_REQUEST, "a writer of rows needs a table", remedy="Give `table`.")
        given = {**({"table": table} if table else {}), **(parameters or {})}
        self._client = client
        self._core = WriterCore(source_format, given, limits or BufferLimits(), hands_over=on_rejected is not None)
        self._takes_rows = source_format == "rows"
        self._producer = producer
        self._give_up_after = give_up_after
        self._encode = encode
        self._on_accepted = on_accepted
        self._on_rejected = on_rejected
        self._on_wait: OnWait = on_wait or (lambda _, __: None)
        self._failure: BaseException | None = None
        self._is_closed = False
        self._start()

    @property
    @abstractmethod
    def position(self) -> str | None:
        """The last durable position; None before the first one, and without a producer."""

    @property
    def unsent(self) -> int:
        """How many rows were written and are not known to be durable; rows that were handed over do not count."""
        return self._core.written - self._core.settled

    @abstractmethod
    def _start(self) -> None:
        """Prepare to send."""

    def _row_text(self, row: Row, op: str | None) -> bytes:
        if not self._takes_rows:
            raise RejectedInput(
                Code.BAD_REQUEST, "this writer posts messages of a tool, not rows", remedy="Use `write_change`."
            )
        body = self._encode(row)
        return as_row(body if self._encode is encode_row else in_one_line(body), op)

    def _message_text(self, message: Mapping[str, Any] | bytes | str) -> bytes:
        return encode_change(message)

    def _check_usable(self) -> None:
        """Raise what stopped the writer, or RejectedInput after its end."""
        self._check_works()
        if self._is_closed:
            raise closed()

    def _check_works(self) -> None:
        """Raise what stopped the writer."""
        if self._failure is not None:
            raise self._failure

    def _meaning_of(self, answer: Mapping[str, Any] | RejectedByGateway) -> Accepted | Sequence[RejectedRow]:
        """Return what an answer means for the open request. Raises the error that stops the writer."""
        return self._core.reject(answer) if isinstance(answer, RejectedByGateway) else self._core.accept(answer)

    def _report(self, outcome: Accepted | Sequence[RejectedRow]) -> None:
        """Call the functions that the caller gave."""
        if isinstance(outcome, Accepted):
            if self._on_accepted is not None:
                self._on_accepted(outcome)
        elif self._on_rejected is not None:
            for row in outcome:
                self._on_rejected(row)


def closed() -> RejectedInput:
    """Return the error of a call after the end."""
    return RejectedInput(Code.BAD_REQUEST, "the writer is closed", remedy="Open another one.")


def keyed_requests() -> KeyedRequests:
    """Return names for the requests of a writer without a producer."""
    return KeyedRequests(lambda: uuid4().hex)
