"""The metrics of a process that serves them itself: one registry, what all processes have, and the port.

Bridges import this module, so it must not import settings or structlog.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, start_http_server
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from mirrorgate.errors import Code, Misconfigured

disable_created_metrics()  # type: ignore[no-untyped-call]  # a creation time per counter doubles the series, and no dashboard uses it

_SECONDS: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class BuildInfo(Collector):
    """Metric `mirrorgate_build_info`: the component and version, and the schema revision that the program needs."""

    def __init__(self, component: str, revision: str = "") -> None:
        self._component = component
        self.revision = revision

    def collect(self) -> Iterable[Metric]:
        """Return the metric; without a database, the label `revision` is empty."""
        build = InfoMetricFamily("mirrorgate_build", "Component, program version and schema revision")
        labels = {"component": self._component, "version": version("mirrorgate"), "revision": self.revision}
        build.add_metric([], labels)
        yield build


class ProcessMetrics:
    """The registry of one process, with its build and what the system says of it; makes its metrics."""

    def __init__(self, component: str, namespace: str, *collectors: Collector) -> None:
        self.component = component
        self.build = BuildInfo(component)
        self.registry = CollectorRegistry()
        for collector in (*collectors, self.build):
            self.registry.register(collector)
        ProcessCollector(namespace=namespace, registry=self.registry)

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """Make a counter."""
        return Counter(name, text, labels, registry=self.registry)

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        """Make a gauge."""
        return Gauge(name, text, labels, registry=self.registry)

    def seconds(self, name: str, text: str) -> Histogram:
        """Make a histogram of times."""
        return Histogram(name, text, buckets=_SECONDS, registry=self.registry)


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    """The address of a process's metrics; without a port, none are served. Port 0 takes any free one."""

    host: str
    port: int | None


@dataclass(frozen=True, slots=True)
class DriverView:
    """The metrics of a running Spark driver when they are read."""

    is_waiting: Callable[[], bool] = bool
    is_spark_up: Callable[[], bool] = bool
    spark_silent_seconds: Callable[[], float] = float


class DriverMetrics(ProcessMetrics):
    """The registry of a drain or a mirror: also whether it waits, how Spark is, and which resources are short."""

    def __init__(self, component: str, waits_for: str) -> None:
        """Make the metrics. `waits_for` says what it means that the process waits."""
        prefix = f"mirrorgate_{component}"
        super().__init__(component, prefix)
        self._waiting = self.gauge(f"{prefix}_waiting", waits_for)
        self._spark_up = self.gauge(
            f"{prefix}_spark_up", f"1 while Spark's JVM and context answer; otherwise the {component} ends"
        )
        self._spark_silent = self.gauge(
            f"{prefix}_spark_silent_seconds",
            f"Time for which the oldest call to Spark has made no progress; the {component} ends at its limit",
        )
        self.resource_low = self.gauge(
            f"{prefix}_resource_low", "1 while file descriptors or disk space are short, by check", ["check"]
        )

    def serve(self, address: MetricsAddress, view: DriverView) -> int | None:
        """Serve `/metrics` from a separate thread; return the port, None if none is set.

        Raises Misconfigured `bad_setting` when the port is taken or the host is not an address of this machine.
        """
        self._waiting.set_function(view.is_waiting)
        self._spark_up.set_function(view.is_spark_up)
        self._spark_silent.set_function(view.spark_silent_seconds)
        if address.port is None:
            return None
        try:
            server, _ = start_http_server(address.port, addr=address.host, registry=self.registry)
        except OSError as error:
            setting = f"MIRRORGATE_{self.component.upper()}_METRICS_PORT"
            raise Misconfigured(
                Code.BAD_SETTING,
                f"{setting}: the {self.component} cannot listen on {address.host}, port {address.port}: "
                f"{error.strerror}",
                remedy=f"Set a free port, one for each {self.component} of the machine; 0 chooses one. "
                "MIRRORGATE_METRICS_HOST must be an address of this machine, or 0.0.0.0 for all of them.",
            ) from error
        return int(server.server_port)
