"""Dockerfile and compose.yaml name only things that exist. Nothing is built here."""

import json
import re
import runpy
from typing import Any, Final
from uuid import uuid4

import pytest
import yaml
from sqlalchemy import make_url

from app.domain.access.rights import ApiKey
from app.domain.preflight import Outcome, judge_memory
from app.settings import PREFIX, Settings
from app.staging.connection.database import Engine
from app.staging.ledger.leases import renew_lease
from mirrorgate.errors import Code, Misconfigured
from tests.project.facts import REPOSITORY, project_table
from tests.support.command_tree import find_command
from tests.support.postgres import sql

PORT: Final = Settings.model_fields["port"].default
TARGETS: Final = pytest.mark.parametrize("target", ["api", "drain", "bridge"])
DOCKERFILE: Final = re.sub(r"\\\n\s*", "", (REPOSITORY / "Dockerfile").read_text())


def instructions(stage: str) -> list[tuple[str, str]]:
    """Return the instructions of a stage, after those of the stages it is made from."""
    stages: dict[str, list[tuple[str, str]]] = {}
    for line in DOCKERFILE.splitlines():
        if start := re.fullmatch(r"FROM (\S+) AS (\S+)", line):
            stages[start[2]] = current = list(stages.get(start[1], []))
        elif (instruction := re.match(r"([A-Z]+) (.*)", line)) and stages:
            current.append((instruction[1], instruction[2]))
    return stages[stage]


def only(stage: str, name: str) -> str:
    """Return the one relevant argument of an instruction."""
    return [argument for instruction, argument in instructions(stage) if instruction == name][-1]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((REPOSITORY / "compose.yaml").read_text())
    return loaded


@TARGETS
def test_an_image_runs_its_own_part_as_an_ordinary_user(target: str) -> None:
    assert json.loads(only(target, "ENTRYPOINT")) == ["mirrorgate"]
    assert json.loads(only(target, "CMD"))[0] == target
    assert target in find_command().commands
    assert only(target, "USER") == "mirrorgate"
    assert f"requirements/{target}.lock" in only(f"{target}-environment", "RUN") + str(
        instructions(f"{target}-environment")
    )


@TARGETS
def test_an_image_checks_its_health_with_a_program_that_it_has(target: str) -> None:
    (program,) = re.findall(r'CMD \["python", "/opt/mirrorgate/health/(\w+\.py)"\]', only(target, "HEALTHCHECK"))
    assert ("COPY", f"docker/{program} /opt/mirrorgate/health/") in instructions(target)


@TARGETS
def test_an_environment_of_an_image_has_no_pip_and_only_files_with_known_digests(target: str) -> None:
    steps = " ".join(step for name, step in instructions(f"{target}-environment") if name == "RUN")
    assert "venv --without-pip" in steps and "--require-hashes" in steps and "--no-cache-dir" in steps


def test_the_api_image_exposes_the_port_it_listens_on() -> None:
    assert only("api", "EXPOSE") == str(PORT)


def test_everything_that_is_copied_exists_and_is_in_the_build_context() -> None:
    context = set(re.findall(r"^!(\S+)$", (REPOSITORY / ".dockerignore").read_text(), re.MULTILINE))
    copied = [
        argument for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.M) for argument in line.split()[:-1]
    ]
    assert {source.split("/")[0] for source in copied} == context
    assert all((REPOSITORY / source).exists() for source in copied)


def test_every_variable_of_the_dockerfile_is_a_setting() -> None:
    ours = set(re.findall(rf"\b{PREFIX}[A-Z_]+", DOCKERFILE))
    assert ours
    assert ours <= {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}


def test_compose_builds_stages_that_exist_and_runs_commands_that_exist(compose: dict[str, Any]) -> None:
    built = {name: service for name, service in compose["services"].items() if "build" in service}
    assert built.keys() == {"migrate", "api", "drain", "bridge"}
    for service in built.values():
        assert instructions(service["build"]["target"])
        assert set(service.get("command", [])) <= find_command().commands.keys()


