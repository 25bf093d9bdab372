"""Each alert fires on its fault and not otherwise, over series that real processes have exposed (decision 0060).

Without promtool, a part of the tests is skipped; the names of metrics and labels are checked always.
"""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from mirrorgate.errors.site import SITE
from tests.support.expositions import (
    ALERTS,
    PROCESSES,
    Series,
    alert_rules,
    check_exposed,
    line_of,
    metric_names,
    recorded_at,
    recorded_changes,
    recording,
    series_of,
)
from tests.support.processes import REPOSITORY, succeeded
from tools.reference import RUNBOOKS

MINUTES: Final = 45
NAMES: Final = {rule["alert"] for rule in alert_rules()}
NAMED: Final = {name for rule in alert_rules() for name in metric_names(rule["expr"])}
"""The metrics of alerts; the others do not matter to promtool, and take most of its time."""

JOBS: Final = {
    "api": "mirrorgate-api",
    "drain": "mirrorgate-drain",
    "mirror": "mirrorgate-mirror",
    "kafka_bridge": "mirrorgate-bridge",
    "object_bridge": "mirrorgate-bridge",
}
PROMTOOL: Final = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: apt-get install --no-install-recommends prometheus"
)


@dataclass(frozen=True)
class Fault:
    """A fault: the recorded changes of a process, or values of single series, and the alerts that it must cause."""

    name: str
    alerts: tuple[str, ...]
    process: str = "api"
    recorded: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    """Values of series over time in promtool's notation, by the series."""
    gone: str | None = None
    """A process of which Prometheus has no series."""


def of_api(recorded: str, *alerts: str, **values: str) -> Fault:
    return Fault(recorded, alerts, recorded=recorded, values=values)


FAULTS: Final = (
    Fault("healthy", ()),
    of_api("quarantined", "TableQuarantined"),
    of_api("failing", "TableFailing"),
    of_api("lag", "LagOld"),
    of_api("backlog_nearly_full", "BacklogNearlyFull"),
    of_api("backlog_full", "BacklogFull"),
    of_api("dead_letters", "DeadLettersWaiting"),
    of_api("changes_missing", "ChangesMissing"),
    of_api("source_lag", "SourceLag"),
    of_api("load_idle", "LoadIdle"),
    of_api("mirror_behind", "MirrorBehind"),
    of_api("mirror_stopped", "MirrorStopped"),
    of_api("drain_waiting", "DrainWaiting"),
    of_api("clock", "ClockOff"),
    of_api("future", "ClockOff"),
    of_api("no_drain", "NoDrain"),
    of_api("not_writing", "ApiNotWriting"),
    of_api("resource_low", "ResourceLow"),
    of_api("no_database", "DatabaseAway"),
    of_api("memory", "MemoryBudgetFull"),
    Fault(
        "errors",
        ("ApiErrors",),
        values={'mirrorgate_requests_total{route="/v1/changes/arcion",status="503"}': "0+6x45"},
    ),
    Fault("pool", ("DatabasePoolExhausted",), values={"mirrorgate_database_connections_waiting": "3x45"}),
    Fault("short_wait", (), values={"mirrorgate_database_connections_waiting": "3 0 3 0x42"}),
    Fault(
        "drain_descriptors",
        ("ResourceLow",),
        "drain",
        values={'mirrorgate_drain_resource_low{check="descriptor_limit"}': "1x45"},
    ),
    Fault("stuck", ("DrainStuck",), "drain", values={"mirrorgate_drain_spark_silent_seconds": "0+60x45"}),
    Fault("lease", ("DrainLeaseFailing",), "drain", values={"mirrorgate_drain_lease_failures_total": "0+6x45"}),
    Fault(
        "asleep", ("DrainLeaseFailing",), "drain", values={"mirrorgate_drain_lease_renewed_timestamp_seconds": "0x45"}
    ),
    Fault("storage", ("StorageFailing",), "drain", values={"mirrorgate_drain_storage_failures_total": "0+1x45"}),
    Fault(
        "maintenance",
        ("MaintenanceFailing",),
        "drain",
        values={"mirrorgate_drain_maintenance_failures_total": "0+1x45"},
    ),
    Fault(
        "no_maintenance",
        ("MaintenanceFailing",),
        "drain",
        values={"mirrorgate_drain_last_maintenance_timestamp_seconds": "0x45"},
    ),
    Fault("zone_of_mirror", ("MirrorNotLooking",), "mirror", recorded="away"),
    Fault("partition", ("BridgePartitionStopped", "BridgeNotReady"), "kafka_bridge", recorded="stopped"),
    Fault(
        "lag_of_bridge",
        ("BridgeLag",),
        "kafka_bridge",
        values={'mirrorgate_bridge_lag_records{partition="0",topic="c_killed"}': "20000+100x45"},
    ),
    Fault(
        "bridge_catches_up",
        (),
        "kafka_bridge",
        values={'mirrorgate_bridge_lag_records{partition="0",topic="c_killed"}': "200000-1000x45"},
    ),
    Fault("objects", ("BridgeTableStopped", "BridgeNotReady"), "object_bridge", recorded="stopped"),
    of_api("fabric_paused", "FabricPaused"),
    of_api("fabric_failed", "FabricDatabaseFailed"),
    of_api("fabric_stopped", "FabricDatabaseFailed"),
    of_api("fabric_table", "FabricTableFailed"),
    of_api("fabric_stale", "FabricStatusStale"),
    *(
        Fault(
            f"lag_{state}",
            (),
            values={
                'mirrorgate_lag_oldest_seconds{table="sales.orders"}': "1200x45",
                'mirrorgate_table_state{state="active",table="sales.orders"}': "0x45",
                f'mirrorgate_table_state{{state="{state}",table="sales.orders"}}': "1x45",
            },
        )
        for state in ("rebuilding", "dropping")
    ),
    Fault("down", ("ScrapeDown",), values={'up{instance="drain:1",job="mirrorgate-drain"}': "0x45"}),
    Fault("down_in_kubernetes", ("ScrapeDown",), values={'up{instance="drain:1",job="mirrorgate"}': "0x45"}),
    Fault("missing", ("MetricsMissing",), gone="api"),
)


