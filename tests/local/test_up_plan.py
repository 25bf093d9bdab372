"""`mirrorgate up` checks every setting, and names its variable, before it creates a folder or starts a process."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pytest

from app import extras
from app.local.embedded import postgres as postgres_account
from app.local.up import plan_up
from app.settings import Settings
from mirrorgate.errors import Code, Misconfigured
from tests.support.cli_output import Terminal
from tests.support.processes import REPOSITORY, environment_with, finished

ONELAKE: Final = "abfss://w@onelake.dfs.fabric.microsoft.com/i.MirroredDatabase/Files/LandingZone"
RIGHTS: Final = '{"a": {"rights": ["read"], "tables": ["*"]}}'
WRONG: Final[Mapping[str, Mapping[str, str]]] = {
    "ADMIN_KEY": {"ADMIN_KEY": "abc"},
    "OIDC_AUDIENCE": {"OIDC_ISSUER": "https://login.example/t"},
    "OIDC_ISSUER": {"OIDC_AUDIENCE": "api", "OIDC_RIGHTS": RIGHTS},
    "OIDC_RIGHTS": {"OIDC_RIGHTS": "{"},
    "TLS_KEY_FILE": {"TLS_CERTIFICATE_FILE": "/nothing.pem"},
    "TLS_CERTIFICATE_FILE": {"TLS_CERTIFICATE_FILE": "/nothing.pem", "TLS_KEY_FILE": "/nothing.key"},
    "DATABASE_URL": {"DATABASE_URL": "postgresql://user:secret@host:port/database"},
    "LANDING_ZONE": {"LANDING_ZONE": "s3://bucket/zone"},
    "HOST": {"HOST": "300.1.1.1", "BEHIND_TLS_PROXY": "true"},
    "FORWARDED_ALLOW_IPS": {"FORWARDED_ALLOW_IPS": "10.1.0.0/99"},
    "SPARK_MASTER": {"SPARK_MASTER": "sparc://host:7077"},
    "LEASE_SECONDS": {"LEASE_SECONDS": "inf"},
    "LOG_BYTES": {"LOG_BYTES": "10"},
}


def rejected(folder: Path, given: Mapping[str, str], *options: str) -> list[str]:
    """Return what `mirrorgate up` prints with these settings; check that it leaves nothing behind."""
    environment = environment_with(**{"PORT": "0", **given})
    bare = {name: value for name, value in environment.items() if not name.startswith("AZURE_")}
    command = [sys.executable, "-c", "from mirrorgate.cli.__main__ import main; main()", "up", *options]
    ran = finished(*command, cwd=folder, environment=bare | {"PYTHONPATH": str(REPOSITORY)})
    assert (ran.returncode, ran.stdout) == (78, "")
    assert [*folder.iterdir()] == []
    return ran.stderr.splitlines()


@pytest.mark.parametrize("name", WRONG)
def test_a_setting_that_cannot_work_is_named_before_anything_is_made(name: str, tmp_path: Path) -> None:
    lines = check(tmp_path, WRONG[name])
    assert f"MIRRORGATE_{name}" in lines
    assert "secret@" not in lines


def check(folder: Path, given: Mapping[str, str]) -> str:
    """Return the rejection of a plan with these settings, in this process."""
    with patch.dict(os.environ, environment_with(**given), clear=True), pytest.raises(Misconfigured) as rejection:
        plan_up(Settings.from_environment(port=0), folder / "data", None, os.environ)
    assert [*folder.iterdir()] == []
    return f"{rejection.value.detail} {rejection.value.remedy}"


def test_a_wrong_key_is_two_lines_and_leaves_nothing_behind(tmp_path: Path) -> None:
    first, second = rejected(tmp_path, {"ADMIN_KEY": "abc"})
    assert first.startswith("error bad_setting: MIRRORGATE_ADMIN_KEY: must be mg_<id>_<secret>")
    assert "mirrorgate keys generate" in first
    assert second.startswith("remedy: ")
    assert "abc" not in first + second


def test_up_reads_the_variables_of_its_data_directory_and_the_environment_goes_before_them(tmp_path: Path) -> None:
    folder, data_dir = tmp_path / "cwd", tmp_path / "data"
    folder.mkdir()
    data_dir.mkdir()
    (data_dir / "settings.env").write_text("MIRRORGATE_ADMIN_KEY=abc\nMIRRORGATE_LANDING_ZONE=s3://bucket/zone\n")
    assert "MIRRORGATE_ADMIN_KEY" in rejected(folder, {}, "--data-dir", str(data_dir))[0]
    good = "mg_0123456789abcdef_0123456789012345678901234567890123456789"
    assert "its scheme is s3" in rejected(folder, {"ADMIN_KEY": good}, "--data-dir", str(data_dir))[0]


def test_onelake_without_a_credential_is_rejected_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from app.landing.adls import client as adls_client

    monkeypatch.setattr(adls_client, "_finds_identity", lambda: False)
    settings = Settings(port=0, landing_zone=ONELAKE)
    with pytest.raises(Misconfigured, match=Code.LANDING_ZONE_UNUSABLE) as rejection:
        plan_up(settings, tmp_path / "data", None, os.environ)
    assert "AZURE_CLIENT_SECRET" in rejection.value.remedy
    with pytest.raises(Misconfigured, match="AZURE_CLIENT_SECRET is set without AZURE_TENANT_ID"):
        adls_client.require_credential(
            adls_client.StorageOptions(), {"AZURE_CLIENT_SECRET": "x", "AZURE_CLIENT_ID": "y"}
        )
    adls_client.require_credential(
        adls_client.StorageOptions(), {"AZURE_CLIENT_SECRET": "x", "AZURE_CLIENT_ID": "y", "AZURE_TENANT_ID": "z"}
    )


def test_a_landing_zone_that_cannot_be_made_is_rejected_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/mirrorgate")):
        with pytest.raises(Misconfigured, match="MIRRORGATE_LANDING_ZONE"):
            plan_up(Settings(port=0), tmp_path / "data", str(place), os.environ)
    for place in (tmp_path / "data", tmp_path / "data/postgres", tmp_path / "data/postgres/base"):
        with pytest.raises(Misconfigured, match="data directory"):
            plan_up(Settings(port=0), tmp_path / "data", str(place), os.environ)
    plan_up(Settings(port=0), tmp_path / "data", str(tmp_path / "a" / "b"), os.environ)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_data_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    first, second = rejected(tmp_path, {}, "--data-dir", "/etc/passwd")
    assert first.startswith("error bad_setting: the data directory /etc/passwd cannot be used")
    assert "--data-dir" in second


def test_missing_postgres_programs_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(postgres_account, "find_spec", lambda name: None)
    with pytest.raises(Misconfigured, match=Code.POSTGRES_MISSING) as rejection:
        plan_up(Settings(port=0), tmp_path / "data", None, os.environ)
    assert "mirrorgate-gateway[embedded]" in rejection.value.remedy
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("command", ["up", "api", "drain"])
def test_a_part_without_its_packages_names_the_extra(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    status, _, said = Terminal(capsys).run(command)
    assert status == 78
    assert said.startswith(f"error extra_missing: `mirrorgate {command}` needs packages that are not installed: ")
    assert f"mirrorgate-gateway[{'embedded' if command == 'up' else command}]" in said


def test_a_child_that_cannot_start_says_why_in_one_json_line() -> None:
    for module in ("app.main", "spark_jobs.drain"):
        ran = finished(sys.executable, "-m", module, "--parent-pid", os.getpid(), environment=environment_with())
        (line,) = ran.stderr.splitlines()
        said = json.loads(line)
        assert (ran.returncode, said["event"], said["code"]) == (78, "start_failed", "bad_setting")
        assert "MIRRORGATE_" in said["detail"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["api"], "MIRRORGATE_DATABASE_URL is not set"),
        (["api", "--database-url", "mysql://host/db"], "MIRRORGATE_DATABASE_URL: must start with postgresql://"),
        (["api", "--host", "0.0.0.0"], "the API would listen on 0.0.0.0 without TLS"),
        (["api", "--port", "99999"], "MIRRORGATE_PORT: Input should be less than or equal to 65535"),
        (["drain", "--landing-zone", "/zone"], "MIRRORGATE_DATABASE_URL is not set"),
        (["drain", "--database-url", "postgresql:///db"], "MIRRORGATE_LANDING_ZONE is not set"),
        (["migrate"], "MIRRORGATE_DATABASE_URL is not set"),
    ],
)
def test_a_part_that_cannot_start_says_so_in_two_lines_without_a_traceback(
    command: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.main.configure_logging", lambda _: None)
    monkeypatch.setattr("app.main.signal.signal", lambda *_: None)
    with patch.dict(os.environ, environment_with(), clear=True):
        status, _, errors = Terminal(capsys).run(*command)
    assert status == 78
    first, second = errors.splitlines()
    assert said in first
    assert second.startswith("remedy: ")
