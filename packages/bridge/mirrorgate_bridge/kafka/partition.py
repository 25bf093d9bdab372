"""One partition of a topic: a thread that opens its producer, decides where to read, and sends one request at a time.

Invariant: a record leaves the buffer only after the request that contains it is durable, or after the record was put
aside as the operator asked. The position of each request is the offset of its last record.
"""

import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from mirrorgate.errors import Code, MirrorgateError, TemporarilyUnavailable
from mirrorgate.http import GatewayClient
from mirrorgate.producer import Patience, Producer, ProducerConflict, Stopped
from mirrorgate.retrying import call_with_retries
from mirrorgate_bridge.kafka.buffer import (
    SNAPSHOTS_REMEDY,
    CannotContinue,
    Choices,
    Log,
    Position,
    RecordBuffer,
    check_partitions,
    log_ended,
    next_offset,
    producer_name,
)
from mirrorgate_bridge.kafka.cluster import Cluster
from mirrorgate_bridge.kafka.delivery import Counters, Delivery, Held
from mirrorgate_bridge.kafka.settings import BridgeSettings, RecordDecoder, TopicRule
from mirrorgate_bridge.log import BridgeLog

MAX_CONFLICTS: Final = 3
"""Conflicts within `_CONFLICT_SECONDS`; some are normal after a rebalance, when the old owner ends its request."""

_CONFLICT_SECONDS: Final = 60.0
_MAX_PAUSE: Final = 10.0

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class SharedResources:
    """The resources that all partitions of a bridge share."""

    settings: BridgeSettings
    client: GatewayClient
    cluster: Cluster
    log: BridgeLog
    choices: Choices
    decoder_of: Callable[[TopicRule], RecordDecoder]
    restart: Callable[["Partition", int], None]
    """Lets the consumer read the partition from an offset on; its thread does it soon."""
    hold: Callable[["Partition"], None]
    """Lets the consumer stop reading the partition."""


class StartOffset:
    """The offset where the consumer has to start a partition, from the partition's thread to the consumer's."""

    def __init__(self) -> None:
        self._offset: int | None = None
        self._is_set = threading.Event()

    def set(self, offset: int) -> None:
        """Ask the consumer to start at `offset`."""
        self._offset = offset
        self._is_set.set()

    def get(self) -> int | None:
        """Return the offset that was asked for and not taken."""
        return self._offset

    def wait(self, seconds: float) -> int | None:
        """Return the offset, None if it is not known after `seconds`."""
        self._is_set.wait(max(seconds, 0))
        return self._offset

    def give_up(self) -> None:
        """Let the consumer wait no longer: the partition is not read."""
        self._is_set.set()

    def take(self) -> int | None:
        """Return the offset, which the consumer reads from now on."""
        offset, self._offset = self._offset, None
        self._is_set.clear()
        return offset


@dataclass
class State:
    """The state of a partition: `opening`, `running`, `waiting`, `stopped` or `closed`; the reason when it is not."""

    name: str = "opening"
    code: str | None = None
    detail: str | None = None
    remedy: str | None = None
    offset: int | None = None
    pointer: str | None = None
    """JSON Pointer of the problem in the record at `offset`."""


