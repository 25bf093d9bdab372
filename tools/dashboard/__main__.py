"""Write the dashboard."""

import json
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final

from mirrorgate.errors.site import SITE
from tools.dashboard.gateway import OVERVIEW, TABLES
from tools.dashboard.panels import DATASOURCE, Json, Panel, Section
from tools.dashboard.processes import API, DRAIN
from tools.dashboard.receivers import BRIDGES, FABRIC, MIRROR

COLUMNS: Final = 24
SCHEMA_VERSION: Final = 39
"""Of Grafana 11; newer versions migrate it when they load it."""


def document(sections: Sequence[Section], variables: Sequence[Json], links: Sequence[Json]) -> Json:
    """Return the dashboard."""
    return {
        "uid": "mirrorgate",
        "title": "Mirrorgate",
        "description": "One gateway or several: what is stopped, how far each table is, and what each process does.",
        "tags": ["mirrorgate"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": list(variables)},
        "annotations": {"list": []},
        "links": list(links),
        "panels": list(_placed(sections)),
    }


def _placed(sections: Sequence[Section]) -> Iterator[Json]:
    ids = count(1)
    top = 0
    for section in sections:
        row: Json = {
            "id": next(ids),
            "type": "row",
            "title": section.title,
            "collapsed": section.closed,
            "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
            "panels": [],
        }
        panels, bottom = _flow(section.panels, ids, top + 1)
        yield row | {"panels": panels if section.closed else []}
        if not section.closed:
            yield from panels
        top = top + 1 if section.closed else bottom


def _flow(panels: Sequence[Panel], ids: Iterator[int], top: int) -> tuple[list[Json], int]:
    """Return placed panels, and the first line below them."""
    placed: list[Json] = []
    left = height = 0
    for panel in panels:
        if left + panel.width > COLUMNS:
            left, top, height = 0, top + height, 0
        placed.append(
            {
                "id": next(ids),
                "title": panel.title,
                "description": panel.meaning,
                "datasource": DATASOURCE,
                "gridPos": {"x": left, "y": top, "w": panel.width, "h": panel.height},
                **panel.stored(),
            }
        )
        left, height = left + panel.width, max(height, panel.height)
    return placed, top + height


SECTIONS: Final = (OVERVIEW, TABLES, API, DRAIN, FABRIC, MIRROR, BRIDGES)

VARIABLES: Final[Sequence[Json]] = (
    {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
    {
        "name": "table",
        "label": "Table",
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": "label_values(mirrorgate_table_state, table)", "refId": "tables"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    },
)

LINKS: Final[Sequence[Json]] = (
    {
        "type": "link",
        "title": "What to do when an alert fires",
        "url": f"{SITE}troubleshoot/alerts/",
        "targetBlank": True,
    },
    {"type": "link", "title": "Faults and what to do", "url": f"{SITE}troubleshoot/faults/", "targetBlank": True},
)


DASHBOARD: Final = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "dashboards" / "mirrorgate.json"


def dashboard() -> str:
    """Return the text of the file."""
    return json.dumps(document(SECTIONS, VARIABLES, LINKS), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    DASHBOARD.write_text(dashboard(), encoding="utf-8")
