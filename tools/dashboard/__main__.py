"""Write the dashboard."""

import json
from pathlib import Path
from typing import Final

from tools.dashboard.content import LINKS, SECTIONS, VARIABLES
from tools.dashboard.layout import document

DASHBOARD: Final = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "dashboards" / "mirrorgate.json"


def dashboard() -> str:
    """Return the text of the file."""
    return json.dumps(document(SECTIONS, VARIABLES, LINKS), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    DASHBOARD.write_text(dashboard(), encoding="utf-8")
