"""`mirrorgate emulator` as a process, and programs that know nothing of it."""

import os
import subprocess
import sys

import httpx
import pytest

from mirrorgate.testing import RunningEmulator

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


def test_a_fault_that_does_not_exist_ends_the_command() -> None:
    command = [sys.executable, "-c", "from mirrorgate.cli.main import main; main()", "emulator", "--fault", "unknown=1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0
    assert "throttle" in ended.stderr
