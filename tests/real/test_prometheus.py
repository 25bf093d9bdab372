"""Prometheus and Alertmanager scrape a running gateway: its rules evaluate, and its alerts fire and end."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import sqlalchemy as sa
import yaml

from tests.api.calls import ADMIN_KEY, Gateway
from tests.real.counterparts import debian_program, output_of
from tests.real.report import Report
from tests.support.expositions import ALERTS, alert_rules, families_of, metric_names, recording
from tests.support.http.server import api_process, free_port
from tests.support.postgres import sql
from tests.support.processes import environment_with, program, succeeded
from tests.support.waiting import wait_until

TABLE: Final = "shop.orders"
WITHIN: Final = 90.0
FOREIGN: Final = "shop.schema/orders/00000000000000000003.parquet"


@dataclass
class Site:
    """A gateway, and the programs that watch it."""

    gateway: Gateway
    prometheus: httpx.Client
    alertmanager: httpx.Client
    drain: Callable[[], AbstractContextManager[Any]]
    folder: Path

    def asked(self, path: str, **parameters: Any) -> Any:
        answer = self.prometheus.get(f"/api/v1/{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def firing(self) -> set[str]:
        """Return the names of the alerts that Alertmanager has."""
        answer = self.alertmanager.get("/api/v2/alerts").raise_for_status().json()
        return {alert["labels"]["alertname"].removeprefix("Mirrorgate") for alert in answer}

    def wait_for(self, *alerts: str) -> None:
        """Wait until Alertmanager has these alerts and no others."""
        try:
            wait_until(lambda: self.firing() == {*alerts}, within=WITHIN, what=f"Alertmanager has {alerts}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it has {self.firing()}") from error

    def publish(self, number: int) -> None:
        """Send a row, and wait until it is published."""
        self.gateway.rows(TABLE, {"id": number}).raise_for_status()
        wait_until(self.is_published, within=WITHIN, what="the row is published")

    def is_published(self) -> bool:
        return bool(self.gateway.status(TABLE)["lag"]["batches"] == 0)


def running_drain(
    database_url: str, folder: Path, **settings: object
) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    """Run a drain that publishes each row at once, with further settings, and end it in an orderly way."""
    given = {"DATABASE_URL": database_url, "LANDING_ZONE": folder / "zone", "ALLOW_UNSAFE": "true"}
    environment = environment_with(**given, MAX_DELAY_SECONDS=0, SPARK_MASTER="local[1]", **settings)
    return program(folder / "drain.log", sys.executable, "-m", "spark_jobs.drain", environment=environment)


def version_of(program: Path) -> str:
    name, _, version, *_ = output_of(program, "--version").split()
    return f"{name.capitalize().rstrip(',')} {version}"


def configured(folder: Path, targets: dict[str, str], alertmanager: str, key: str) -> Path:
    """Write the repository's files with other targets and intervals, and with shorter times before an alert."""
    rules = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["for"] = "1s"
    settings = yaml.safe_load((ALERTS.parent / "prometheus.yaml").read_text(encoding="utf-8"))
    settings["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    jobs = [job for job in settings["scrape_configs"] if job["job_name"] in targets]
    for job in jobs:
        job["static_configs"] = [{"targets": [targets[job["job_name"]]]}]
    settings["scrape_configs"] = jobs
    settings["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
    (folder / "mirrorgate.key").write_text(key)
    (folder / "alerts.yaml").write_text(yaml.safe_dump(rules))
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(settings))
    (folder / "alertmanager.yaml").write_text("route: { receiver: none }\nreceivers: [{ name: none }]\n")
    promtool = debian_program("prometheus", "promtool")
    for command in (("config", "prometheus.yaml"), ("rules", ALERTS)):
        succeeded(promtool, "check", *command, cwd=folder)
    return folder / "prometheus.yaml"


@pytest.fixture
def site(database_url: str, tmp_path: Path) -> Iterator[Site]:
    prometheus = debian_program("prometheus", "prometheus")
    alertmanager = debian_program("prometheus-alertmanager", "prometheus-alertmanager")
    drain_port, *ports = (free_port() for _ in range(3))
    of_prometheus, of_alertmanager = (f"127.0.0.1:{port}" for port in ports)
    drain = partial(running_drain, database_url, tmp_path, DRAIN_METRICS_PORT=drain_port)
    with ExitStack() as stack:
        _, address = stack.enter_context(api_process(database_url, ADMIN_KEY))
        gateway = stack.enter_context(Gateway.at(address, ADMIN_KEY))
        key = gateway.new_key("read", name="Prometheus")["key"]
        targets = {"mirrorgate-api": address.removeprefix("http://"), "mirrorgate-drain": f"127.0.0.1:{drain_port}"}
        configuration = configured(tmp_path, targets, of_alertmanager, key)
        options = ["--config.file", tmp_path / "alertmanager.yaml", "--storage.path", tmp_path / "alertmanager"]
        options += ["--web.listen-address", of_alertmanager, "--cluster.listen-address="]
        stack.enter_context(program(tmp_path / "alertmanager.log", alertmanager, *options))
        options = ["--config.file", configuration, "--storage.tsdb.path", tmp_path / "series"]
        options += ["--web.listen-address", of_prometheus]
        stack.enter_context(program(tmp_path / "prometheus.log", prometheus, *options))
        clients = [
            stack.enter_context(httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=30))
            for address in (of_prometheus, of_alertmanager)
        ]
        for client in clients:
            wait_until(lambda client=client: _is_ready(client), within=60, what="it is ready")
        yield Site(gateway, *clients, drain, tmp_path)


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def test_rules_evaluate_on_scraped_series_and_alerts_fire_and_end_in_alertmanager(
    site: Site, engine: sa.Engine, report: Report
) -> None:
    site.gateway.register(TABLE, {"id": "int64"}, ["id"]).raise_for_status()
    with site.drain():
        site.publish(1)
        wait_until(lambda: _all_up(site), within=WITHIN, what="Prometheus scrapes the API and the drain")
        site.wait_for()
        rules = check_rules(site)

        (site.folder / "zone" / FOREIGN).write_bytes(b"not ours")
        site.gateway.rows(TABLE, {"id": 2}).raise_for_status()
        site.wait_for("TableQuarantined")
        (site.folder / "zone" / FOREIGN).unlink()
        path = f"/v1/tables/{TABLE}/release"
        site.gateway.post(path, json={"reason": "The file is removed."}, params={"generation": 1}).raise_for_status()
        site.wait_for()
        wait_until(site.is_published, within=WITHIN, what="the released table is published")

    site.gateway.rows(TABLE, {"id": 3}).raise_for_status()
    sql.run(engine, "UPDATE mirrorgate.staged_blocks SET staged_at = staged_at - interval '20 minutes'")
    site.wait_for("NoDrain", "ScrapeDown", "LagOld")
    with site.drain():
        wait_until(site.is_published, within=WITHIN, what="the new drain publishes")
        site.wait_for()
    report.add(version_of(debian_program("prometheus", "prometheus")), rules)
    report.add(version_of(debian_program("prometheus-alertmanager", "prometheus-alertmanager")), 4)


def _all_up(site: Site) -> bool:
    targets = site.asked("targets")["activeTargets"]
    return len(targets) == 2 and all(target["health"] == "up" for target in targets)


def check_rules(site: Site) -> int:
    """Evaluate each rule, and look for its metrics in what was scraped. Return how many rules there are.

    Metrics of the mirror, of bridges and of their processes are not looked for, because none of these runs.
    """
    wait_until(lambda: all(rule["health"] == "ok" for rule in _rules(site)), within=WITHIN, what="each rule is ok")
    scraped = {metric["metric"] for metric in site.asked("targets/metadata", match_target='{job=~"mirrorgate.*"}')}
    ours = {name for process in ("api", "drain") for name in families_of(recording(process))}
    for rule in alert_rules():
        site.asked("query", query=rule["expr"])
        families = {name for name in metric_names(rule["expr"]) if name in ours or name.removesuffix("_total") in ours}
        assert {name for name in families if {name, name.removesuffix("_total")}.isdisjoint(scraped)} == set()
    return len(_rules(site))


def _rules(site: Site) -> list[dict[str, Any]]:
    return [rule for group in site.asked("rules")["groups"] for rule in group["rules"]]
