"""Senders that block: each request is durable exactly once whatever fails on the way.

The gateway stores the number and the position of a producer's request in the transaction of its data (decision 0045).
So the gateway's answer is the only checkpoint that a program needs: after any crash it opens the producer again and
continues after `position`. The gateway recognizes a repeat by its name: a producer's number, or a random key.
Invariants: `sequence` and `position` are those of the last request that is known to be durable. A name changes only
after its request is durable, so a request that is sent again after a lost answer has the same name.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self
from urllib.parse import quote

from mirrorgate.errors import Code, MirrorgateError, Misconfigured, RejectedInput
from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.retrying import Answer, OnWait, call_with_retries

_CONFLICTS: Final = frozenset({Code.PRODUCER_SEQUENCE_REUSED, Code.PRODUCER_GAP, Code.RECEIPT_EXPIRED})


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """One request with changes. `position` says how far it reaches in the source of a producer."""

    source_format: str
    """`arcion`, `replicate`, `rows` or `debezium`."""
    body: bytes
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Query parameters, such as `table`."""
    content_type: str = "application/x-ndjson"
    position: str | None = None
    """Up to 256 visible ASCII characters and blanks between them; None leaves the stored position unchanged."""

    def __post_init__(self) -> None:
        """Raise RejectedInput `bad_request` for a dry run: its number or position would count as durable."""
        if "dry_run" in self.parameters:
            remedy = "Post the message with `GatewayClient.post_changes`, or try it in the console."
            raise RejectedInput(Code.BAD_REQUEST, "a sender makes no dry run", remedy=remedy)


class ProducerConflict(MirrorgateError):
    """The gateway knows other requests of this producer than it has sent. `Producer.refresh` tells how far it is.

    More of them are of another process; fewer, if a failover or a restore has lost requests (`producer_gap`).
    """

    def __init__(self, name: str, cause: RejectedByGateway) -> None:
        if cause.code is Code.PRODUCER_GAP:
            detail = f"the gateway lacks requests of the producer {name} that it had accepted"
            remedy = "Its database is in an earlier state, as after a failover. Send again what follows the position."
        else:
            detail = f"another process sends as the producer {name}"
            remedy = "Let one process at a time use the name, or give this one another name. Then read the position."
        super().__init__(cause.code, f"{detail}: {cause.detail}", remedy=remedy)


class RequestNames(Protocol):
    """Names of the requests of one sender, which sends one after the other."""

    def headers(self, request: ChangeRequest) -> Mapping[str, str]:
        """Return the headers that name the next request."""

    def accepted(self, request: ChangeRequest) -> None:
        """Note that the request is durable."""

    def meaning_of(self, error: RejectedByGateway) -> MirrorgateError:
        """Return the error that a rejection of the request means to the caller."""


@dataclass
class KeyedRequests:
    """Names by idempotency keys, one for each request, which no other process knows."""

    new_key: Callable[[], str]
    _key: str | None = None

    def headers(self, request: ChangeRequest) -> Mapping[str, str]:
        """Return the headers that name the next request."""
        self._key = self._key or self.new_key()
        return {"Idempotency-Key": self._key}

    def accepted(self, request: ChangeRequest) -> None:
        """Note that the request is durable: the next one gets another key."""
        self._key = None

    def meaning_of(self, error: RejectedByGateway) -> MirrorgateError:
        """Return the rejection itself."""
        return error


@dataclass
class NumberedRequests:
    """Names by the numbers of a producer, of which `sequence` and `position` are durable."""

    name: str
    sequence: int
    position: str | None

    def headers(self, request: ChangeRequest) -> Mapping[str, str]:
        """Return the headers that name the next request."""
        headers = {"Mirrorgate-Producer": self.name, "Mirrorgate-Producer-Sequence": str(self.sequence + 1)}
        if request.position is not None:
            headers["Mirrorgate-Producer-Position"] = request.position
        return headers

    def accepted(self, request: ChangeRequest) -> None:
        """Note that the request is durable."""
        self.sequence += 1
        if request.position is not None:
            self.position = request.position

    def meaning_of(self, error: RejectedByGateway) -> MirrorgateError:
        """Return a ProducerConflict if the gateway knows other requests of the name."""
        return ProducerConflict(self.name, error) if error.code in _CONFLICTS else error


def producer_path(name: str) -> str:
    """Return the path of a producer, whose name may have slashes."""
    return f"/v1/producers/{quote(name, safe='')}"


def unless_unknown(error: RejectedByGateway) -> Mapping[str, Any]:
    """Return the state of a producer that the gateway does not know. Raises any other rejection."""
    if error.code is not Code.UNKNOWN_PRODUCER:
        raise error
    return {"sequence": 0, "position": None}


