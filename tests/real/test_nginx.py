"""nginx with TLS in front of the API: large bodies, kept connections, and requests that break on the way."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import trustme

from mirrorgate import BufferLimits, ChangeWriter, GatewayClient, RejectedByGateway
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.api.calls import ADMIN_KEY
from tests.model.gateway import Gateway
from tests.real.counterparts import debian_program
from tests.real.debezium import landed
from tests.real.report import Report
from tests.support.http.faulty_proxy import Fault, faulty_proxy
from tests.support.http.server import free_port
from tests.support.waiting import wait_until

TABLE: Final = "shop.orders"
CONFIGURATION: Final = """
daemon off; master_process off; pid {folder}/nginx.pid;
events {{ worker_connections 64; }}
http {{
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  log_format facts '$status,$upstream_status,$connection'; access_log {folder}/access.log facts;
  upstream gateway {{ server {gateway} max_fails=0; server {gateway} max_fails=0; keepalive 4; }}
  server {{
    listen 127.0.0.1:{port} ssl; ssl_certificate {folder}/tls.pem; ssl_certificate_key {folder}/tls.pem;
    location / {{
      proxy_pass http://gateway; proxy_http_version 1.1; proxy_set_header Connection "";
      {lines}
    }}
  }}
}}
"""


@dataclass
class Nginx:
    """A running nginx, with a client that trusts its certificate."""

    client: GatewayClient
    folder: Path

    def log(self) -> list[tuple[str, str, str]]:
        """Return of each request its status, those of the upstream, and the number of the client's connection."""
        lines = (self.folder / "access.log").read_text().splitlines()
        return [(status, tried, number) for status, tried, number in (_parted(line) for line in lines)]


def _parted(line: str) -> tuple[str, str, str]:
    status, _, rest = line.partition(",")
    tried, _, number = rest.rpartition(",")
    return status, tried, number


@pytest.fixture
def version() -> str:
    """Return the name and version of the installed nginx."""
    program = debian_program("nginx-light", "nginx")
    answer = subprocess.run([program, "-v"], capture_output=True, text=True, timeout=30, check=True)
    return answer.stderr.strip().rpartition(": ")[2].replace("/", " ")


@contextmanager
def nginx(upstream: str, folder: Path, *lines: str) -> Iterator[Nginx]:
    folder.mkdir()
    port, issued = free_port(), trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "tls.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "trusted.pem")
    text = CONFIGURATION.format(
        folder=folder, port=port, gateway=upstream.removeprefix("http://"), lines="\n".join(lines)
    )
    (folder / "nginx.conf").write_text(text)
    program = debian_program("nginx-light", "nginx")
    with (folder / "error.log").open("w") as log:
        process = subprocess.Popen([program, "-e", "stderr", "-c", folder / "nginx.conf"], stderr=log)
        try:
            with GatewayClient(f"https://127.0.0.1:{port}", ADMIN_KEY, folder / "trusted.pem") as client:
                wait_until(lambda: process.poll() is not None or _answers(client), within=30, what="nginx answers")
                assert process.poll() is None, (folder / "error.log").read_text()
                yield Nginx(client, folder)
        finally:
            process.terminate()
            process.wait(30)


def _answers(client: GatewayClient) -> bool:
    try:
        return bool(client.parts())
    except TemporarilyUnavailable:
        return False


def registered(gateway: Gateway) -> None:
    columns = [{"name": "id", "type": "int64", "nullable": False}, {"name": "note", "type": "string"}]
    declared = gateway.call("PUT", f"/v1/tables/{TABLE}", json={"key_columns": ["id"], "columns": columns})
    assert declared.status_code < 300, declared.text


def published(gateway: Gateway) -> dict[Any, dict[str, Any]]:
    """Return the rows that have landed once everything is published. Fails if a row is inserted twice."""

    def is_published() -> bool:
        return bool(gateway.call("GET", f"/v1/tables/{TABLE}").json()["lag"]["batches"] == 0)

    gateway.until(is_published, "all batches are published")
    return landed(gateway, TABLE, "id")


