"""Names of change requests, by which the gateway recognizes a repeat: a producer's numbers, or random keys.

Pure: the blocking and the asynchronous senders share them. Invariant: a name changes only after its request is durable,
so a request that is sent again after a lost answer has the same name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import quote

from app.client.http import RejectedByGateway
from app.errors import Code, MirrorgateError, Misconfigured

_OTHER_SENDER: Final = frozenset({Code.PRODUCER_SEQUENCE_REUSED, Code.PRODUCER_GAP, Code.RECEIPT_EXPIRED})


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


class ProducerConflict(MirrorgateError):
    """Another process sends under the name of this producer. `Producer.refresh` tells how far it is."""

    def __init__(self, name: str, cause: RejectedByGateway) -> None:
        remedy = "Let one process at a time use the name, or give this one another name. To continue, read the position"
        super().__init__(
            cause.code,
            f"another process sends as the producer {name}: {cause.detail}",
            remedy=f"{remedy} again.",
        )


class RequestNames(Protocol):
    """Names the requests of one sender, which sends one after the other."""

    def headers(self, request: ChangeRequest) -> Mapping[str, str]:
        """Return the headers that name the next request."""

    def accepted(self, request: ChangeRequest) -> None:
        """Note that the request is durable."""

    def meaning_of(self, error: RejectedByGateway) -> MirrorgateError:
        """Return the error that a rejection of the request means to the caller."""


@dataclass
class KeyedRequests:
    """Gives each request an idempotency key, which no other process knows."""

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
    """Gives each request the next number of a producer, of which `sequence` and `position` are durable."""

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
        """Return a ProducerConflict if only another process can have caused the rejection."""
        return ProducerConflict(self.name, error) if error.code in _OTHER_SENDER else error


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
