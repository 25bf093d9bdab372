"""Panels of the dashboard, as short as their meaning, and as Grafana stores them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any, Final, TypeAlias

TABLE: Final = '{table=~"$table"}'


def of_tables(metric: str) -> str:
    """Return a gauge of the chosen tables, once for each table."""
    return f"max by (table) ({metric}{TABLE})"


def rate_of_tables(metric: str) -> str:
    """Return the growth per second of a counter of all chosen tables together."""
    return f"sum(max by (table) (rate({metric}{TABLE}[$__rate_interval])))"


def rate(metric: str, by: str = "", matching: str = "") -> str:
    """Return the growth per second of a counter of all processes."""
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{matching}[$__rate_interval]))"


def quantiles(metric: str, matching: str = "") -> dict[str, str]:
    """Return the median and two high quantiles of a histogram of seconds, by their legends."""
    buckets = f"sum by (le) (rate({metric}_bucket{matching}[$__rate_interval]))"
    return {f"{share:.0%}": f"histogram_quantile({share}, {buckets})" for share in (0.5, 0.95, 0.99)}


Json: TypeAlias = dict[str, Any]

DATASOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}

GOOD: Final = "green"
WARN: Final = "orange"
BAD: Final = "red"

Steps: TypeAlias = Sequence[tuple[float | None, str]]
"""Colors from a value on; the first step has no value."""

NONE_IS_GOOD: Final[Steps] = ((None, GOOD), (1, BAD))
NONE_IS_BAD: Final[Steps] = ((None, BAD), (1, GOOD))


@dataclass(frozen=True)
class Stat:
    """One number, with the color of its threshold."""

    title: str
    meaning: str
    query: str
    unit: str = "short"
    steps: Steps = ((None, GOOD),)
    name: str = ""
    """Shows the legend of the series by this template, in place of its value."""
    width: int = 4
    height: int = 4

    def stored(self) -> Json:
        """Return what Grafana stores of this kind of panel."""
        return {
            "type": "stat",
            "targets": [target(0, self.query, self.name)],
            "fieldConfig": {
                "defaults": {"unit": self.unit, "thresholds": thresholds(self.steps), "color": {"mode": "thresholds"}},
                "overrides": [],
            },
            "options": {
                "colorMode": "value",
                "graphMode": "none" if self.name else "area",
                "textMode": "name" if self.name else "auto",
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            },
        }


@dataclass(frozen=True)
class Graph:
    """Lines over time: queries by the template of their legend."""

    title: str
    meaning: str
    queries: Mapping[str, str]
    unit: str = "short"
    limit: float | None = None
    """From which value on the background is red."""
    stacked: bool = False
    width: int = 8
    height: int = 8

    def stored(self) -> Json:
        """Return what Grafana stores of this kind of panel."""
        custom = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 30 if self.stacked else 8,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": "normal" if self.stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": "off" if self.limit is None else "area"},
        }
        steps: Steps = ((None, "transparent"),) if self.limit is None else ((None, "transparent"), (self.limit, BAD))
        return {
            "type": "timeseries",
            "targets": [target(number, query, legend) for number, (legend, query) in enumerate(self.queries.items())],
            "fieldConfig": {
                "defaults": {"unit": self.unit, "min": 0, "custom": custom, "thresholds": thresholds(steps)},
                "overrides": [],
            },
            "options": {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
        }


@dataclass(frozen=True)
class Listing:
    """A table with one line for each series, whose labels are the columns."""

    title: str
    meaning: str
    query: str
    labels: Sequence[str]
    value: str | None = None
    """Title of the column of values; without it the values are hidden."""
    unit: str = "short"
    width: int = 12
    height: int = 8

    def stored(self) -> Json:
        """Return what Grafana stores of this kind of panel."""
        shown = {label: index for index, label in enumerate(self.labels)}
        renamed = {label: label.capitalize() for label in self.labels}
        if self.value is not None:
            shown["Value"], renamed["Value"] = len(shown), self.value
        return {
            "type": "table",
            "targets": [{**target(0, self.query, ""), "format": "table", "instant": True, "range": False}],
            "fieldConfig": {"defaults": {"unit": self.unit}, "overrides": []},
            "options": {"showHeader": True},
            "transformations": [
                {"id": "filterFieldsByName", "options": {"include": {"names": list(shown)}}},
                {"id": "organize", "options": {"indexByName": shown, "renameByName": renamed}},
            ],
        }


Panel: TypeAlias = Stat | Graph | Listing


@dataclass(frozen=True)
class Section:
    """A row of the dashboard that can be closed, with its panels."""

    title: str
    panels: Sequence[Panel]
    closed: bool = False


def target(number: int, query: str, legend: str) -> Json:
    """Return a query as Grafana stores it."""
    return {
        "refId": ascii_uppercase[number],
        "datasource": DATASOURCE,
        "expr": " ".join(query.split()),
        "legendFormat": legend,
        "range": True,
    }


def thresholds(steps: Steps) -> Json:
    """Return the colors of values as Grafana stores them."""
    return {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}
