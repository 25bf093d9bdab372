"""One producer: posts numbered requests, each durable exactly once whatever fails on the way.

The gateway stores the number and the position of a request in the transaction of its data. So the gateway's answer is
the only checkpoint that a program needs: after any crash it opens the producer again and continues after `position`.
Invariant: `sequence` and `position` are those of the last request that is known to be durable.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import quote

from app.client.http import GatewayClient, RejectedByGateway
from app.client.retrying import Answer, OnWait, call_with_retries
from app.errors import Code, MirrorgateError, Misconfigured

_OTHER_SENDER: Final = frozenset({Code.PRODUCER_SEQUENCE_REUSED, Code.PRODUCER_GAP, Code.RECEIPT_EXPIRED})


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """One request of a producer. `position` says how far in its source it reaches."""

    source_format: str
    """`arcion`, `replicate`, `rows` or `debezium`."""
    body: bytes
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Query parameters, such as `table`."""
    content_type: str = "application/x-ndjson"
    position: str | None = None
    """Up to 256 visible ASCII characters and blanks between them; None leaves the stored position unchanged."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to repeat a request that the gateway cannot accept yet."""

    give_up_after: float | None = None
    """Seconds; None: until `stop` is set."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Once it is set, the next wait raises Stopped."""
    on_wait: OnWait = lambda _, __: None
    """Called before each wait, with its seconds and the reason."""

    def call(self, call: Callable[[], Answer]) -> Answer:
        """Return the answer of an idempotent call. Raises its last error, or Stopped."""
        return call_with_retries(call, self.give_up_after, self._pause, self.on_wait)

    def _pause(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise Stopped


class Stopped(Exception):
    """The caller has set `stop`: the last request may be durable or not, which `refresh` tells."""


class ProducerConflict(MirrorgateError):
    """Another process sends under the name of this producer. `refresh` tells how far it is."""

    def __init__(self, name: str, cause: RejectedByGateway) -> None:
        remedy = "Let one process at a time use the name, or give this one another name. To continue, read the position"
        super().__init__(
            cause.code,
            f"another process sends as the producer {name}: {cause.detail}",
            remedy=f"{remedy} again.",
        )


def durable_number(client: GatewayClient, name: str) -> int:
    """Return the last durable number of a producer; 0 for a producer that the gateway does not know."""
    return int(_stored_state(client, name)["sequence"])


def _stored_state(client: GatewayClient, name: str) -> Mapping[str, Any]:
    try:
        state: Mapping[str, Any] = client.get(f"/v1/producers/{quote(name, safe='')}")
    except RejectedByGateway as error:
        if error.code is not Code.UNKNOWN_PRODUCER:
            raise
        return {"sequence": 0, "position": None}
    return state


class Producer:
    """Sends requests one after the other under one name. Not thread-safe; producers may share a client.

    `send` raises

    - RejectedByGateway if the request is wrong: nothing of it is durable, and its number stays free;
    - ProducerConflict if another process uses the name;
    - Stopped if `stop` is set, and TemporarilyUnavailable or RejectedByGateway after `give_up_after` seconds: the
      request may be durable. Send the same request again, or call `refresh`.
    """

    sequence: int
    """The number of the last durable request, 0 before the first one."""
    position: str | None
    """The last durable position, None before the first one."""

    def __init__(self, client: GatewayClient, name: str, patience: Patience) -> None:
        """Ask the gateway how far the producer is, as `refresh` does."""
        self.name = name
        self._client = client
        self._patience = patience
        self.refresh()

    @classmethod
    def open(cls, client: GatewayClient, name: str, patience: Patience) -> Self:
        """Return the producer, after asking the gateway how far it is. Raises what `refresh` raises."""
        return cls(client, name, patience)

    def refresh(self) -> None:
        """Ask the gateway how far the producer is, such as after a ProducerConflict.

        Raises RejectedByGateway, Stopped, TemporarilyUnavailable after `give_up_after` seconds, and Misconfigured
        `bad_setting` for a gateway that stores no positions.
        """
        state = self._patience.call(lambda: _stored_state(self._client, self.name))
        if "position" not in state:
            detail = f"the gateway at {self._client.url} stores no positions of producers"
            raise Misconfigured(Code.BAD_SETTING, detail, remedy="Upgrade the gateway to the version of this program.")
        self.sequence, self.position = int(state["sequence"]), state["position"]

    def send(self, request: ChangeRequest) -> Mapping[str, Any]:
        """Return the answer to the next request, after it is durable; repeat it under its number until then."""
        number = self.sequence + 1
        headers = {"Mirrorgate-Producer": self.name, "Mirrorgate-Producer-Sequence": str(number)}
        if request.position is not None:
            headers["Mirrorgate-Producer-Position"] = request.position
        try:
            answer = self._patience.call(lambda: self._post(request, headers))
        except RejectedByGateway as error:
            if error.code in _OTHER_SENDER:
                raise ProducerConflict(self.name, error) from error
            raise
        self.sequence = number
        if request.position is not None:
            self.position = request.position
        return answer

    def _post(self, request: ChangeRequest, headers: Mapping[str, str]) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self._client.post_changes(
            request.source_format,
            request.body,
            content_type=request.content_type,
            parameters=request.parameters,
            headers=headers,
        )
        return answer
