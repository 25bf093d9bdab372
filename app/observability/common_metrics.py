"""What every process's metrics have: no creation times, and one series that says which program runs.

Bridges import this module, so it must not import settings or structlog.
"""

from collections.abc import Iterable
from importlib.metadata import version

from prometheus_client import disable_created_metrics
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.registry import Collector

disable_created_metrics()  # type: ignore[no-untyped-call]  # a creation time per counter doubles the series, and no dashboard uses it


class BuildInfo(Collector):
    """Collects `mirrorgate_build_info`: the component and version, and the schema revision that the program needs."""

    def __init__(self, component: str, revision: str = "") -> None:
        self._component = component
        self.revision = revision

    def collect(self) -> Iterable[Metric]:
        """Return the metric; without a database, the label `revision` is empty."""
        build = InfoMetricFamily("mirrorgate_build", "Component, program version and schema revision")
        labels = {"component": self._component, "version": version("mirrorgate"), "revision": self.revision}
        build.add_metric([], labels)
        yield build
