"""The running Kafka bridge: one consumer in one thread, one thread for each assigned partition, one process.

`KafkaBridge` runs the consumer. Its thread alone calls the consumer's flow functions (seek, pause, resume, commit);
partitions ask for them by commands. So a record that was consumed is in a buffer before anything else happens to its
partition. librdkafka throws away what it has prefetched of a partition that is paused, and needs up to a second to
fetch again. So a full buffer first makes the consumer wait; only a partition that is stopped, or slow for longer than
that, is paused. Invariant: the group's committed offsets follow the gateway's positions and are never read for a
partition with one.

`Watch` is a thread that looks for topics now and then and subscribes to their names: librdkafka's patterns know no
named groups.

`serve` runs the bridge as a process: health port, metrics, status at the start, and a clean end on SIGTERM and Ctrl-C.

`BridgeMetrics` reads metrics from the partitions when they are scraped. Series per partition exist for `MAX_SERIES`
partitions at most; the rest is summed under the partition `other`.
"""

import queue
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import fields
from types import FrameType
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.observability.periodic_thread import PeriodicThread
from app.observability.process_metrics import ProcessMetrics
from mirrorgate.errors import Code, MirrorgateError, Misconfigured
from mirrorgate.process_memory import collect_seldom, keep_freed_memory
from mirrorgate_bridge.health import Health, serving
from mirrorgate_bridge.kafka.buffer import Choices, log_ended
from mirrorgate_bridge.kafka.cluster import Cluster, error_of, is_incremental, open_consumer
from mirrorgate_bridge.kafka.delivery import Counters
from mirrorgate_bridge.kafka.partition import Partition, SharedResources
from mirrorgate_bridge.kafka.registry import Decoders, Gateway
from mirrorgate_bridge.kafka.settings import BridgeSettings, TopicRule, rule_of
from mirrorgate_bridge.log import BridgeLog

LOOK_SECONDS: Final = 15.0
_AGAIN_SECONDS: Final = 2.0


class Watch:
    """A thread that asks the brokers for their topics."""

    def __init__(
        self,
        rules: Sequence[TopicRule],
        cluster: Cluster,
        log: BridgeLog,
        subscribe: Callable[[list[str]], None],
        counts: Callable[[dict[str, int]], None],
        stop: threading.Event,
    ) -> None:
        self.topics: list[str] = []
        """The topics that are consumed."""
        self.missing: list[str] = []
        self.trouble: MirrorgateError | None = None
        self._has_looked = False
        self._rules = rules
        self._cluster = cluster
        self._log = log
        self._subscribe = subscribe
        self._counts = counts
        self._thread = PeriodicThread("watch", self._pause, self._try, ended=stop)

    def start(self) -> None:
        """Look until the bridge stops."""
        self._thread.start()

    def reasons(self) -> list[str]:
        """Return why the bridge is not ready, nothing if all topics are found."""
        found = [f"topic {topic}: does not exist, or the bridge may not describe it" for topic in self.missing]
        if self.trouble is not None:
            found.append(f"kafka: {self.trouble.code}: {self.trouble.detail}")
        elif not self._has_looked:
            found.append("kafka: the brokers have not answered yet")
        return found

    def _pause(self) -> float:
        return LOOK_SECONDS if self.topics and not self.missing and self.trouble is None else _AGAIN_SECONDS

    def _try(self) -> None:
        try:
            self._look()
        except MirrorgateError as error:
            self.trouble = error
            self._log.warning("brokers_away", code=error.code, detail=error.detail, remedy=error.remedy)

    def _look(self) -> None:
        counts = self._cluster.topics()
        found = sorted(
            topic for topic in counts if not topic.startswith("__") and rule_of(topic, self._rules) is not None
        )
        self._cluster.learn_ids(found)
        self.trouble, self._has_looked = None, True
        self.missing = [rule.name for rule in self._rules if rule.topic is not None and rule.name not in counts]
        for topic in self.missing:
            self._log.error(
                "unknown_topic",
                about=topic,
                code=Code.SOURCE_REJECTED,
                topic=topic,
                detail="the topic does not exist, or the bridge may not describe it",
                remedy="Create it, correct its name in the file, or grant Describe and Read on it.",
            )
        if set(found) - set(self.topics):
            self.topics = sorted({*self.topics, *found})
            self._log.info("topics_found", topics=", ".join(self.topics[:50]), count=len(self.topics))
            self._subscribe(self.topics)
        self._counts({topic: counts[topic] for topic in found})


