"""The writer of programs that block: a thread posts what other threads write, as lines of JSON.

JSON has no NaN, and msgspec writes it as null, which would land as NULL without an error. So a row with null in its
text is searched for such a number.
"""

import atexit
import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self
from uuid import uuid4

import msgspec

from mirrorgate.errors import Code, RejectedInput
from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.producer import ChangeRequest, KeyedRequests, Patience, Producer, RequestSender, Stopped
from mirrorgate.retrying import OnWait, is_final
from mirrorgate.writer.core import Accepted, BufferLimits, Receipt, RejectedRow, WriterCore

_encoder: Final = msgspec.json.Encoder()
_one_value: Final = msgspec.json.Decoder(msgspec.Raw)
_BYTES: Final = frozenset({bytes, bytearray, memoryview})


def encode_row(row: Any) -> bytes:
    r"""Return a row as a JSON object in one line.

    A row is a mapping, a dataclass, an attrs class or a msgspec Struct. Decimals, dates, times and UUIDs become
    strings. Bytes become `\x` and hexadecimal digits, which a binary column takes with any `binary_encoding`; in lists
    and mappings, base64. Raises RejectedInput `malformed_message` for anything else, and for NaN and infinity.
    """
    try:
        if isinstance(row, Mapping) and not isinstance(row, dict):  # such as a row of SQLAlchemy
            row = dict(row)
        fields = row if isinstance(row, dict) else msgspec.to_builtins(row, builtin_types=_BYTES)
        if isinstance(fields, dict) and not _BYTES.isdisjoint(map(type, fields.values())):
            row = {name: rf"\x{value.hex()}" if type(value) in _BYTES else value for name, value in fields.items()}
        body = _encoder.encode(row)
        if b"null" in body and _has_no_json(msgspec.to_builtins(row)):
            raise _malformed(
                "it has a number that is NaN or infinite", "Write None, or the string that the table accepts."
            )
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        reason = "a string has a lone surrogate" if isinstance(error, UnicodeError) else str(error)
        raise _malformed(reason, "Give values that JSON has, or `encode`, a function that writes a row.") from error
    return body


def as_row(body: bytes, operation: str | None) -> bytes:
    """Return an encoded row with its operation if there is one. Raises RejectedInput `malformed_message`."""
    if not body.startswith(b"{"):
        raise _malformed("it is not an object of values by column name", "Give a mapping, a dataclass or a Struct.")
    if operation is None:
        return body
    return b'{"__op__":%b%b' % (_encoder.encode(operation), body[1:] if body == b"{}" else b"," + body[1:])


def encode_change(message: Mapping[str, Any] | bytes | str) -> bytes:
    """Return a message of a tool in one line; strings remain as written. Raises RejectedInput."""
    if isinstance(message, str):
        message = message.encode(errors="surrogatepass")  # which `in_one_line` rejects
    return in_one_line(message) if isinstance(message, bytes) else encode_row(message)


def in_one_line(body: bytes) -> bytes:
    """Return one JSON value without line ends between its parts.

    Raises RejectedInput `malformed_message` for anything else: two values would be two messages of the request.
    """
    try:
        body.decode()
        _one_value.decode(body)
        return msgspec.json.format(body, indent=-1) if b"\n" in body or b"\r" in body else body.strip()
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise _malformed("it is not one JSON value", "Give one JSON value, in UTF-8.") from error


def _has_no_json(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_no_json, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_no_json, value))


def _malformed(reason: str, remedy: str) -> RejectedInput:
    return RejectedInput(Code.MALFORMED_MESSAGE, f"the row cannot be written as JSON: {reason}", remedy=remedy)


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Row = TypeVar("Row", default=Any)  # else each writer without `encode` needs an annotation
else:
    from typing import TypeVar

    Row = TypeVar("Row")

GIVE_UP_AFTER_SECONDS: Final = 120.0
_ROWS_PER_TURN: Final = 256
_TURN_SECONDS: Final = 1e-6
"""Pause after so many rows while a request is open. Python lets a thread that computes run for 5 ms, and sending a
request takes many turns of the sending thread."""


