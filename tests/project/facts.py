"""Facts about the repository that several of these tests compare."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY: Final = Path(__file__).resolve().parents[2]


CLIENT: Final = "clients/python"
"""The folder of the client's distribution `mirrorgate`."""
GATEWAY: Final = "."
BRIDGE: Final = "packages/bridge"
ZONE: Final = "packages/zone"
DISTRIBUTIONS: Final = (CLIENT, GATEWAY, BRIDGE, ZONE)
"""The folder of each distribution."""


def project_table(folder: str = GATEWAY) -> dict[str, Any]:
    """`[project]` of the pyproject.toml of a distribution."""
    table: dict[str, Any] = tomllib.loads((REPOSITORY / folder / "pyproject.toml").read_text())["project"]
    return table


def direct_requirements() -> dict[str, list[Requirement]]:
    """Return the direct dependencies by `distribution` and `distribution[extra]`, without the project's own."""
    tables = {project_table(folder)["name"]: project_table(folder) for folder in DISTRIBUTIONS}
    listed = {name: table["dependencies"] for name, table in tables.items()}
    for name, table in tables.items():
        listed |= {f"{name}[{extra}]": lines for extra, lines in table.get("optional-dependencies", {}).items()}
    return {
        place: [requirement for requirement in map(Requirement, lines) if requirement.name not in tables]
        for place, lines in listed.items()
    }


def locked_versions(lock: str) -> dict[str, str]:
    """Package -> version as pinned in `requirements/<lock>`."""
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", (REPOSITORY / "requirements" / lock).read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}
