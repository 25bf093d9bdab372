"""The compose files for OneLake and for observability name only things that exist. tests/project has compose.yaml."""

import os
import re
import shutil
import subprocess
from typing import Any, Final

import pytest
import yaml

from app.settings import Settings
from tests.project.facts import REPOSITORY, project_table

FILES: Final = ("compose.yaml", "compose.onelake.yaml", "compose.observability.yaml")
SETTINGS: Final = {f"MIRRORGATE_{name.upper()}" for name in Settings.model_fields}
OF_CLIENTS: Final = {"MIRRORGATE_URL", "MIRRORGATE_API_KEY"}
REQUIRED: Final = {
    "POSTGRES_PASSWORD": "a@b/c:d",
    "MIRRORGATE_ADMIN_KEY": "mg_0123abcd_0123456789abcdef0123",
    "MIRRORGATE_LANDING_ZONE": "abfss://workspace@onelake.dfs.fabric.microsoft.com/item/Files/LandingZone",
    "AZURE_TENANT_ID": "tenant",
    "AZURE_CLIENT_ID": "client",
    "AZURE_CLIENT_SECRET": "secret",
    "GRAFANA_PASSWORD": "password",
}


class _Loader(yaml.SafeLoader):
    """Reads `!reset`, with which an override file removes a value."""


_Loader.add_constructor("!reset", lambda loader, node: None)


def compose(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load((REPOSITORY / name).read_text(), _Loader)
    return loaded


def services(name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose(name)["services"]
    return found


@pytest.mark.parametrize("name", FILES)
def test_every_variable_of_ours_is_a_setting(name: str) -> None:
    for service, described in services(name).items():
        ours = {variable for variable in described.get("environment", {}) if variable.startswith("MIRRORGATE_")}
        assert ours <= (OF_CLIENTS if service == "bridge" else SETTINGS), service


@pytest.mark.parametrize("name", FILES)
def test_every_path_that_is_mounted_is_in_the_repository_or_named_by_a_variable(name: str) -> None:
    for service, described in services(name).items():
        for mount in described.get("volumes") or ():
            source = re.sub(r"\$\{\w+:-([^}]+)\}", r"\1", mount).split(":")[0]
            made_by_user = {"./landing-zone", "./metrics.key"}
            if source.startswith("./") and source not in made_by_user:
                assert (REPOSITORY / source).exists(), (service, source)


@pytest.mark.parametrize("name", FILES)
def test_images_have_a_fixed_version_that_a_variable_replaces(name: str) -> None:
    for service, described in services(name).items():
        if "image" in described:
            found = re.fullmatch(r"\$\{[A-Z]+_IMAGE:-([\w./-]+):v?(\d+(?:\.\d+)+)(?:-\w+)?\}", described["image"])
            assert found, service
            if found[1].startswith("mirrorgate-"):
                assert found[2] == project_table()["version"]


@pytest.mark.parametrize("name", FILES)
def test_every_service_has_limits_and_a_bounded_log(name: str) -> None:
    for service, described in services(name).items():
        if "image" in described:
            assert described["mem_limit"] and described["pids_limit"] and described["read_only"], service
            assert {"max-size", "max-file"} <= described["logging"]["options"].keys()
            assert all(port.startswith("127.0.0.1:") for port in described.get("ports", ()))


def test_a_password_reaches_postgres_with_any_characters() -> None:
    for service in ("migrate", "api", "drain"):
        environment = services("compose.yaml")[service]["environment"]
        assert "PASSWORD" not in environment["MIRRORGATE_DATABASE_URL"]
        assert environment["PGPASSWORD"] == services("compose.yaml")["postgres"]["environment"]["POSTGRES_PASSWORD"]


def test_the_file_for_onelake_demands_its_variables_and_mounts_no_folder() -> None:
    drain = services("compose.onelake.yaml")["drain"]
    assert drain["volumes"] is None
    assert all(re.fullmatch(rf"\$\{{{name}:\?.+\}}", value) for name, value in drain["environment"].items())
    passed = {name for name in services("compose.yaml")["drain"]["environment"] if name.startswith("AZURE")}
    assert drain["environment"].keys() == passed | {"MIRRORGATE_LANDING_ZONE"}


def test_prometheus_scrapes_the_ports_on_which_the_containers_serve_their_metrics() -> None:
    jobs = yaml.safe_load((REPOSITORY / "deploy" / "prometheus" / "compose.yaml").read_text())["scrape_configs"]
    targets = {target["names"][0]: target["port"] for job in jobs for target in job["dns_sd_configs"]}
    assert targets.keys() < services("compose.yaml").keys()
    drain = services("compose.observability.yaml")["drain"]["environment"]
    assert int(drain["MIRRORGATE_DRAIN_METRICS_PORT"]) == targets["drain"]
    assert services("compose.yaml")["api"]["ports"][0].endswith(f":{targets['api']}")
    bridge = yaml.safe_load((REPOSITORY / "deploy" / "bridge" / "kafka.yaml").read_text())
    assert bridge["health"]["port"] == targets["bridge"]


@pytest.mark.parametrize("overrides", [[], ["compose.onelake.yaml"], ["compose.observability.yaml"]])
def test_docker_compose_accepts_the_files(overrides: list[str]) -> None:
    if shutil.which("docker") is None or subprocess.run(["docker", "compose", "version"], check=False).returncode:
        pytest.skip("`docker compose` is missing")
    files = [part for name in ("compose.yaml", *overrides) for part in ("--file", name)]
    environment = {**os.environ, **REQUIRED}
    checked = subprocess.run(
        ["docker", "compose", *files, "--profile", "bridge", "config", "--quiet"],
        cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stderr