class ChangeWriter(Generic[Row]):
    """Writer of rows of one table, or of a tool's messages: each lands once and in order.

    `write` returns at once while the buffer has room. After a rejection, or after the gateway was unreachable for
    `give_up_after` seconds, the writer has stopped: each call raises the reason.

    Thread-safe: rows land in the order of the calls of `write`. A process that was forked opens its own writer, because
    a fork copies no threads. `on_rejected` may write other rows, even beyond the limit of the buffer.

    For example:

        with GatewayClient(url, key) as gateway, ChangeWriter(gateway, table="shop.orders") as orders:
            orders.write({"id": 1})
            orders.delete({"id": 2})
            orders.flush()  # returns when both are durable, as the end of the block does
    """

    def __init__(
        self,
        client: GatewayClient,
        *,
        table: str | None = None,
        source_format: str = "rows",
        parameters: Mapping[str, str] | None = None,
        producer: str | None = None,
        limits: BufferLimits | None = None,
        give_up_after: float | None = GIVE_UP_AFTER_SECONDS,
        encode: Callable[[Row], bytes | str] = encode_row,
        on_accepted: Callable[[Accepted], None] | None = None,
        on_rejected: Callable[[RejectedRow], None] | None = None,
        on_wait: OnWait | None = None,
    ) -> None:
        """Ask the gateway how far the producer is, and start the thread.

        Raises RejectedInput `bad_request` for rows without a table, and what `Producer.open` raises.

        - `table`: the table of all rows or messages. `source_format`: `rows`, `arcion`, `replicate` or `debezium`.
          `parameters`: other query parameters of the endpoint.
        - `producer`: the name under which requests are numbered. The gateway then keeps the last `position` that was
          given to `write`, and a restarted program continues after it. One process at a time may use a name.
        - `limits`: when a request is sent, and how much may wait.
        - `give_up_after`: seconds to repeat a request while the gateway is unreachable or busy; None: for ever.
        - `encode`: a function that writes a row as a JSON object, in bytes or a string.
        - `on_accepted`: called with each durable request. `on_wait`: called before each pause, with its seconds and
          reason.
        - `on_rejected`: called with each rejected row, which is then left out. Without it the writer stops.

        The functions are called where requests are sent, and what they raise stops the writer.
        """
        check_table(source_format, table)
        given = {**({"table": table} if table else {}), **(parameters or {})}
        self._core = WriterCore(source_format, given, limits or BufferLimits(), hands_over=on_rejected is not None)
        self._takes_rows = source_format == "rows"
        self._encode = encode
        self._on_accepted = on_accepted
        self._on_rejected = on_rejected
        self._failure: BaseException | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._progress = threading.Condition(self._lock)
        self._stop = threading.Event()
        self._process = os.getpid()
        patience = Patience(give_up_after, self._stop, on_wait or (lambda _, __: None))
        self._sender: Producer | RequestSender = (
            RequestSender(client, KeyedRequests(lambda: uuid4().hex), patience)
            if producer is None
            else Producer.open(client, producer, patience)
        )
        self._thread = threading.Thread(target=self._run, name="change-writer", daemon=True)
        self._thread.start()
        atexit.register(self._warn_at_exit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send what was written. After Ctrl-C and the like, end without sending."""
        if error is not None and not isinstance(error, Exception):
            self.abort()
            return
        try:
            self.close()
        except Exception as failure:
            if error is None:
                raise
            if failure is not error:
                error.add_note(f"The writer also failed: {failure}")

    @property
    def position(self) -> str | None:
        """The last durable position; None before the first one, and without a producer."""
        return self._sender.position if isinstance(self._sender, Producer) else None

    @property
    def unsent(self) -> int:
        """Number of rows that were written and are not known to be durable; rows that were handed over do not count."""
        return self._core.written - self._core.settled

    def write(self, row: Row, *, op: str | None = None, handle: Any = None, position: str | None = None) -> None:
        """Write a row: an upsert, unless `op` or the parameter `op` of the writer says `insert` or `delete`.

        `handle` is given back with the row, `position` says how far the row reaches in the source of the producer.
        Waits while the buffer has no room.
        """
        self.put(self.row_text(row, op), handle, position)

    def delete(self, row: Row, *, handle: Any = None, position: str | None = None) -> None:
        """Delete the row with these key values."""
        self.write(row, op="delete", handle=handle, position=position)

    def write_change(
        self, message: Mapping[str, Any] | bytes | str, *, handle: Any = None, position: str | None = None
    ) -> None:
        """Write one message as the tool wrote it: text remains as it is, a mapping becomes JSON."""
        self.put(encode_change(message), handle, position)

    def flush(self) -> tuple[Receipt, ...]:
        """Return after everything that was written is durable: what each table accepted since the last flush."""
        self._check_process()
        with self._lock:
            self._check_usable()
            self._wait_until_settled()
            return self._core.take_receipts()

    def close(self) -> tuple[Receipt, ...]:
        """Flush and end; nothing more can be written. Returns what `flush` returns. Safe to repeat."""
        self._check_process()
        try:
            with self._lock:
                self._check_works()
                if self._is_closed:
                    return ()
                self._is_closed = True  # before the wait: a row that another thread writes now would not be sent
                self._wait_until_settled(also_later=True)
                receipts = self._core.take_receipts()
        except BaseException:
            self.abort()
            raise
        self.abort()
        self._thread.join()
        return receipts

    def abort(self) -> None:
        """End without sending what waits, which `unsent` counts. A request that is open may still become durable."""
        self._check_process()
        atexit.unregister(self._warn_at_exit)
        with self._lock:
            self._is_closed = True
            self._stop.set()
            self._work.notify_all()
            self._progress.notify_all()

    def put(self, body: bytes, handle: Any, position: str | None, *, waits: bool = True) -> bool:
        """Write an encoded row. Without `waits`, return False if the buffer has no room."""
        self._check_process()
        with self._lock:
            while threading.current_thread() is not self._thread:
                self._check_usable()
                if self._core.has_room(body):
                    break
                self._core.flush()
                self._work.notify()
                if not waits:
                    return False
                self._progress.wait()
            if self._core.add(body, handle, position, time.monotonic()):
                self._work.notify()
            gives_way = self._core.written % _ROWS_PER_TURN == 0 and self._core.is_open()
        if gives_way:
            time.sleep(_TURN_SECONDS)  # gives the interpreter lock to the sending thread
        return True

    def row_text(self, row: Row, op: str | None) -> bytes:
        """Return a row as `put` takes it. Raises RejectedInput."""
        if not self._takes_rows:
            raise RejectedInput(
                Code.BAD_REQUEST, "this writer posts messages of a tool, not rows", remedy="Use `write_change`."
            )
        body = encode_row(row) if self._encode is encode_row else encode_change(self._encode(row))
        return as_row(body, op)

    def _wait_until_settled(self, *, also_later: bool = False) -> None:
        """Wait for the rows that were written by now, or `also_later`. Called with the lock, which a wait releases."""
        if threading.current_thread() is self._thread:
            raise RejectedInput(
                Code.BAD_REQUEST, "the writer's thread cannot wait for itself", remedy="Flush in another thread."
            )
        mark = self._core.flush()
        self._work.notify()
        while self._core.settled < mark:
            self._check_works()
            if self._stop.is_set():
                raise closed()
            self._progress.wait()
            if also_later:  # `on_rejected` may have written another row
                mark = self._core.flush()
                self._work.notify()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RejectedInput(
                Code.BAD_REQUEST,
                "the writer belongs to the process that was forked, whose thread this process lacks",
                remedy="Open a writer, and a client, after the fork.",
            )

    def _run(self) -> None:
        """Send requests until the end; keep what fails for the next caller."""
        try:
            while (request := self._next_request()) is not None:
                self._send(request)
        except Stopped:
            return
        except BaseException as error:  # noqa: BLE001  # every later call raises it
            with self._lock:
                self._failure = error
                self._progress.notify_all()

    def _next_request(self) -> ChangeRequest | None:
        with self._lock:
            while not self._stop.is_set():
                seconds = self._core.seconds_until_due(time.monotonic())
                if seconds is not None and seconds <= 0:
                    return self._core.next_request()
                self._work.wait(seconds)
        return None

    def _send(self, request: ChangeRequest) -> None:
        try:
            answer: Mapping[str, Any] | RejectedByGateway = self._sender.send(request)
        except RejectedByGateway as error:
            if not is_final(error):
                raise
            answer = error
        with self._lock:
            outcome = self._meaning_of(answer)
        self._report(outcome)
        with self._lock:
            self._core.settle()
            self._progress.notify_all()

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

    def _warn_at_exit(self) -> None:
        if os.getpid() == self._process:
            self.abort()
            if self.unsent:
                detail = f"a ChangeWriter was not closed: {self.unsent} rows were not sent"
                warnings.warn(detail, ResourceWarning, stacklevel=1)


def check_table(source_format: str, table: str | None) -> None:
    """Raise RejectedInput `bad_request` for a writer of rows without a table."""
    if source_format == "rows" and not table:
        raise RejectedInput(Code.BAD_REQUEST, "a writer of rows needs a table", remedy="Give `table`.")


def closed() -> RejectedInput:
    """Return the error of a call after the end."""
    return RejectedInput(Code.BAD_REQUEST, "the writer is closed", remedy="Open another one.")