MAX_RECORDS_AT_A_TIME: Final = 2_000
_POLL_SECONDS: Final = 0.05
_WAIT_FOR_ROOM: Final = 1.0
_WAIT_FOR_POSITIONS: Final = 2.0
_COMMIT_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 5.0
_MIN_BUFFER: Final = 64 * 2**10
_LOST: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})


class KafkaBridge:
    """The bridge's consumer, which runs until `stop` is set."""

    def __init__(self, settings: BridgeSettings, choices: Choices, log: BridgeLog, stop: threading.Event) -> None:
        self.settings = settings
        self.log = log
        self.stop = stop
        self.partitions: dict[tuple[str, int], Partition] = {}
        """The assigned partitions. Changed by the consumer's thread alone; others read a copy."""
        self.ended: dict[tuple[str, int], Counters] = {}
        """Counts of partitions that were revoked, so that counters never decrease."""
        self.trouble: MirrorgateError | None = None
        """Last answer of the brokers to the consumer; None while they answer well."""
        self.last_loop = time.monotonic()
        self.watch: Watch | None = None
        self._fatal: MirrorgateError | None = None
        self._choices = choices
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._committed: dict[tuple[str, int], int] = {}
        self._commit_at = 0.0
        self._look_at = 0.0
        self._is_incremental = is_incremental(settings)
        self._decoders = Decoders(settings.registry)

    def run(self) -> None:
        """Run until `stop` is set; then finish the requests in flight, commit, and leave the group.

        Raises Misconfigured `source_rejected` when librdkafka cannot continue, as for a fenced static member.
        """
        self._consumer = open_consumer(self.settings, error_cb=self._on_error)
        cluster = Cluster(open_consumer(self.settings), self.settings.kafka.settings)
        with Gateway(self.settings.gateway) as client, closing(self._decoders):
            self._shared = SharedResources(
                self.settings, client, cluster, self.log, self._choices, self._decoders.of, self._restart, self._hold
            )
            watch = Watch(self.settings.topics, cluster, self.log, self._subscribe, self.take_counts, self.stop)
            self.watch = watch
            watch.start()
            try:
                while not self.stop.is_set():
                    self._step()
                    if self._fatal is not None:
                        raise self._fatal
            finally:
                self.stop.set()
                self._leave()

    def is_alive(self) -> bool:
        """Return True while the consumer's thread works."""
        return time.monotonic() - self.last_loop < 120

    def reasons(self) -> list[str]:
        """Return why the bridge is not ready, nothing if it is."""
        found = [f"{p.name} {p.state.name}: {p.state.code or ''}" for p in [*self.partitions.values()] if not p.is_well]
        if self.trouble is not None:
            found.append(f"kafka: {self.trouble.code}: {self.trouble.detail}")
        return [*found[:100], *(self.watch.reasons() if self.watch else ["the bridge starts"])]

    def _step(self) -> None:
        self.last_loop = time.monotonic()
        for _ in range(self._commands.qsize()):
            self._commands.get()()
        messages = self._consumer.consume(MAX_RECORDS_AT_A_TIME, timeout=_POLL_SECONDS)
        if messages:
            self._hand_over(messages)
            self._make_room()
        for partition in self.partitions.values():
            if partition.is_paused and partition.reads and partition.buffer.bytes < partition.buffer.room / 2:
                self._flow(self._consumer.resume, partition)
                partition.is_paused = False
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + _LOOK_SECONDS
            for partition in self.partitions.values():
                self._note_end(partition)
        if now >= self._commit_at:
            self._commit(asynchronous=True)

    def _share_memory(self) -> None:
        """Set how many bytes the buffers of the assigned partitions may hold."""
        batch = self.settings.batch
        room = max(min(2 * batch.max_bytes, batch.memory // max(len(self.partitions), 1)), _MIN_BUFFER)
        for partition in self.partitions.values():
            partition.buffer.room = room

    def _hand_over(self, messages: Sequence[Message]) -> None:
        """Put records into the buffers of their partitions, in runs of one partition."""
        run: list[Message] = []
        key: tuple[str, int] | None = None
        for message in messages:
            if message.error() is not None:
                self._on_message_error(message)
                continue
            found = (message.topic(), message.partition())
            if found != key:
                self._put(key, run)
                run, key = [], found  # type: ignore[assignment]  # a message without an error has both
            run.append(message)
        self._put(key, run)

    def _put(self, key: tuple[str, int] | None, run: list[Message]) -> None:
        if run and key is not None and (partition := self.partitions.get(key)) is not None:
            partition.buffer.put(run)
            self.trouble = None

    def _make_room(self) -> None:
        """Wait a little while a running partition's buffer is full, then pause what is still full."""
        until = time.monotonic() + _WAIT_FOR_ROOM
        while True:
            full = [p for p in self.partitions.values() if not p.is_paused and p.buffer.is_full]
            moving = [p for p in full if p.state.name == "running"]
            if not full:
                return
            if moving and time.monotonic() < until and self._commands.empty() and not self.stop.is_set():
                moving[0].buffer.wait_for_room(0.05)
                continue
            for partition in full:
                self._flow(self._consumer.pause, partition)
                partition.is_paused = True
            return

    def _flow(self, call: Callable[[list[TopicPartition]], Any], partition: Partition) -> None:
        try:
            call([TopicPartition(partition.topic, partition.number)])
        except KafkaException as error:
            self.log.warning("kafka_error", about=partition.name, detail=str(error.args[0]))

    def _note_end(self, partition: Partition) -> None:
        """Note where the log ends, as the last fetch told it. Another thread that asks can block librdkafka."""
        try:
            one = TopicPartition(partition.topic, partition.number)
            offsets = self._consumer.get_watermark_offsets(one, cached=True)
        except KafkaException:
            return
        if offsets is not None and offsets[1] >= 0:
            partition.log_end = int(offsets[1])

    def _restart(self, partition: Partition, offset: int) -> None:
        """Let the partition read from `offset` on; its thread calls this."""

        def restart() -> None:
            is_ours = self.partitions.get((partition.topic, partition.number)) is partition
            if not is_ours or partition.start_at.get() is None:
                return  # it was revoked, or assigned at this offset
            try:
                self._consumer.seek(TopicPartition(partition.topic, partition.number, offset))
            except KafkaException:
                self._commands.put(restart)  # the consumer has not started the partition yet
                return
            self._begin(partition)
            self._flow(self._consumer.resume, partition)

        partition.start_at.set(offset)
        self._commands.put(restart)

    def _begin(self, partition: Partition) -> None:
        """Accept the records of a partition that the consumer reads from the wanted offset on."""
        offset = partition.start_at.take()
        assert offset is not None
        partition.buffer.begin(offset)
        partition.is_paused, partition.reads = False, True

    def _hold(self, partition: Partition) -> None:
        """Read no more of the partition; its thread calls this."""

        def hold() -> None:
            if self.partitions.get((partition.topic, partition.number)) is partition:
                self._flow(self._consumer.pause, partition)
                partition.is_paused, partition.reads = True, False

        self._commands.put(hold)

    def _subscribe(self, topics: list[str]) -> None:
        """Consume these topics from now on; the watch calls this."""

        def subscribe() -> None:
            self._consumer.subscribe(
                topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )

        self._commands.put(subscribe)

    def take_counts(self, counts: dict[str, int]) -> None:
        """Take the numbers of partitions that the brokers told just now; the watch calls this."""
        if self.trouble is not None and self.trouble.code is Code.SOURCE_UNAVAILABLE:
            self.trouble = None
        for partition in [*self.partitions.values()]:
            if partition.topic in counts:
                partition.topic_is(self._shared.cluster.ids.get(partition.topic))
                partition.partitions_are(counts[partition.topic])

    def _on_assign(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        """Start each partition where the gateway's position says; paused, while the gateway has not told it yet.

        A later seek costs up to a second, so a gateway that answers at once is waited for.
        """
        partitions = []
        for one in assigned:
            rule = rule_of(one.topic, self.settings.topics)
            assert rule is not None
            partition = Partition(one.topic, one.partition, rule, self._shared)
            self.partitions[one.topic, one.partition] = partition
            partitions.append(partition)
            partition.start()
        self._share_memory()
        until = time.monotonic() + _WAIT_FOR_POSITIONS
        known = [partition.start_at.wait(until - time.monotonic()) for partition in partitions]
        start = [TopicPartition(p.topic, p.number, offset or 0) for p, offset in zip(partitions, known, strict=True)]
        (consumer.incremental_assign if self._is_incremental else consumer.assign)(start)
        for partition, offset in zip(partitions, known, strict=True):
            if offset is None:
                self._flow(consumer.pause, partition)
            else:
                self._begin(partition)
                # librdkafka keeps a partition paused that this process had paused before it was revoked.
                self._flow(consumer.resume, partition)
        self.log.info("partitions_assigned", partitions=_names(assigned))

    def _on_revoke(self, _: Consumer, revoked: list[TopicPartition]) -> None:
        self._end([(one.topic, one.partition) for one in revoked], self.settings.stop.within, is_owner=True)
        self.log.info("partitions_revoked", partitions=_names(revoked))

    def _on_lost(self, _: Consumer, lost: list[TopicPartition]) -> None:
        self._end([(one.topic, one.partition) for one in lost], 0, is_owner=False)
        self.log.warning("partitions_lost", partitions=_names(lost))

    def _end(self, keys: Sequence[tuple[str, int]], within: float, *, is_owner: bool) -> None:
        """End partitions: requests in flight may take `within` seconds. A request that takes longer may still land.

        The next owner then learns of it by a conflict, and continues after it.
        """
        ending = [(key, self.partitions[key]) for key in keys if key in self.partitions]
        for _, partition in ending:
            partition.request_stop()
        until = time.monotonic() + within
        for _, partition in ending:
            if not partition.join(until - time.monotonic()) and within:
                self.log.warning("request_abandoned", about=partition.name, partition=partition.name)
        if is_owner:
            self._commit(asynchronous=False)
        for key, partition in ending:
            del self.partitions[key]
            self.ended[key] = self.ended.get(key, Counters()).plus(partition.counters)
            self._committed.pop(key, None)
        self._share_memory()

    def _leave(self) -> None:
        """End all partitions and leave the group; unreachable brokers would hold up librdkafka for a minute."""
        self._end([*self.partitions], self.settings.stop.within, is_owner=self.trouble is None)
        closing = threading.Thread(target=self._consumer.close, name="close", daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)

    def _commit(self, *, asynchronous: bool) -> None:
        """Commit the positions for lag tools. A failure is of no consequence."""
        self._commit_at = time.monotonic() + _COMMIT_SECONDS
        offsets = []
        for key, partition in self.partitions.items():
            last = partition.last_offset
            if last is not None and self._committed.get(key) != last:
                self._committed[key] = last
                offsets.append(TopicPartition(*key, last + 1))
        if not offsets:
            return
        try:
            if asynchronous:
                self._consumer.commit(offsets=offsets, asynchronous=True)
            else:
                self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            self.log.warning("commit_failed", detail=error.args[0].str())

    def _on_message_error(self, message: Message) -> None:
        error = message.error()
        assert error is not None
        partition = self.partitions.get((message.topic() or "", message.partition() or 0))
        if error.code() in _LOST:
            if partition is not None and partition.reads:
                partition.stop_because(log_ended(partition.last_offset))
            return
        self._on_error(error)

    def _on_error(self, error: KafkaError) -> None:
        trouble = error_of(error)
        if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:  # the watch knows which topics are missed
            self.trouble = trouble
        if error.fatal():
            self._fatal = Misconfigured(Code.SOURCE_REJECTED, trouble.detail, remedy="Start the bridge again.")
        self.log.warning("kafka_error", about=error.name(), code=trouble.code, detail=trouble.detail)


def _names(partitions: Sequence[TopicPartition]) -> str:
    """Return the partitions for a log line: the first ones, and how many there are."""
    names = [f"{one.topic}/{one.partition}" for one in partitions]
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


MAX_SERIES: Final = 1_000
_PREFIX: Final = "mirrorgate_bridge"
_STATES: Final = ("opening", "running", "waiting", "stopped", "closed")
_HELP: Final = {
    "records": "Records that are durable at the gateway",
    "bytes": "Bytes of the durable records in requests",
    "requests": "Requests that are durable",
    "retries": "Waits before a request or a question was repeated",
    "rejections": "Requests that the gateway rejected",
    "dead_letters": "Rejected messages that the gateway keeps as dead letters",
    "set_aside": "Rejected records that were written to the folder of rejected records",
    "skipped": "Records that the operator skipped",
    "ignored": "Tombstones that the format has no use for",
    "conflicts": "Times that another process had sent under the partition's name",
    "stops": "Times that the partition stopped",
}


class BridgeMetrics(Collector):
    """Metrics of a bridge. Counters never fall after a rebalance: ended partitions still count."""

    def __init__(self, bridge: KafkaBridge) -> None:
        self._bridge = bridge

    def collect(self) -> Iterable[Metric]:
        """Return the counters and gauges of every partition, and the number of partitions by state."""
        partitions = sorted([*self._bridge.partitions.values()], key=lambda one: (one.topic, one.number))
        for field in fields(Counters):
            metric = CounterMetricFamily(f"{_PREFIX}_{field.name}", _HELP[field.name], labels=["topic", "partition"])
            for labels, value in self._counted(partitions, field.name).items():
                metric.add_metric(list(labels), value)
            yield metric
        for name, text, value_of in (
            ("last_offset", "Last durable offset", lambda one: one.last_offset),
            ("lag_records", "Offsets after the last durable one", lambda one: one.lag),
            ("buffered_bytes", "Bytes in memory", lambda one: one.buffer.bytes),
            ("partition_stopped", "1 while the partition is stopped", lambda one: int(one.state.name == "stopped")),
            ("paused", "1 while the consumer does not read the partition", lambda one: int(one.is_paused)),
        ):
            yield _gauge(name, text, partitions, value_of)
        states = GaugeMetricFamily(f"{_PREFIX}_partitions", "Assigned partitions by state", labels=["state"])
        for state in _STATES:
            states.add_metric([state], sum(one.state.name == state for one in partitions))
        yield states
        ready = GaugeMetricFamily(f"{_PREFIX}_ready", "1 while every partition runs and the brokers answer")
        ready.add_metric([], int(not self._bridge.reasons()))
        yield ready

    def _counted(self, partitions: Iterable[Partition], name: str) -> dict[tuple[str, str], int]:
        counted: dict[tuple[str, str], int] = {}
        found = [*self._bridge.ended.items(), *(((one.topic, one.number), one.counters) for one in partitions)]
        for (topic, number), counters in found:
            labels = (topic, str(number))
            if labels not in counted and len(counted) >= MAX_SERIES:
                labels = (
                    (topic, "other") if (topic, "other") in counted or len(counted) < 2 * MAX_SERIES else ("other",) * 2
                )
            counted[labels] = counted.get(labels, 0) + getattr(counters, name)
        return counted


def registry_of(bridge: KafkaBridge) -> CollectorRegistry:
    """Return the metrics of a bridge and of its process."""
    return ProcessMetrics("kafka-bridge", _PREFIX, BridgeMetrics(bridge)).registry


def _gauge(name: str, text: str, partitions: Iterable[Partition], value_of: Any) -> GaugeMetricFamily:
    metric = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=["topic", "partition"])
    for one in [*partitions][:MAX_SERIES]:
        value = value_of(one)
        if value is not None:
            metric.add_metric([one.topic, str(one.number)], value)
    return metric


def serve(settings: BridgeSettings, choices: Choices) -> None:
    """Run the bridge until SIGTERM or SIGINT. A second signal ends the process at once; nothing is lost by that."""
    keep_freed_memory()
    collect_seldom()  # buffers hold many records, which collections would visit and never find garbage
    stop = threading.Event()

    def end(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    log = BridgeLog(settings.log)
    bridge = KafkaBridge(settings, choices, log, stop)
    health = Health(registry_of(bridge), lambda: _status(bridge), bridge.reasons, bridge.is_alive)
    with serving(health, settings.health) as port:
        log.info(
            "bridge_starts",
            gateway=settings.gateway.url,
            brokers=settings.kafka.settings["bootstrap.servers"],
            cluster=settings.kafka.cluster,
            group=settings.kafka.group,
            topics=", ".join(f"{rule.name} ({rule.format})" for rule in settings.topics),
            health=f"http://{settings.health.host}:{port}/readyz",
        )
        bridge.run()
    log.info("bridge_ended")


def _status(bridge: KafkaBridge) -> dict[str, Any]:
    """Return what `/readyz` tells beside the reasons: the states, and the partitions that do not run."""
    partitions = [*bridge.partitions.values()]
    troubled = [one for one in partitions if not one.is_well][:100]
    return {
        "partitions": Counter(one.state.name for one in partitions),
        "topics": bridge.watch.topics[:100] if bridge.watch else [],
        "not_running": [
            {
                "topic": one.topic,
                "partition": one.number,
                "state": one.state.name,
                "offset": one.state.offset,
                "code": one.state.code,
                "detail": one.state.detail,
                "pointer": one.state.pointer,
                "remedy": one.state.remedy,
            }
            for one in troubled
        ],
    }
