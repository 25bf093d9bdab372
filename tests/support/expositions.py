"""Recorded answers of `/metrics`: what the real processes expose, and how a fault changes it.

The recordings are in tests/observability/recorded. Tests of the processes compare what they expose with them, and tests
of alerts and dashboards use them as series. `MIRRORGATE_RECORD=1` writes them again.
"""

import os
import re
import time
from collections.abc import Iterable, Mapping
from functools import cache
from math import nan
from typing import Final, TypeAlias

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.processes import REPOSITORY

RECORDED: Final = REPOSITORY / "tests" / "observability" / "recorded"
ALERTS: Final = REPOSITORY / "deploy" / "prometheus" / "alerts.yaml"
PROCESSES: Final = ("api", "drain", "mirror", "kafka_bridge", "object_bridge")

Labels: TypeAlias = tuple[tuple[str, str], ...]
Series: TypeAlias = tuple[str, Labels]

_MIN_CHANGE: Final = 0.01
"""Smaller changes, such as of a clock, are not due to a fault."""

_MIN_AGE_CHANGE: Final = 60.0
"""The same for ages, which grow while faults are recorded."""

_SYSTEM: Final = re.compile(r"mirrorgate_\w+_process_")
"""Facts about a process, which depend on the operating system."""


def series_of(text: str) -> dict[Series, float]:
    """Return the value of each series of ours in an exposition."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("mirrorgate_") and not _SYSTEM.match(sample.name)
    }


def families_of(text: str) -> dict[str, str]:
    """Return the type of each metric of ours in an exposition, also of those without a series."""
    return {
        name: kind
        for name, kind in re.findall(r"^# TYPE (mirrorgate_\w+) (\w+)$", text, re.MULTILINE)
        if not _SYSTEM.match(name)
    }


def help_of(text: str) -> dict[str, str]:
    """Return the help text of each metric of ours."""
    return dict(re.findall(r"^# HELP (mirrorgate_\w+) (.*)$", text, re.MULTILINE))


def check_recorded(process: str, text: str, faults: Mapping[str, str] | None = None) -> None:
    """Compare what a process exposes, healthy and with faults, with its recording: metrics, labels, and changed series.

    Values are not compared, because they depend on time.
    """
    healthy = series_of(text)
    changed = {name: _changed(healthy, series_of(other)) for name, other in (faults or {}).items()}
    if os.environ.get("MIRRORGATE_RECORD"):
        _record(process, text, changed)
    recorded, recorded_faults = recording(process), recorded_changes(process)
    assert families_of(text) == families_of(recorded), "record again with MIRRORGATE_RECORD=1"
    assert _label_names(text) >= _label_names(recorded), "record again with MIRRORGATE_RECORD=1"
    assert changed.keys() == recorded_faults.keys(), "record again with MIRRORGATE_RECORD=1"
    for name, series in changed.items():
        assert _stable(series) >= _stable(recorded_faults[name]), f"record again with MIRRORGATE_RECORD=1: {name}"


def recording(process: str) -> str:
    """Return the recorded exposition of a healthy process."""
    return (RECORDED / f"{process}.prom").read_text(encoding="utf-8")


def recorded_at(process: str) -> float:
    """Return when the exposition was recorded, in seconds since 1970."""
    return float(recording(process).splitlines()[0].rpartition(" ")[2])


def recorded_changes(process: str) -> dict[str, dict[Series, float]]:
    """Return, for each recorded fault, the series that it adds or changes."""
    file = RECORDED / f"{process}_faults.prom"
    if not file.exists():
        return {}
    sections = re.split(r"^# fault: (\w+)\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {name: series_of(lines) for name, lines in zip(sections[::2], sections[1::2], strict=True)}


def metric_names(expression: str) -> set[str]:
    """Return the metrics of ours that an expression names."""
    return set(re.findall(r"\bmirrorgate_\w+", expression))


@cache
def exposed() -> dict[str, set[str]]:
    """Return the labels of each metric that a process exposes, healthy or not; none of one without a series."""
    found: dict[str, set[str]] = {}
    for process in PROCESSES:
        changed = [one for of in recorded_changes(process).values() for one in of]
        for name, labels in (*series_of(recording(process)), *changed):
            found.setdefault(name, {"instance", "job"}).update(label for label, _ in labels)
        for name in re.findall(r"^# TYPE (mirrorgate_\w+)", recording(process), re.MULTILINE):
            found.setdefault(name, set())  # such as a counter of errors
    return found


def check_exposed(expression: str, place: str, *, without_series: bool = False) -> None:
    """Check that processes expose each metric of an expression with its labels, or at least declare it."""
    for name in metric_names(expression):
        assert name in exposed(), (place, name)
        assert exposed()[name] or without_series, (place, name)
    for name, matchers in re.findall(r"(mirrorgate_\w+)\{([^}]*)\}", expression):
        if exposed()[name]:
            assert set(re.findall(r"(\w+)\s*[=!]", matchers)) <= exposed()[name], (place, matchers)


def line_of(series: Series) -> str:
    """Return a series as PromQL and the exposition format write it."""
    name, labels = series
    return name + ("{" + ",".join(f'{key}="{value}"' for key, value in labels) + "}" if labels else "")


def _changed(before: Mapping[Series, float], after: Mapping[Series, float]) -> dict[Series, float]:
    """Return what a fault changes of the series that alerts name, with NaN for a series that is gone."""
    named = {name for rule in alert_rules() for name in metric_names(rule["expr"])}
    changed = {
        series: after.get(series, nan)
        for series in before.keys() | after.keys()
        if series[0] in named and not abs(after.get(series, nan) - before.get(series, nan)) < _min_change(series)
    }
    return {series: value for series, value in changed.items() if ("route", "/metrics") not in series[1]}


def _min_change(series: Series) -> float:
    return _MIN_AGE_CHANGE if series[0].endswith("_age_seconds") else _MIN_CHANGE


@cache  # YAML in Python takes a third of a second
def alert_rules() -> list[dict[str, str]]:
    """Return the alerts."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _record(process: str, text: str, faults: Mapping[str, Mapping[Series, float]]) -> None:
    lines = [line for line in text.splitlines() if re.match(r"(# (HELP|TYPE) )?mirrorgate_", line)]
    lines = [line for line in lines if not _SYSTEM.match(line.removeprefix("# HELP ").removeprefix("# TYPE "))]
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"{process}.prom").write_text("\n".join([f"# recorded at {time.time():.0f}", *lines]) + "\n")
    sections = [
        "\n".join([f"# fault: {name}", *(f"{line_of(one)} {value}" for one, value in sorted(series.items()))])
        for name, series in faults.items()
    ]
    if sections:
        (RECORDED / f"{process}_faults.prom").write_text("\n".join(sections) + "\n")


def _label_names(text: str) -> set[tuple[str, tuple[str, ...]]]:
    return {(name, tuple(label for label, _ in labels)) for name, labels in series_of(text)}


def _stable(series: Iterable[Series]) -> set[str]:
    """Return the series without the labels that differ from run to run."""
    return {
        line_of((name, tuple((key, value) for key, value in labels if key not in {"worker", "version", "revision"})))
        for name, labels in series
    }
