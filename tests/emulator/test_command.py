"""`mirrorgate emulator` as a process, programs that know nothing of it, and what its page shows."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from mirrorgate.errors import Misconfigured
from mirrorgate.testing import RunningEmulator
from mirrorgate_zone.emulator.emulator import running
from tests.emulator.conftest import run_pytest
from tests.project.facts import REPOSITORY

PUBLISHER = """
import sys
from azure.identity import DefaultAzureCredential
from azure.storage.filedatalake import DataLakeServiceClient

workspace, database = sys.argv[1:]
service = DataLakeServiceClient("https://onelake.dfs.fabric.microsoft.com", credential=DefaultAzureCredential())
zone = service.get_file_system_client(workspace).get_directory_client(f"{database}/Files/LandingZone/unchanged")
zone.get_file_client("_metadata.json").upload_data('{"keyColumns": ["id"], "fileFormat": "csv"}', overwrite=True)
file = zone.get_file_client("_00000000000000000001.csv")
file.upload_data("id,name\\n1,one\\n", overwrite=True)
file.rename_file(f"{workspace}/{database}/Files/LandingZone/unchanged/00000000000000000001.csv")
"""


WITHOUT_GATEWAY = """
from importlib.metadata import PackageNotFoundError
from mirrorgate import testing

pytest_plugins = ["mirrorgate.testing"]

def version(name):
    raise PackageNotFoundError(name)

testing.version = version
"""


def test_a_publisher_with_productions_addresses_runs_unchanged(mirrorgate_emulator: RunningEmulator) -> None:
    command = [sys.executable, "-c", PUBLISHER, mirrorgate_emulator.workspace, mirrorgate_emulator.database]
    environment = os.environ | mirrorgate_emulator.environment
    subprocess.run(command, env=environment, check=True, timeout=60)
    mirrorgate_emulator.wait_for("SELECT * FROM unchanged", lambda rows: rows == [{"id": "1", "name": "one"}])


def test_the_fixture_ends_the_faults_of_a_test(mirrorgate_emulator: RunningEmulator) -> None:
    mirrorgate_emulator.set_faults(throttle=0.5, slow_replication=0.1)
    with pytest.raises(ValueError, match="unknown"):
        mirrorgate_emulator.set_faults(unknown=True)


def test_the_fixture_begins_without_faults(mirrorgate_emulator: RunningEmulator) -> None:
    address = mirrorgate_emulator.onelake.replace("https:", "http:")
    assert not any(httpx.get(f"{address}/_emulator/faults", trust_env=False).json().values())


def test_the_proxy_reaches_no_other_host(mirrorgate_emulator: RunningEmulator) -> None:
    proxy = mirrorgate_emulator.environment["HTTPS_PROXY"]
    with pytest.raises(httpx.ProxyError, match=r"example\.com"), httpx.Client(proxy=proxy, trust_env=False) as client:
        client.get("https://example.com")


COMMAND = [sys.executable, "-c", "from mirrorgate.cli.main import main; main()", "emulator"]


@pytest.mark.parametrize(
    ("option", "named"),
    [("--fault=unknown=1", "throttle"), ("--fault=throttle=2", "throttle"), ("--port=PORT", "--port PORT")],
)
def test_a_fault_that_does_not_exist_or_a_port_that_is_taken_ends_the_command(
    mirrorgate_emulator: RunningEmulator, option: str, named: str
) -> None:
    taken = mirrorgate_emulator.onelake.rpartition(":")[2]
    command = [*COMMAND, option.replace("PORT", taken)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0
    assert named.replace("PORT", taken) in ended.stderr
    assert "the variable" not in ended.stderr


def test_a_folder_has_one_emulator(tmp_path: Path) -> None:
    command = [*COMMAND, "--port", "0", "--json", "--directory", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
        process.terminate()
    assert second.returncode != 0
    assert f"an emulator with pid {process.pid} is running" in second.stderr


@pytest.mark.parametrize("content", ["", "null", "[1]", '[{"id": "x"}]'])
def test_a_damaged_list_of_databases_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "databases.json").write_text(content)
    with pytest.raises(Misconfigured, match=r"databases\.json is damaged"), running(tmp_path):
        pass


def test_sigterm_ends_the_command_and_removes_its_files() -> None:
    with subprocess.Popen([*COMMAND, "--port", "0", "--json"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder = Path(json.loads(process.stdout.readline())["directory"])
        assert (folder / "authority.pem").exists()
        process.terminate()
        assert process.wait(60) == 0
    assert not folder.exists()


def test_without_the_gateway_the_fixture_says_what_to_install(tmp_path: Path) -> None:
    printed = run_pytest(tmp_path, WITHOUT_GATEWAY, "def test_it(mirrorgate_emulator): pass\n")
    assert "pip install mirrorgate-zone" in printed


PAGE = (REPOSITORY / "docs/operate/emulator.md").read_text(encoding="utf-8")
SHOWN_PUBLISHER, TEST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SQL, FAULTS = re.findall(r"^curl .*$", PAGE, re.MULTILINE)


def run(command: str, emulator: RunningEmulator) -> str:
    """Run a command of the page at this emulator's address."""
    line = command.replace("http://127.0.0.1:8490", emulator.onelake.replace("https:", "http:"))
    ended = subprocess.run(
        ["sh", "-c", f"{line} --silent --fail"], capture_output=True, text=True, timeout=60, check=True
    )
    return ended.stdout


def test_the_publisher_the_query_and_the_faults(mirrorgate_emulator: RunningEmulator) -> None:
    environment = os.environ | mirrorgate_emulator.environment
    subprocess.run([sys.executable, "-c", SHOWN_PUBLISHER], env=environment, check=True, timeout=60)
    mirrorgate_emulator.wait_for("SELECT * FROM laptop", bool)
    assert run(SQL, mirrorgate_emulator) == '{"columns": ["id", "name"], "rows": [["1", "one"]]}'
    assert '"lost_answer": 0.05' in run(FAULTS, mirrorgate_emulator)


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "demo", "--fabric", "--changes", "300", "--data-dir", str(tmp_path / "demo")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=170, cwd=REPOSITORY)
    assert "Everything adds up" in ended.stdout, ended.stdout + ended.stderr


def test_the_test(tmp_path: Path) -> None:
    publish = f"import os, subprocess, sys\n\n\ndef publish_with(environment):\n    command = {SHOWN_PUBLISHER!r}\n"
    publish += "    subprocess.run([sys.executable, '-c', command], env=os.environ | environment, check=True)\n\n\n"
    plugin, test = TEST.split("\n\n\n", 1)
    printed = run_pytest(tmp_path, plugin, publish + test)
    assert "1 passed" in printed, printed