def test_every_alert_has_a_fault() -> None:
    assert {f"Mirrorgate{alert}" for fault in FAULTS for alert in fault.alerts} == NAMES


@needs_promtool
def test_promtool_accepts_the_rules_and_the_scrape_configurations(tmp_path: Path) -> None:
    shutil.copytree(ALERTS.parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "mirrorgate.key").write_text("mg_…")
    succeeded("promtool", "check", "rules", tmp_path / "alerts.yaml")
    succeeded("promtool", "check", "config", tmp_path / "prometheus.yaml", tmp_path / "compose.yaml")


@needs_promtool
@pytest.mark.slow
def test_each_alert_fires_on_its_fault_and_not_otherwise(tmp_path: Path) -> None:
    shutil.copy(ALERTS, tmp_path)
    tests = [promtools_test(fault) for fault in FAULTS]
    (tmp_path / "tests.yaml").write_text(  # JSON is YAML, and written in a hundredth of the time
        json.dumps({"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": tests})
    )
    succeeded("promtool", "test", "rules", tmp_path / "tests.yaml")


def test_every_metric_and_label_of_the_alerts_is_exposed_by_a_real_process() -> None:
    for rule in alert_rules():
        check_exposed(rule["expr"], rule["alert"])


def test_every_alert_tells_what_to_do_and_leads_to_its_section() -> None:
    page = (REPOSITORY / "docs" / "troubleshoot" / "alerts.md").read_text(encoding="utf-8")
    titles = re.findall(r"^### (\w+)$", page, re.MULTILINE)
    assert titles == [rule["alert"] for rule in alert_rules()]
    assert {f"Mirrorgate{name}" for name in RUNBOOKS} <= {*titles}
    for rule in alert_rules():
        annotations: Any = rule["annotations"]
        labels: Any = rule["labels"]
        assert labels["severity"] in {"critical", "warning"}
        assert annotations.keys() == {"summary", "description", "runbook_url"}
        assert annotations["runbook_url"] == f"{SITE}troubleshoot/alerts/#{rule['alert'].lower()}"


def promtools_test(fault: Fault) -> dict[str, Any]:
    """Return promtool's test of one fault: the series of all processes, and the alerts that fire in the end."""
    firing = [f'ALERTS{{alertname="Mirrorgate{alert}",alertstate="firing"}}' for alert in sorted(fault.alerts)]
    alerts = 'count by (alertname, alertstate) (ALERTS{alertstate="firing"}) > bool 0'
    samples = [{"labels": labels.removeprefix("ALERTS"), "value": 1} for labels in firing]
    return {
        "name": fault.name,
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in series_over_time(fault).items()],
        "promql_expr_test": [{"expr": alerts, "eval_time": f"{MINUTES - 1}m", "exp_samples": samples}],
    }


def series_over_time(fault: Fault) -> dict[str, str]:
    """Return the values of each series: constant as recorded, with the changes of the fault."""
    found: dict[str, str] = {}
    for process in PROCESSES:
        instance = {"instance": f"{process}:1", "job": JOBS[process]}
        found[line_of(("up", tuple(sorted(instance.items()))))] = f"1x{MINUTES}"
        if process == fault.gone:
            continue
        series = recorded_series(process)
        if process == fault.process and fault.recorded is not None:
            series = series | recorded_changes(process)[fault.recorded]
        series = {one: value for one, value in series.items() if one[0] in NAMED}
        values = {one: over_time(one[0], value, recorded_at(process)) for one, value in series.items()}
        if process == fault.process:
            values |= {parsed(one): value for one, value in fault.values.items() if not one.startswith("up{")}
        for (name, labels), text in values.items():
            found[line_of((name, tuple(sorted({**dict(labels), **instance}.items()))))] = text
    return found | {one: value for one, value in fault.values.items() if one.startswith("up{")}


@cache
def recorded_series(process: str) -> dict[Series, float]:
    return series_of(recording(process))


def over_time(name: str, value: float, recorded: float) -> str:
    """Return a recorded value for every minute. A time stays as long ago as it was; NaN is a series that is gone."""
    if value != value:
        return f"_x{MINUTES}"
    if name.endswith("_timestamp_seconds"):
        return f"{value - recorded if value else 0:.3f}+60x{MINUTES}"
    return f"{value}x{MINUTES}"


def parsed(series: str) -> Series:
    """Return a series that is written as in PromQL."""
    name, _, labels = series.partition("{")
    return name, tuple(sorted(re.findall(r'(\w+)="([^"]*)"', labels)))
