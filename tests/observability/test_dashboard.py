"""The dashboard shows metrics that real processes expose, and Prometheus understands its queries (decision 0060)."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.observability.test_alerts import JOBS, needs_promtool
from tests.support.expositions import (
    PROCESSES,
    check_exposed,
    exposed,
    line_of,
    metric_names,
    recording,
    series_of,
)
from tests.support.processes import REPOSITORY, succeeded
from tools.dashboard.__main__ import COLUMNS, DASHBOARD, dashboard

GRAFANA: Final = REPOSITORY / "deploy" / "grafana"
STORED: Final[dict[str, Any]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))

VARIABLES: Final = {"$__rate_interval": "5m", "$table": ".*"}
"""What Grafana puts in place of its variables, all of which Prometheus would reject."""

OF_FAULTS: Final = {
    "Why tables are stopped",
    "Rejected requests per second",
    "Requests on the exact path",
    "Failed attempts per second",
    "Failures per second",
    "Tables that Fabric does not replicate",
    "Stopped partitions",
    "Stopped tables of objects",
}
"""Panels that are empty while nothing is wrong."""


def panels() -> Iterator[dict[str, Any]]:
    """Yield each panel, also those of closed rows."""
    for panel in STORED["panels"]:
        yield panel
        yield from panel.get("panels", ())


def queries() -> Iterator[tuple[str, str]]:
    """Yield the title of the panel and the query, for each query."""
    for panel in panels():
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def promql(query: str) -> str:
    for variable, value in VARIABLES.items():
        query = query.replace(variable, value)
    return query


def test_the_file_is_what_make_dashboard_writes() -> None:
    assert DASHBOARD.read_text(encoding="utf-8") == dashboard(), "run make dashboard"


def test_every_metric_and_label_is_exposed_by_a_real_process() -> None:
    for title, query in queries():
        check_exposed(query, title, without_series=True)


def test_every_panel_says_what_it_means_and_is_complete() -> None:
    for facts in ("id", "title"):
        found = [panel[facts] for panel in panels()]
        assert len(found) == len(set(found))
    for panel in panels():
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["description"].endswith("."), panel["title"]
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert [target["refId"] for target in panel["targets"]] == list("ABC"[: len(panel["targets"])])
            for target in panel["targets"]:
                labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                assert labels <= labels_of(target["expr"]), panel["title"]


def labels_of(query: str) -> set[str]:
    """Return the labels of what a query finds."""
    kept = re.findall(r" by \(([^)]*)\)", query)
    if kept:
        return set(kept[0].split(", "))
    return {label for name in metric_names(query) for label in exposed()[name]}


def test_no_panel_covers_another() -> None:
    for group in (STORED["panels"], *(panel["panels"] for panel in STORED["panels"] if panel.get("panels"))):
        for one, other in combinations((panel["gridPos"] for panel in group), 2):
            apart = (
                one["x"] + one["w"] <= other["x"]
                or other["x"] + other["w"] <= one["x"]
                or one["y"] + one["h"] <= other["y"]
                or other["y"] + other["h"] <= one["y"]
            )
            assert apart and one["x"] + one["w"] <= COLUMNS, (one, other)


def test_the_variables_of_queries_are_those_of_the_dashboard() -> None:
    declared = {variable["name"] for variable in STORED["templating"]["list"]}
    used = {name for _, query in queries() for name in re.findall(r"\$(\w+)", query)} - {"__rate_interval"}
    assert used | {"datasource"} == declared


@needs_promtool
def test_every_panel_of_a_healthy_gateway_has_data_except_those_about_faults(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("groups: []\n")
    tests = [
        {
            "expr": f"count({promql(query)}) > bool 0",
            "eval_time": "10m",
            "exp_samples": [] if title in OF_FAULTS else [{"labels": "{}", "value": 1}],
        }
        for title, query in queries()
    ]
    written = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": list(constant_series()), "promql_expr_test": tests}],
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(written))
    succeeded("promtool", "test", "rules", tmp_path / "tests.yaml")


def constant_series() -> Iterator[dict[str, str]]:
    """Yield what all processes of a healthy gateway expose, as promtool reads it."""
    shown = {name for _, query in queries() for name in metric_names(query)}
    for process in PROCESSES:
        series = series_of(recording(process))
        for (name, labels), value in series.items():
            if name in shown:
                labelled = tuple(sorted({**dict(labels), "instance": f"{process}:1", "job": JOBS[process]}.items()))
                yield {"series": line_of((name, labelled)), "values": f"{value}x10"}


@pytest.mark.parametrize("kind", ["datasources", "dashboards"])
def test_grafana_finds_prometheus_and_the_dashboard_when_it_starts(kind: str) -> None:
    [file] = (GRAFANA / "provisioning" / kind).glob("*.yaml")
    provisioned = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert provisioned["apiVersion"] == 1
    grafana = yaml.safe_load((REPOSITORY / "compose.observability.yaml").read_text())["services"]["grafana"]
    mounts = dict(mount.split(":")[:2] for mount in grafana["volumes"])
    assert mounts["./deploy/grafana/provisioning"] == "/etc/grafana/provisioning"
    if kind == "datasources":
        assert provisioned["datasources"][0]["url"].strip("${}") in grafana["environment"]
    else:
        assert mounts["./deploy/grafana/dashboards"] == provisioned["providers"][0]["options"]["path"]