def test_compose_publishes_the_port_of_the_api_on_this_machine_only(compose: dict[str, Any]) -> None:
    assert compose["services"]["api"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert not [name for name, service in compose["services"].items() if name != "api" and "ports" in service]


def test_the_api_image_listens_in_public_only_with_tls_or_the_word_that_a_proxy_ends_it(
    compose: dict[str, Any],
) -> None:
    (host,) = re.findall(r"MIRRORGATE_HOST=(\S+)", only("api", "ENV"))
    with pytest.raises(Misconfigured) as rejection:
        Settings(host=host).require_safe_listening()
    assert rejection.value.code is Code.PUBLIC_WITHOUT_TLS
    given = compose["services"]["api"]["environment"]["MIRRORGATE_BEHIND_TLS_PROXY"]
    Settings.model_validate({"host": host, "behind_tls_proxy": given}).require_safe_listening()


def test_compose_connects_to_the_database_that_it_starts(compose: dict[str, Any]) -> None:
    postgres = compose["services"]["postgres"]["environment"]
    for service in ("migrate", "api", "drain"):
        address = compose["services"][service]["environment"]["MIRRORGATE_DATABASE_URL"]
        url = make_url(re.sub(r"\$\{POSTGRES_PASSWORD:\?[^}]+\}", "secret", address))
        assert (url.host, url.username, url.database) == (
            "postgres",
            postgres["POSTGRES_USER"],
            postgres["POSTGRES_DB"],
        )


def test_compose_runs_the_bridge_on_request_with_a_file_and_variables_that_the_file_names(
    compose: dict[str, Any],
) -> None:
    bridge = compose["services"]["bridge"]
    assert bridge["profiles"] == ["bridge"]
    (mounted,) = re.findall(r"^\$\{BRIDGE_FILE:-\./(\S+)\}:(\S+):ro$", bridge["volumes"][0])
    assert json.loads(only("bridge", "CMD")) == ["bridge", "kafka", "--config", mounted[1]]
    named = set(re.findall(r"\$\{(\w+)", (REPOSITORY / mounted[0]).read_text()))
    assert named - {"NAME"} == bridge["environment"].keys()


def test_compose_starts_nothing_before_the_database_is_migrated(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for service in ("api", "drain"):
        assert services[service]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}


def test_compose_keeps_the_database_in_a_volume_and_shows_the_landing_zone_in_a_folder(compose: dict[str, Any]) -> None:
    (landing_zone,) = re.findall(r"MIRRORGATE_LANDING_ZONE=(\S+)", only("drain", "ENV"))
    assert compose["services"]["drain"]["volumes"] == [f"${{LANDING_ZONE_FOLDER:-./landing-zone}}:{landing_zone}"]
    assert compose["services"]["postgres"]["volumes"] == ["postgres:/var/lib/postgresql"]
    assert compose["volumes"].keys() == {"postgres"}


def test_compose_has_no_default_password(compose: dict[str, Any]) -> None:
    written = (REPOSITORY / "compose.yaml").read_text()
    assert not re.search(r"PASSWORD:-", written)
    assert re.fullmatch(
        r"\$\{POSTGRES_PASSWORD:\?.+\}", compose["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"]
    )
    made = re.search(r"POSTGRES_PASSWORD=\$\(openssl rand -hex (\d+)\)", written)
    assert made and int(made[1]) >= 16, "hexadecimal digits need no encoding in the database's address"


def test_the_containers_of_the_api_have_the_memory_that_the_default_settings_may_need(compose: dict[str, Any]) -> None:
    values = yaml.safe_load((REPOSITORY / "deploy/helm/mirrorgate/values.yaml").read_text())
    of_compose = re.fullmatch(r"\$\{API_MEMORY:-(\d+)g\}", compose["services"]["api"]["mem_limit"])
    of_chart = re.fullmatch(r"(\d+)Gi", values["api"]["resources"]["limits"]["memory"])
    settings = Settings()
    for limit in (of_compose, of_chart):
        assert limit
        judged = judge_memory(int(limit[1]) * 2**30, settings.bytes_in_memory, settings.max_body_bytes)
        assert judged.outcome is Outcome.OK, judged.detail


def test_compose_publishes_into_onelake_without_being_edited(compose: dict[str, Any]) -> None:
    given = compose["services"]["drain"]["environment"]
    assert given["MIRRORGATE_LANDING_ZONE"] == "${MIRRORGATE_LANDING_ZONE:-/landing-zone}"
    passed_on = {name for name, value in given.items() if value is None}
    assert passed_on == {"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"}


def test_every_container_is_hardened(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert (service["cap_drop"], service["read_only"], service["init"]) == (["ALL"], True, True), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert any(mount.startswith("/tmp:") for mount in service["tmpfs"]), name
        assert name == "postgres" or "cap_add" not in service, name
    assert "KILL" in compose["services"]["postgres"]["cap_add"], "init passes the stop signal on to another account"
    assert any("exec" in mount for mount in compose["services"]["drain"]["tmpfs"]), "the JVM runs libraries from /tmp"


@TARGETS
def test_an_image_has_the_usual_labels_and_the_version_of_the_project(target: str) -> None:
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]+)"', only(target, "LABEL")))
    arguments = dict(argument.split("=") for name, argument in instructions(target) if name == "ARG")
    assert {"title", "description", "licenses", "source", "documentation", "version", "revision"} == labels.keys()
    assert arguments["VERSION"] == project_table()["version"]
    assert labels["licenses"] == project_table()["license"]


def test_images_can_be_pinned_by_digest_without_editing(compose: dict[str, Any]) -> None:
    assert compose["services"]["postgres"]["image"] == "${POSTGRES_IMAGE:-postgres:18.1-bookworm}"
    assert re.search(r"^ARG PYTHON_IMAGE=", DOCKERFILE, re.MULTILINE)
    documented = (REPOSITORY / "docs" / "operate" / "compose.md").read_text()
    assert "--build-arg PYTHON_IMAGE=" in documented and "POSTGRES_IMAGE=" in documented


def test_compose_demands_an_admin_key_and_says_how_to_make_one(compose: dict[str, Any]) -> None:
    demanded = compose["services"]["api"]["environment"]["MIRRORGATE_ADMIN_KEY"]
    assert re.fullmatch(r"\$\{MIRRORGATE_ADMIN_KEY:\?set it in \.env;.+\}", demanded)
    made = re.search(
        r"mg_\$\(openssl rand -hex (\d+)\)_\$\(openssl rand -hex (\d+)\)", (REPOSITORY / "compose.yaml").read_text()
    )
    assert made
    ApiKey.parse(f"mg_{'a1' * int(made[1])}_{'a1' * int(made[2])}")


def test_the_drain_is_healthy_while_its_lease_runs(
    database_url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = str(REPOSITORY / "docker" / "drain_healthy.py")
    monkeypatch.setenv("MIRRORGATE_DATABASE_URL", database_url)
    with pytest.raises(SystemExit, match="no drain has a running lease"):
        runpy.run_path(program)
    sql.call(engine, renew_lease, uuid4(), 60)
    runpy.run_path(program)
