"""Facts about the repository that several of these tests compare."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY: Final = Path(__file__).resolve().parents[2]


def project_table() -> dict[str, Any]:
    """`[project]` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return table


def direct_requirements() -> dict[str, list[Requirement]]:
    """Return the direct dependencies by extra, without the project's own extras; `""` means no extra."""
    table = project_table()
    listed = {"": table["dependencies"], **table["optional-dependencies"]}
    return {
        extra: [requirement for requirement in map(Requirement, lines) if requirement.name != table["name"]]
        for extra, lines in listed.items()
    }


def locked_versions(lock: str) -> dict[str, str]:
    """Package -> version as pinned in `requirements/<lock>`."""
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", (REPOSITORY / "requirements" / lock).read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}
