"""The content of the dashboard: its sections, variables and links."""

from collections.abc import Sequence
from typing import Final

from mirrorgate.errors.site import SITE
from tools.dashboard.gateway import OVERVIEW, TABLES
from tools.dashboard.panels import DATASOURCE, Json
from tools.dashboard.processes import API, DRAIN
from tools.dashboard.receivers import BRIDGES, FABRIC, MIRROR

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
