"""The Helm chart: its values, what it renders, and the manifests in deploy/k8s that were rendered from it."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft202012Validator

from app.settings import Settings
from mirrorgate_bridge.kafka.settings import read_settings as read_kafka
from mirrorgate_bridge.objects.settings import read_settings as read_objects
from mirrorgate_bridge.settings_file import DEFAULT_HEALTH_PORT
from tests.project.facts import REPOSITORY, project_table
from tests.support.command_tree import find_command
from tools.manifests import CHART, MANIFESTS, chart_digest, find_program, leaves, manifest_files, readme, render

KUBERNETES: Final = "1.35"
VALUES: Final = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: Final = json.loads((CHART / "values.schema.json").read_text())
SETTINGS: Final = {f"MIRRORGATE_{name.upper()}" for name in Settings.model_fields}
CASES: Final = sorted(path.name for path in (CHART / "ci").glob("*.yaml"))
OF_PROMETHEUS: Final = {"PodMonitor", "PrometheusRule", "ServiceMonitor"}


def helm() -> str:
    found = find_program("helm")
    if found is None:
        pytest.skip("helm is missing: make helm-tools")
    return found


def committed() -> list[dict[str, Any]]:
    return [found for path in sorted(MANIFESTS.glob("*.yaml")) for found in yaml.safe_load_all(path.read_text())]


def rendered(case: str) -> list[dict[str, Any]]:
    return [found for found in yaml.safe_load_all(render(helm(), "--values", str(CHART / "ci" / case))) if found]


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {found["metadata"]["name"]: found for found in objects if found["kind"] == kind}


def pods(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for found in objects:
        if found["kind"] in ("Deployment", "Job"):
            yield found["metadata"]["name"], found["spec"]["template"]["spec"]


def check_objects(objects: list[dict[str, Any]]) -> None:
    """Check what holds for every rendering."""
    for found in objects:
        if found["kind"] not in OF_PROMETHEUS:
            kubernetes_validate.validate(found, KUBERNETES, strict=True)
        assert found["metadata"]["namespace"] == "mirrorgate"
    accounts = of_kind(objects, "ServiceAccount")
    for name, pod in pods(objects):
        [container] = pod["containers"]
        assert pod["automountServiceAccountToken"] is False
        security = pod["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 10001)
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
        ours = {item["name"] for item in container["env"] if item["name"].startswith("MIRRORGATE_")}
        assert ours <= SETTINGS | {"MIRRORGATE_API_KEY"}, name
        assert not hasattr(find_command(*container["args"]), "commands"), container["args"]
        if name != "mirrorgate-migrate":
            assert pod["serviceAccountName"] in accounts
            ports = {port["name"] for port in container["ports"]}
            for probe in ("startupProbe", "livenessProbe"):
                assert container[probe]["httpGet"]["port"] in ports
    labels = [
        found["spec"]["template"]["metadata"]["labels"].items() for found in objects if found["kind"] == "Deployment"
    ]
    for found in of_kind(objects, "Deployment").values():
        assert (
            found["spec"]["selector"]["matchLabels"].items() <= found["spec"]["template"]["metadata"]["labels"].items()
        )
    selectors = [found["spec"]["selector"] for found in of_kind(objects, "Service").values()]
    selectors += [
        found["spec"]["selector"]["matchLabels"] for found in of_kind(objects, "PodDisruptionBudget").values()
    ]
    for selector in selectors:
        assert sum(selector.items() <= pod_labels for pod_labels in labels) == 1


def test_the_manifests_are_valid_and_confined() -> None:
    check_objects(committed())


def test_the_manifests_were_rendered_from_the_chart_as_it_is() -> None:
    for path in MANIFESTS.glob("*.yaml"):
        assert chart_digest() in path.read_text().splitlines()[0], "run make manifests"


def test_the_readme_shows_the_values_as_they_are() -> None:
    assert readme() == (CHART / "README.md").read_text(), "run make manifests"


def test_the_chart_has_the_version_of_the_project_the_alerts_and_the_dashboard() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert {chart["version"], chart["appVersion"]} == {project_table()["version"]}
    for linked in ("prometheus/alerts.yaml", "grafana/dashboards/mirrorgate.json"):  # helm follows links
        inside = CHART / "files" / Path(linked).name
        assert inside.read_bytes() == (REPOSITORY / "deploy" / linked).read_bytes()


def test_the_schema_accepts_the_default_values_and_describes_each_of_them() -> None:
    validator = Draft202012Validator(SCHEMA)
    validator.validate(VALUES)
    described = dict(leaves(SCHEMA, SCHEMA, ""))
    assert all(described.values())

    def undescribed(node: Any, path: str) -> Iterator[str]:
        if path in described:
            return
        if not isinstance(node, dict):
            yield path
            return
        for name, below in node.items():
            yield from undescribed(below, f"{path}.{name}".lstrip("."))

    assert list(undescribed(VALUES, "")) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [("api.replica", 3), ("drain.metricsPort", 80), ("settings.LOG_LEVEL", "x"), ("landingZone.address", "/mnt/zone"),
     ("secrets.existingSecret", "Not A Name"), ("bridges.kafka.config.health", {}), ("image.digests.api", "sha256:1")],
)  # fmt: skip
def test_the_schema_rejects_what_would_not_work(path: str, value: Any) -> None:
    *names, last = path.split(".")
    document: Any = {}
    node = document
    for name in names:
        node = node.setdefault(name, {})
    node[last] = value
    assert not Draft202012Validator(SCHEMA).is_valid(document)


@pytest.mark.parametrize(("kind", "read"), [("kafka", read_kafka), ("objects", read_objects)])
def test_the_default_file_of_a_bridge_is_one_that_the_bridge_reads(kind: str, read: Any, tmp_path: Path) -> None:
    gateway = {"gateway": {"url": "http://mirrorgate-api:8480", "key": "${MIRRORGATE_API_KEY}"}}
    health = {"health": {"host": "0.0.0.0", "port": DEFAULT_HEALTH_PORT}}
    path = tmp_path / "bridge.yaml"
    path.write_text(yaml.safe_dump({**gateway, **VALUES["bridges"][kind]["config"], **health}))
    settings = read(path, {"MIRRORGATE_API_KEY": "key", "KAFKA_BROKERS": "broker:9092"})
    assert settings.health.port == DEFAULT_HEALTH_PORT


def test_probes_ask_what_they_are_for() -> None:
    [api] = [pod["containers"][0] for name, pod in pods(committed()) if name == "mirrorgate-api"]
    assert api["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert api["readinessProbe"]["httpGet"]["path"] == "/readyz"
    [migrate] = of_kind(committed(), "Job").values()
    assert migrate["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"


def test_the_manifests_are_what_the_chart_renders() -> None:
    files = manifest_files(render(helm()), chart_digest())
    assert {path.name: path.read_text() for path in MANIFESTS.glob("*.yaml")} == files, "run make manifests"


@pytest.mark.parametrize("case", CASES)
def test_other_values_render_valid_objects(case: str) -> None:
    check_objects(rendered(case))


def test_helm_lint_finds_nothing() -> None:
    for case in CASES:
        command = [helm(), "lint", "--strict", str(CHART), "--values", str(CHART / "ci" / case)]
        linted = subprocess.run(command, capture_output=True, text=True, check=False)
        assert linted.returncode == 0 and "[WARNING]" not in linted.stdout, linted.stdout + linted.stderr


def test_the_alerts_become_a_rule_of_the_operator() -> None:
    [rule] = of_kind(rendered("everything-values.yaml"), "PrometheusRule").values()
    alerts = yaml.safe_load((REPOSITORY / "deploy/prometheus/alerts.yaml").read_text())
    assert rule["spec"] == alerts


def test_the_jobs_of_the_monitors_are_those_of_the_alert_about_scrapes() -> None:
    objects = rendered("everything-values.yaml")
    monitors = [*of_kind(objects, "PodMonitor").values(), *of_kind(objects, "ServiceMonitor").values()]
    [label] = {monitor["spec"]["jobLabel"] for monitor in monitors}
    scraped = [
        of_kind(objects, "Service")["mirrorgate-api"]["metadata"],
        *(found["spec"]["template"]["metadata"] for found in of_kind(objects, "Deployment").values()),
    ]
    assert {found["labels"][label] for found in scraped} == {"mirrorgate"}


def test_alerts_without_metrics_of_the_api_are_rejected_unless_it_is_scraped_elsewhere() -> None:
    alone = "monitoring.prometheusRule.enabled=true"
    with pytest.raises(subprocess.CalledProcessError) as failed:
        render(helm(), "--set", alone)
    assert "set monitoring.serviceMonitor.enabled" in failed.value.stderr
    assert "PrometheusRule" in render(helm(), "--set", f"{alone},monitoring.prometheusRule.apiIsScrapedElsewhere=true")


def test_the_api_of_a_private_authority_is_scraped_with_its_certificate() -> None:
    [monitor] = of_kind(rendered("everything-values.yaml"), "ServiceMonitor").values()
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["tlsConfig"] == {
        "ca": {"secret": {"name": "mirrorgate-ca", "key": "ca.crt"}},
        "serverName": "mirrorgate-api",
    }


def test_the_dashboard_becomes_a_config_map_for_the_sidecar_of_grafana() -> None:
    found = of_kind(rendered("everything-values.yaml"), "ConfigMap")["mirrorgate-dashboard"]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    dashboard = (REPOSITORY / "deploy/grafana/dashboards/mirrorgate.json").read_text(encoding="utf-8")
    assert found["data"]["mirrorgate.json"] == dashboard


def test_workload_identity_reaches_the_drain_and_the_mirror_but_no_bridge() -> None:
    objects = rendered("everything-values.yaml")
    accounts = of_kind(objects, "ServiceAccount")
    identified = {name for name, found in accounts.items() if found["metadata"].get("annotations")}
    # The API has it because it reads rows of the mirror's target.
    assert identified == {"mirrorgate-api", "mirrorgate-drain", "mirrorgate-mirror"}
    for name, found in of_kind(objects, "Deployment").items():
        labels = found["spec"]["template"]["metadata"]["labels"]
        assert (labels.get("azure.workload.identity/use") == "true") == (name in identified)


def test_settings_and_the_files_of_bridges_reach_their_pods_as_written() -> None:
    maps = of_kind(rendered("everything-values.yaml"), "ConfigMap")
    assert maps["mirrorgate-settings"]["data"]["MIRRORGATE_RETENTION_BYTES"] == "34359738368"
    bridge = yaml.safe_load(maps["mirrorgate-bridge-kafka"]["data"]["bridge.yaml"])
    assert bridge["gateway"] == {"url": "https://mirrorgate-api:8480", "key": "${MIRRORGATE_API_KEY}"}
    assert bridge["health"] == {"host": "0.0.0.0", "port": 9480}


def test_bodies_up_to_the_limit_of_the_gateway_pass_the_ingress() -> None:
    name = "nginx.ingress.kubernetes.io/proxy-body-size"
    assert int(VALUES["api"]["ingress"]["annotations"][name].removesuffix("m")) * 2**20 == Settings().max_body_bytes
    ingress = of_kind(rendered("everything-values.yaml"), "Ingress")["mirrorgate-api"]
    assert set(ingress["metadata"]["annotations"]) == {name, "nginx.ingress.kubernetes.io/backend-protocol"}


def test_rows_from_a_volume_are_rejected_with_what_to_set() -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        render(helm(), "--set", "mirror.enabled=true,mirror.rowsOverHttp=true")
    assert "set mirror.target to one" in failed.value.stderr


def test_the_notes_and_pages_show_commands_that_exist() -> None:
    shown = [CHART / "templates" / "NOTES.txt", CHART / "README.md", MANIFESTS / "README.md"]
    for path in shown:
        assert "mirrorgate keys generate" in path.read_text()
    named = re.findall(r"deploy/k8s/(\d-\w+\.yaml)", (MANIFESTS / "README.md").read_text())
    assert len(named) == 3 and all((MANIFESTS / name).exists() for name in named)