def numbered(name: str, state: Mapping[str, Any], url: str) -> NumberedRequests:
    """Return the numbers that continue after a state. Raises Misconfigured `bad_setting` if it has no position."""
    if "position" not in state:
        detail = f"the gateway at {url} stores no positions of producers"
        raise Misconfigured(Code.BAD_SETTING, detail, remedy="Upgrade the gateway to the version of this program.")
    return NumberedRequests(name, int(state["sequence"]), state["position"])


__all__ = ["ChangeRequest", "Patience", "Producer", "ProducerConflict", "RequestSender", "Stopped", "durable_number"]


@dataclass(frozen=True, slots=True)
class Patience:
    """The time to repeat a request that the gateway cannot accept yet."""

    give_up_after: float | None = None
    """Seconds; None: until `stop` is set."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Once it is set, the next wait raises Stopped."""
    on_wait: OnWait = lambda _, __: None
    """Called before each wait, with its seconds and the reason."""

    def __post_init__(self) -> None:
        """Raise RejectedInput `bad_request` for a negative time, and for NaN, which would never be over."""
        if self.give_up_after is not None and not self.give_up_after >= 0:
            raise RejectedInput(Code.BAD_REQUEST, "give_up_after must be a number of seconds, or None for no end")

    def call(self, call: Callable[[], Answer]) -> Answer:
        """Return the answer of an idempotent call. Raises its last error, or Stopped."""
        return call_with_retries(call, self.give_up_after, self._pause, self.on_wait)

    def _pause(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise Stopped


class Stopped(Exception):
    """The caller has set `stop`: the last request may be durable or not, which `Producer.refresh` tells."""


def durable_number(client: GatewayClient, name: str) -> int:
    """Return the last durable number of a producer; 0 for a producer that the gateway does not know."""
    return int(_stored_state(client, name)["sequence"])


def _stored_state(client: GatewayClient, name: str) -> Mapping[str, Any]:
    try:
        state: Mapping[str, Any] = client.get(producer_path(name))
    except RejectedByGateway as error:
        return unless_unknown(error)
    return state


def opened_numbers(client: GatewayClient, name: str, patience: Patience) -> NumberedRequests:
    """Return the numbers and the position of a producer, after asking the gateway.

    Raises RejectedByGateway, Stopped, TemporarilyUnavailable after `give_up_after` seconds, and Misconfigured
    `bad_setting` for a gateway that stores no positions.
    """
    return numbered(name, patience.call(lambda: _stored_state(client, name)), client.url)


@dataclass
class RequestSender:
    """Sender of requests one after the other, each repeated under its name. Not thread-safe; a client may be shared."""

    client: GatewayClient
    names: RequestNames
    patience: Patience

    def send(self, request: ChangeRequest) -> Mapping[str, Any]:
        """Return the answer to a request, after it is durable; repeat it under its name until then.

        Raises RejectedByGateway if the request is wrong: nothing of it is durable, and its name remains free. Raises
        Stopped if `stop` is set, and TemporarilyUnavailable or RejectedByGateway after `give_up_after` seconds: the
        request may be durable, and the same one can be sent again.
        """
        headers = self.names.headers(request)
        try:
            answer = self.patience.call(lambda: self._post(request, headers))
        except RejectedByGateway as error:
            meaning = self.names.meaning_of(error)
            if meaning is error:
                raise
            raise meaning from error
        self.names.accepted(request)
        return answer

    def _post(self, request: ChangeRequest, headers: Mapping[str, str]) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self.client.post_changes(
            request.source_format,
            request.body,
            content_type=request.content_type,
            parameters=request.parameters,
            headers=headers,
        )
        return answer


class Producer:
    """Sender of requests, one after the other, under the numbers of one name. Not thread-safe; a client may be shared.

    `send` raises what RequestSender raises, and ProducerConflict if the gateway knows other requests of the name.

    For example:

        with GatewayClient(url, key) as gateway:
            exporter = Producer(gateway, "orders-exporter", Patience())
            if exporter.position is None:  # else continue behind what is durable
                exporter.send(ChangeRequest("rows", b'{"id": 1}', {"table": "shop.orders"}, position="1"))
    """

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

    @property
    def sequence(self) -> int:
        """The number of the last durable request, 0 before the first one."""
        return self._names.sequence

    @property
    def position(self) -> str | None:
        """The last durable position, None before the first one."""
        return self._names.position

    def refresh(self) -> None:
        """Ask the gateway how far the producer is, such as after a ProducerConflict.

        Raises what `opened_numbers` raises.
        """
        self._names = opened_numbers(self._client, self.name, self._patience)
        self._sender = RequestSender(self._client, self._names, self._patience)

    def send(self, request: ChangeRequest) -> Mapping[str, Any]:
        """Return the answer to the next request, after it is durable; repeat it under its number until then."""
        return self._sender.send(request)