@dataclass
class Partition:
    """A partition that this bridge is assigned."""

    topic: str
    number: int
    rule: TopicRule
    shared: SharedResources
    state: State = field(default_factory=State)
    own_counters: Counters = field(default_factory=Counters)
    """Counts of the partition, besides those of its delivery."""
    last_offset: int | None = None
    """The last durable offset."""
    log_end: int | None = None
    """The offset after the last record of the log, as the consumer learned it last."""
    is_paused: bool = True
    """Set by the consumer's thread alone, like `reads`."""
    reads: bool = False
    """False until the consumer was told where to read, and while it must not read."""

    def __post_init__(self) -> None:
        """Make the thread; `start` starts it."""
        self._stop = threading.Event()
        self.start_at = StartOffset()
        self.buffer = RecordBuffer(self.shared.settings.batch)
        self._stop_reason: MirrorgateError | None = None
        self._delivery: Delivery | None = None
        self._log_state: Log | None = None
        self._conflicts: list[float] = []
        self._patience = Patience(stop=self._stop, on_wait=self._on_wait)
        self._thread = threading.Thread(target=self._run, name=f"{self.topic}/{self.number}", daemon=True)

    @property
    def name(self) -> str:
        """Return `topic/partition`."""
        return f"{self.topic}/{self.number}"

    @property
    def lag(self) -> int | None:
        """Return how many offsets follow the last durable one; None if that is not known."""
        if self.log_end is None or self.last_offset is None:
            return None
        return max(self.log_end - self.last_offset - 1, 0)

    @property
    def is_well(self) -> bool:
        """Return True while the partition opens for the first time or runs."""
        return self.state.name in ("opening", "running")

    @property
    def counters(self) -> Counters:
        """Return what the partition has counted by now."""
        return self.own_counters if self._delivery is None else self.own_counters.plus(self._delivery.counters)

    @property
    def _rejected_folder(self) -> Path | None:
        """Return where rejected records are kept, None if they stop the partition."""
        is_kept = self.rule.on_reject in ("skip_to_file", "dead_letter")
        rejected = self.shared.settings.rejected
        return rejected.folder if is_kept and rejected is not None else None

    def start(self) -> None:
        """Begin to open the partition."""
        self._thread.start()

    def request_stop(self) -> None:
        """Send no further request. One that is on its way is finished."""
        self._stop.set()
        self.buffer.close()

    def join(self, seconds: float) -> bool:
        """Return True once the thread has ended, False if it has not after `seconds`."""
        self._thread.join(max(seconds, 0))
        return not self._thread.is_alive()

    def stop_because(self, reason: MirrorgateError) -> None:
        """Stop the partition for a reason that the consumer found. Called by other threads."""
        self._stop_reason = reason
        self.buffer.close()

    def topic_is(self, identity: str | None) -> None:
        """Stop the partition if its topic has another id than when it was opened."""
        known = self._log_state and self._log_state.topic_id
        if known and identity and known != identity and self._stop_reason is None:
            self.stop_because(log_ended(self.last_offset))

    def partitions_are(self, count: int) -> None:
        """Stop the partition if the number of partitions has changed and its tables need their order."""
        if self._log_state is None or not self.rule.needs_order or self._stop_reason is not None:
            return
        try:
            check_partitions(self._log_state.partitions, count, self.rule.partitions)
        except CannotContinue as reason:
            self.stop_because(reason)

    def _run(self) -> None:
        try:
            self._work()
        except Stopped:
            pass
        except Exception as error:  # noqa: BLE001  # a crash of one partition must not end the others
            at = traceback.format_tb(error.__traceback__)[-1].strip().splitlines()[0]
            self._be(State("stopped", Code.INTERNAL, f"{type(error).__name__} at {at}", "Report this as a bug."))
        if self.state.name != "stopped":
            self.state.name = "closed"

    def _work(self) -> None:
        producer = self._until_possible(self._open)
        own = (self.topic, self.number)
        delivery = self._delivery = Delivery(
            self.topic,
            self.number,
            self.rule,
            producer,
            self.shared.decoder_of(self.rule),
            self._position_text,
            self.shared.log,
            frozenset(offset for *of, offset in self.shared.choices.skips if tuple(of) == own),
            self._rejected_folder,
        )
        self._position(producer)
        while not self._stop.is_set():
            if self._stop_reason is not None:
                self._stay_stopped(self._stop_reason)
                return
            batch = self.buffer.take()
            try:
                if batch:
                    for durable in delivery.deliver(batch):
                        self.buffer.drop_through(durable)
                        self.last_offset = durable
                    self._be(State("running"))
            except Held as held:
                self._hold_for(held)
            except ProducerConflict as conflict:
                self._after_conflict(producer, conflict)
            except TemporarilyUnavailable as error:
                self._on_wait(_MAX_PAUSE / 5, error)
                self._pause(_MAX_PAUSE / 5)

    def _open(self) -> Producer:
        kafka = self.shared.settings.kafka
        name = producer_name(kafka.cluster, kafka.group, self.topic, self.number)
        return Producer.open(self.shared.client, name, self._patience)

    def _position(self, producer: Producer) -> None:
        """Decide where to read, and let the consumer read from there. The reason to stop is kept for `_work`."""
        try:
            offset = self._until_possible(lambda: self._next(producer))
        except CannotContinue as reason:
            self._stop_reason = reason
            self.start_at.give_up()
            return
        self.shared.log.info("partition_starts", topic=self.topic, partition=self.number, offset=offset)
        self._be(State("running"))
        self.shared.restart(self, offset)

    def _next(self, producer: Producer) -> int:
        """Return the offset to read next. Raises CannotContinue, or MirrorgateError while no broker answers."""
        log = self._log_state = self.shared.cluster.log(self.topic, self.number)
        needs_order, accepted = self.rule.needs_order, self.rule.partitions
        try:
            if producer.position is None:
                if self.number and needs_order:
                    first = self._first_partition()
                    check_partitions(first.partitions if first else None, log.partitions, accepted)
                return self._start_offset(log)
            position = Position.parse(producer.position)
            self.last_offset = position.offset
            return next_offset(position, log, accepted_partitions=accepted, needs_order=needs_order)
        except CannotContinue as reason:
            chosen = self.shared.choices.start(self.topic, self.number, log)
            if chosen is None or reason.code is not Code.SOURCE_POSITION_LOST:
                raise
            self.shared.log.warning(
                "partition_continues_elsewhere",
                topic=self.topic,
                partition=self.number,
                offset=chosen,
                detail=reason.detail,
            )
            self.last_offset = chosen - 1
            return chosen

    def _first_partition(self) -> Position | None:
        """Return the position of partition 0, which knows how many partitions there were."""
        kafka = self.shared.settings.kafka
        name = producer_name(kafka.cluster, kafka.group, self.topic, 0)
        position = Producer.open(self.shared.client, name, self._patience).position
        return None if position is None else Position.parse(position)

    def _start_offset(self, log: Log) -> int:
        """Return where a partition without a position starts.

        `latest` keeps its start as the group's committed offset, so that a restart before the first record loses none.
        """
        start = self.rule.start
        if start == "earliest":
            return log.low
        committed = self.shared.cluster.committed(self.topic, self.number)
        if committed is not None:
            return next_offset(Position(committed - 1), log, accepted_partitions=None, needs_order=False)
        found = log.high if start == "latest" else self.shared.cluster.offset_at(self.topic, self.number, start)
        offset = log.high if found is None else found
        self.last_offset = offset - 1
        return offset

    def _position_text(self, offset: int) -> str:
        """Return the position after the record at `offset`."""
        log = self._log_state
        return Position(offset, log.topic_id if log else None, log.partitions if log else None).text()

    def _until_possible(self, call: Callable[[], _Result]) -> _Result:
        """Return the result of `call`, retried while the gateway rejects it or the brokers do not answer."""
        return call_with_retries(call, None, self._pause, self._on_wait, _may_pass)

    def _after_conflict(self, producer: Producer, conflict: ProducerConflict) -> None:
        """Continue after the position that another process has reached; stop if that happens repeatedly."""
        self.own_counters.conflicts += 1
        now = time.monotonic()
        self._conflicts = [*(at for at in self._conflicts if now - at < _CONFLICT_SECONDS), now]
        fields = {"topic": self.topic, "partition": self.number, "code": conflict.code}
        self.shared.log.warning("producer_conflict", about=self.name, **fields, detail=conflict.detail)
        if len(self._conflicts) > MAX_CONFLICTS:
            self._stop_reason = CannotContinue(
                Code.PRODUCER_SHARED,
                f"another process keeps sending as {producer.name}",
                "Stop the other bridge, or give this one another `cluster` or `group`: it is then a new producer, "
                "starts as `start` says, and lands every record again.",
            )
            return
        self.buffer.forget()  # the other process may have sent some of these records
        self.shared.hold(self)
        self._until_possible(producer.refresh)
        self._position(producer)

    def _hold_for(self, held: Held) -> None:
        """Stay stopped at a rejected record, and try it again later: a table may have been registered meanwhile."""
        fault, remedy = held.fault, held.fault.remedy
        if fault.code == Code.RELOAD_REQUIRES_RECREATE and self._log_state is not None:
            remedy = SNAPSHOTS_REMEDY if self._log_state.partitions > 1 else remedy
        if self.state.name != "stopped":
            self.own_counters.stops += 1
        self._be(State("stopped", fault.code, fault.detail, remedy, fault.offset, fault.pointer))
        self._pause(self.shared.settings.stop.retry_after)

    def _stay_stopped(self, reason: MirrorgateError) -> None:
        self.shared.hold(self)
        self.own_counters.stops += 1
        self._be(State("stopped", reason.code, reason.detail, reason.remedy, self.last_offset))

    def _be(self, state: State) -> None:
        before, self.state = self.state, state
        where = {"topic": self.topic, "partition": self.number}
        if state.name == "stopped":
            self.shared.log.error(
                "partition_stopped",
                about=self.name,
                **where,
                offset=state.offset,
                code=state.code,
                detail=state.detail,
                pointer=state.pointer,
                remedy=state.remedy,
            )
        elif state.name == "running" and before.name not in ("running", "opening"):
            self.shared.log.info("partition_runs_again", **where)

    def _on_wait(self, seconds: float, error: MirrorgateError) -> None:
        self.own_counters.retries += 1
        self.start_at.give_up()  # so that the consumer does not wait for this partition
        if self.state.name in ("running", "waiting", "opening"):
            self.state = State("waiting", error.code, error.detail, error.remedy)
        self.shared.log.warning(
            "partition_waits",
            about=self.name,
            topic=self.topic,
            partition=self.number,
            code=error.code,
            detail=error.detail,
            remedy=error.remedy,
            seconds=round(seconds, 1),
        )

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise Stopped


def _may_pass(error: BaseException) -> bool:
    """Return whether an error can pass by itself, or by what an operator does at the gateway or the brokers."""
    return isinstance(error, MirrorgateError) and not isinstance(error, CannotContinue)
