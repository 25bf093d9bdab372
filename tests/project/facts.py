"""Facts about the repository that several of these tests compare."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY: Final = Path(__file__).resolve().parents[2]


CLIENT: Final = "clients/python"
"""The folder of the client's distribution `mirrorgate`; that of the gateway is the repository."""


def project_table(folder: str = ".") -> dict[str, Any]:
    """`[project]` of the pyproject.toml of a distribution."""
    table: dict[str, Any] = tomllib.loads((REPOSITORY / folder / "pyproject.toml").read_text())["project"]
    return table


def direct_requirements() -> dict[str, list[Requirement]]:
    """Return the direct dependencies by extra, without the project's own; `client` means those of the client."""
    table, client = project_table(), project_table(CLIENT)
    listed = {
        "client": client["dependencies"],
        **client["optional-dependencies"],
        "": table["dependencies"],
        **table["optional-dependencies"],
    }
    own = {table["name"], client["name"]}
    return {
        extra: [requirement for requirement in map(Requirement, lines) if requirement.name not in own]
        for extra, lines in listed.items()
    }


def locked_versions(lock: str) -> dict[str, str]:
    """Package -> version as pinned in `requirements/<lock>`."""
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", (REPOSITORY / "requirements" / lock).read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}
