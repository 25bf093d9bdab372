"""The bridge as a process: health port, status at the start, and a clean end on SIGTERM and Ctrl-C."""

import signal
import threading
from collections import Counter
from types import FrameType
from typing import Any

from app.bridge.health import Health, serving
from app.bridge.kafka.bridge import KafkaBridge
from app.bridge.kafka.choices import Choices
from app.bridge.kafka.metrics import registry_of
from app.bridge.kafka.settings import BridgeSettings
from app.bridge.log import BridgeLog
from app.process_memory import collect_seldom, keep_freed_memory


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
