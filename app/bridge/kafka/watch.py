"""Look for topics now and then: which ones the rules match, which are missing, and how many partitions they have.

The bridge subscribes to the names that it finds, because librdkafka's patterns know no named groups. A topic that a
rule names and that does not exist keeps the bridge from being ready; it is consumed once it exists.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from app.bridge.kafka.cluster import Cluster
from app.bridge.kafka.topics import TopicRule, rule_of
from app.bridge.log import BridgeLog
from app.errors import Code, MirrorgateError

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
        self._stop = stop
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Start looking."""
        self._thread.start()

    def look_now(self) -> None:
        """Look before the next time is due."""
        self._wake.set()

    def reasons(self) -> list[str]:
        """Return why the bridge is not ready, nothing if all topics are found."""
        found = [f"topic {topic}: does not exist, or the bridge may not describe it" for topic in self.missing]
        if self.trouble is not None:
            found.append(f"kafka: {self.trouble.code}: {self.trouble.detail}")
        elif not self._has_looked:
            found.append("kafka: the brokers have not answered yet")
        return found

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._look()
                seconds = LOOK_SECONDS if self.topics and not self.missing else _AGAIN_SECONDS
            except MirrorgateError as error:
                self.trouble = error
                self._log.warning("brokers_away", code=error.code, detail=error.detail, remedy=error.remedy)
                seconds = _AGAIN_SECONDS
            self._wait(seconds)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._stop.is_set():
            if self._wake.wait(min(0.5, seconds)):
                self._wake.clear()
                return

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
