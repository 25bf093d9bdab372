"""Faults: of single requests, once; of a share of all requests, until they are set otherwise; and of a whole service.

`Switches` has differences between services.
"""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

OPERATIONS = ("create", "create_folder", "append", "flush", "rename", "delete", "list", "head", "read", "lease", "put")


class Effect(StrEnum):
    """What happens instead of a plain answer."""

    ANSWER = "answer"
    """Answered with an error; nothing was done."""
    RESET_BEFORE = "reset before"
    """The connection is reset before the request is read whole; nothing was done."""
    RESET_AFTER = "reset after"
    """Done, then the connection is reset instead of an answer."""
    SILENT_BEFORE = "silent before"
    """Never done, never answered."""
    SILENT_AFTER = "silent after"
    """Done, never answered."""
    LATE = "late"
    """The connection is reset; it is done only after the next request of the same operation was answered."""
    ERROR_AFTER = "error after"
    """Done, and answered with an error all the same."""
    SHORT = "short"
    """A body that ends half-way."""


@dataclass(frozen=True)
class Fault:
    """One fault; with ANSWER and ERROR_AFTER `status` and `code` are what is said."""

    effect: Effect
    status: int = 503
    code: str = "ServerBusy"
    retry_after: str | None = None


def answer(status: int, code: str, *, retry_after: str | None = None) -> Fault:
    """Return the fault of a request that is answered with an error and not carried out."""
    return Fault(Effect.ANSWER, status, code, retry_after)


@dataclass
class Switches:
    """Switches for differences between real services, and for behavior of OneLake that is not established yet."""

    rename_condition: str = "honoured"
    """`If-None-Match: *` on rename: honoured; ignored (and named in x-ms-rejected-headers); rejected with 400."""
    rename_keeps_etag: bool = True
    heeds_etags: bool = True
    """False: renames and deletes are carried out whatever ETag they name."""
    files_hold_files: bool = False
    """True: a plain file becomes a folder when something is created below it."""
    folder_rename: bool = True
    """False: renaming a folder is rejected."""
    user_metadata: str = "kept"
    """Metadata given at creation: kept; forgotten; rejected with 400."""
    challenge: bool = True
    """Whether a 401 says where to get a token."""
    account_keys: bool = False
    """True: a plain storage account, which also takes Shared Key (the signature is not checked)."""
    newest_version: str = "2099-01-01"
    """Newest `x-ms-version` that is understood."""
    page_size: int = 5_000
    delete_pages: int = 1
    """Requests that a paginated recursive delete takes."""
    folder_in_use: int = 0
    """So many deletes of folders are rejected."""
    stale_listing: bool = False
    """Listings show the tree as it was when this was switched on."""
    listing_changes: bool = False
    """An entry of one page is repeated on the next."""


Share = Annotated[float, Field(ge=0, le=1)]


class FaultRates(BaseModel):
    """What goes wrong until it is set otherwise: `mirrorgate emulator --fault NAME=VALUE`, `PUT /_emulator/faults`."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    throttle: Share = 0.0
    """Share of requests that are answered with 429 and Retry-After."""
    lost_answer: Share = 0.0
    """Share of requests that are carried out, and whose connection ends instead of the answer."""
    expired_token: Annotated[int, Field(ge=0)] = 0
    """Requests after which a token is answered with 401. 0: never. The token that is printed is valid again then."""
    paused_capacity: bool = False
    """OneLake answers 404, the database is *Paused*, and no file is applied."""
    slow_replication: Annotated[float, Field(ge=0)] = 0.0
    """Seconds between two looks of the replicator at the landing zones."""


_READS: Final = frozenset({"list", "head", "read"})


@dataclass
class Faults:
    """Faults waiting for the requests they are meant for, each used once, in the order planned.

    `first_of_each` is met, beside them, by the first request of each operation on each path.
    """

    first_of_each: Fault | None = None
    spared: frozenset[str] = frozenset()
    """Operations that `first_of_each` leaves alone."""
    rates: FaultRates = field(default_factory=FaultRates)
    lasting_tokens: frozenset[str] = frozenset()
    """Tokens that are valid again after the request that met their end."""
    _uses: dict[str, int] = field(default_factory=dict)
    """Requests of each token."""
    _met: set[tuple[str, str]] = field(default_factory=set)

    _waiting: dict[str, list[Fault]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _late: list[tuple[str, Callable[[], object]]] = field(default_factory=list)
    used: list[tuple[str, Fault]] = field(default_factory=list)

    def plan(self, operation: str, *faults: Fault, skip: int = 0) -> None:
        """Meet the next requests of this operation with these faults, after letting `skip` pass."""
        assert operation in OPERATIONS, operation
        passing = [Fault(Effect.ANSWER, status=0)] * skip
        with self._lock:
            self._waiting.setdefault(operation, []).extend([*passing, *(replace(fault) for fault in faults)])

    def next(self, operation: str, path: str) -> Fault | None:
        """Return the fault that this request meets."""
        with self._lock:
            waiting = self._waiting.get(operation)
            fault = waiting.pop(0) if waiting else self._first(operation, path)
            if fault is None or fault.status == 0:
                return self._by_chance(operation)
            self.used.append((operation, fault))
            return fault

    def _by_chance(self, operation: str) -> Fault | None:
        if self.rates.throttle and random.random() < self.rates.throttle:
            return Fault(Effect.ANSWER, 429, "TooManyRequests", "1")
        if operation not in _READS and self.rates.lost_answer and random.random() < self.rates.lost_answer:
            return Fault(Effect.RESET_AFTER)
        return None

    @property
    def is_paused(self) -> bool:
        """True if the capacity is paused."""
        return self.rates.paused_capacity

    def has_expired(self, token: str, valid: set[str]) -> bool:
        """Count a request of a token. Return whether it meets the token's end, which takes it out of `valid`."""
        if not self.rates.expired_token:
            return False
        with self._lock:
            self._uses[token] = self._uses.get(token, 0) + 1
            if self._uses[token] <= self.rates.expired_token:
                return False
            self._uses[token] = 0
            if token not in self.lasting_tokens:
                valid.discard(token)
            return True

    def _first(self, operation: str, path: str) -> Fault | None:
        if self.first_of_each is None or operation in self.spared or (operation, path) in self._met:
            return None
        self._met.add((operation, path))
        return self.first_of_each

    def late(self, action: Callable[[], object], operation: str) -> None:
        """Do this once the next request of the operation has been answered."""
        with self._lock:
            self._late.append((operation, action))

    def done(self, operation: str) -> None:
        """Carry out what is late, after an answer to the same operation."""
        with self._lock:
            ripe = [action for waiting, action in self._late if waiting == operation]
            self._late = [entry for entry in self._late if entry[0] != operation]
        for action in ripe:
            action()

    @property
    def left(self) -> int:
        """Planned faults that no request has met."""
        with self._lock:
            return sum(fault.status != 0 for waiting in self._waiting.values() for fault in waiting)