def row(number: int, size: int = 10) -> dict[str, Any]:
    return {"id": number, "note": "x" * size}


def check_too_large(proxy: Nginx, body: bytes) -> None:
    with pytest.raises(RejectedByGateway, match="a proxy answered 413") as error:
        proxy.client.post_changes("rows", body, table=TABLE)
    assert (error.value.code, error.value.status) == (Code.BODY_TOO_LARGE, 413)
    assert "Raise the limit of the proxy" in str(error.value.remedy)


@pytest.mark.parametrize("buffering", ["on", "off"])
def test_a_413_of_the_proxy_names_its_limit_and_a_large_body_within_it_lands_once(
    gateway: Gateway, tmp_path: Path, version: str, report: Report, buffering: str
) -> None:
    registered(gateway)
    body = msgspec.json.encode([row(1, 2 * 2**20)])
    lines = [f"proxy_request_buffering {buffering};"]
    with nginx(gateway.url, tmp_path / "small", *lines) as proxy:
        check_too_large(proxy, body)
    with nginx(gateway.url, tmp_path / "large", "client_max_body_size 64m;", *lines) as proxy:
        proxy.client.post_changes("rows", body, table=TABLE, key="first")
        check_too_large(proxy, body.ljust(65 * 2**20))
        proxy.client.post_changes("rows", body, table=TABLE, key="first")
    assert published(gateway) == {(1,): row(1, 2 * 2**20)}
    report.add(version, 1)


@pytest.mark.parametrize(
    ("limits", "statuses"), [(BufferLimits(), {"202"}), (BufferLimits(request_bytes=2**22, max_age=60), {"202", "413"})]
)
def test_a_writer_lands_all_rows_on_one_connection_also_if_the_proxy_rejects_its_requests(
    gateway: Gateway, tmp_path: Path, version: str, report: Report, limits: BufferLimits, statuses: set[str]
) -> None:
    registered(gateway)
    wanted = {(number,): row(number, 1000) for number in range(4000)}
    with nginx(gateway.url, tmp_path / "nginx") as proxy:
        with ChangeWriter(proxy.client, table=TABLE, limits=limits) as writer:
            for one in wanted.values():
                writer.write(one)
        log = proxy.log()
    assert {status for status, _, _ in log} - {"200"} == statuses
    assert len({number for status, _, number in log if status == "202"}) == 1 or "413" in statuses
    assert published(gateway) == wanted
    report.add(version, len(wanted))


@pytest.mark.parametrize(
    ("repeats", "statuses"), [("off", {"202", "500", "502"}), ("error timeout non_idempotent", {"202", "500"})]
)
@pytest.mark.parametrize("producer", [None, "app/outbox"])
def test_rows_land_once_whether_the_writer_or_nginx_repeats_a_request_that_broke(
    gateway: Gateway,
    tmp_path: Path,
    version: str,
    report: Report,
    repeats: str,
    statuses: set[str],
    producer: str | None,
) -> None:
    registered(gateway)
    wanted = {(number,): row(number) for number in range(200)}
    with (
        faulty_proxy(gateway.url) as faulty,
        nginx(faulty.url, tmp_path / "nginx", f"proxy_next_upstream {repeats};") as proxy,
    ):
        faulty.faults = [Fault.LOST, Fault.NONE, Fault.DROPPED, Fault.NONE, Fault.FAILED, Fault.NONE, Fault.LOST]
        limits = BufferLimits(request_rows=20)
        with ChangeWriter(proxy.client, table=TABLE, producer=producer, limits=limits) as writer:
            for one in wanted.values():
                writer.write(one)
        log = proxy.log()
    assert not faulty.faults
    assert {status for status, _, _ in log} - {"200", "404"} == statuses
    assert any("," in tried for _, tried, _ in log) == (repeats != "off")
    assert published(gateway) == wanted
    report.add(version, len(wanted))
