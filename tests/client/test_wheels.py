"""The wheels: their contents, and the client's own in an empty environment."""

import os
import subprocess
import sys
import zipfile
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from mirrorgate import GatewayClient
from mirrorgate.cli.main import COMMANDS, ELSEWHERE
from tests.api.calls import ADMIN_KEY
from tests.project.facts import BRIDGE, CLIENT, GATEWAY, REPOSITORY, ZONE
from tests.support.http.server import api_process
from tools.release import build_packages


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    build_packages(folder)
    return folder


@pytest.mark.parametrize(
    ("wheel", "sources", "packages"),
    [
        ("mirrorgate-*.whl", CLIENT, ("mirrorgate",)),
        ("mirrorgate_gateway-*.whl", GATEWAY, ("app", "spark_jobs", "migrations")),
        ("mirrorgate_bridge-*.whl", BRIDGE, ("mirrorgate_bridge",)),
        ("mirrorgate_zone-*.whl", ZONE, ("mirrorgate_zone",)),
    ],
)
def test_a_wheel_holds_its_packages_and_nothing_else(
    wheels: Path, wheel: str, sources: str, packages: tuple[str, ...]
) -> None:
    (built,) = wheels.glob(wheel)
    with zipfile.ZipFile(built) as archive:
        names = set(archive.namelist())
    top = REPOSITORY / sources
    assert {path.relative_to(top).as_posix() for package in packages for path in (top / package).rglob("*.py")} <= names
    typed = {f"{package}/py.typed" for package in packages if package != "migrations"}
    assert typed <= names, "the classifier `Typing :: Typed` promises them"
    outside = {name for name in names if name.split("/")[0] not in packages}
    assert all(name.split("/")[0].endswith(".dist-info") for name in outside), outside


@pytest.fixture(scope="module", params=["highest", "lowest-direct"])
def programs(wheels: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Return the folder of programs of an environment that has the client alone, with new or the oldest packages."""
    environment = tmp_path_factory.mktemp("environment")
    (built,) = wheels.glob("mirrorgate-*.whl")
    uv = [sys.executable, "-m", "uv", "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, "--clear", str(environment)], check=True)
    python = environment / "bin" / "python"
    install = [*uv, "pip", "install", "--python", str(python)]
    needed = str(REPOSITORY / CLIENT / "pyproject.toml")
    subprocess.run([*install, "--resolution", request.param, "--requirement", needed], check=True)
    subprocess.run([*install, "--no-deps", str(built)], check=True)
    return python.parent


def test_the_client_sends_rows_from_an_empty_environment_beside_a_project_that_has_its_own_app(
    programs: Path, tmp_path: Path, database_url: str
) -> None:
    project = tmp_path / "project"
    (project / "app").mkdir(parents=True)
    (project / "app" / "__init__.py").write_text("raise AssertionError('this is the app of the project')\n")
    (project / "sends.py").write_text(
        "import sys\n"
        "from mirrorgate import ChangeWriter, GatewayClient\n"
        "with GatewayClient(*sys.argv[1:]) as gateway, ChangeWriter(gateway, table='t') as rows:\n"
        "    rows.write({'id': 1})\n"
        "    print([receipt.changes for receipt in rows.flush()])\n"
    )
    (project / "rows.ndjson").write_text('{"id": 2}\n')
    with api_process(database_url, ADMIN_KEY) as (_, address), GatewayClient(address, ADMIN_KEY) as gateway:
        columns = [{"name": "id", "type": "int64", "nullable": False}]
        gateway.put("/v1/tables/t", {"key_columns": ["id"], "columns": columns})
        command = [str(programs / "python"), "sends.py", address, ADMIN_KEY]
        ran = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60, check=False)
        assert (ran.stdout, ran.stderr) == ("[1]\n", "")
        command = [str(programs / "mirrorgate"), "send", "rows.ndjson", "--format", "rows", "--table", "t"]
        given = {"MIRRORGATE_URL": address, "MIRRORGATE_API_KEY": ADMIN_KEY}
        ran = subprocess.run(
            command, cwd=project, env=os.environ | given, capture_output=True, text=True, timeout=60, check=False
        )
        assert "accepted: 1 change in 1 request" in ran.stdout, ran.stderr


TYPED: Final = """
from dataclasses import dataclass
from mirrorgate import ChangeWriter, GatewayClient, MirrorgateError, TemporarilyUnavailable

@dataclass
class Visit:
    id: int

with GatewayClient("http://gateway", "key") as gateway, ChangeWriter(gateway, table="t") as rows:
    rows.write({"id": 1})
visits: ChangeWriter[Visit] = ChangeWriter(gateway, table="t")
visits.write({"id": 1})  # type: ignore[arg-type]  # the check must find this: strict mode fails on an unused ignore
"""


def test_the_program_of_the_page_passes_a_strict_type_check(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "program.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert ran.stdout == "Success: no issues found in 1 source file\n"


@pytest.mark.parametrize(
    ("command", "distribution"),
    [("up", "mirrorgate-gateway"), ("bridge", "mirrorgate-bridge"), ("verify", "mirrorgate-zone")],
)
def test_the_client_alone_names_the_package_of_a_command(programs: Path, command: str, distribution: str) -> None:
    ran = subprocess.run([programs / "mirrorgate", command], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2
    said = " ".join(ran.stderr.replace("│", " ").split())
    assert f"The command '{command}' is in the package {distribution}, which is not installed." in said


def test_the_client_alone_explains_its_commands(programs: Path) -> None:
    command = [programs / "mirrorgate", "send", "--help"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_client_knows_the_package_of_every_command() -> None:
    packages = {}
    for entry in entry_points(group=COMMANDS):
        added = typer.Typer()
        entry.load()(added)
        group: Any = typer.main.get_group(added)
        packages |= dict.fromkeys(group.commands, entry.dist and entry.dist.name)
    assert packages == ELSEWHERE
