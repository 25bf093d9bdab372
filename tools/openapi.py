"""Write openapi/mirrorgate.v1.yaml, the committed HTTP contract, from the app: `make openapi`.

A test compares the committed file with the app, so that no change of the contract goes unnoticed.
"""

from pathlib import Path
from typing import Final

import yaml

from app.api.application import create_app
from app.settings import Settings

CONTRACT: Final = Path(__file__).resolve().parents[1] / "openapi" / "mirrorgate.v1.yaml"


def render_contract() -> str:
    """Return the contract as YAML, with every setting at its default."""
    contract = create_app(Settings.model_construct()).openapi()
    header = "# Written by `make openapi`; a test compares it with the app.\n"
    return header + yaml.safe_dump(contract, sort_keys=False, allow_unicode=True, width=110)


if __name__ == "__main__":
    CONTRACT.write_text(render_contract(), encoding="utf-8")
