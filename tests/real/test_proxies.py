"""nginx and HAProxy with TLS in front of the API: large bodies, kept connections, and requests that break."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import sqlalchemy as sa
import trustme

from mirrorgate import BufferLimits, ChangeWriter, GatewayClient, RejectedByGateway
from mirrorgate.errors import Code, MirrorgateError
from tests.api.calls import ADMIN_KEY
from tests.limits.slow_commits import commit_freely, held_commits, wait_for_a_held_commit
from tests.model.gateway import Gateway
from tests.model.tables import MASK_SECRET
from tests.real.counterparts import debian_program, output_of
from tests.real.debezium import Rows, by_id, landed
from tests.real.report import Report
from tests.support.http.faulty_proxy import Fault, faulty_proxy
from tests.support.http.server import api_process, free_port
from tests.support.processes import program
from tests.support.waiting import wait_until

TABLE: Final = "shop.orders"
MIB: Final = 2**20
NGINX: Final = """
daemon off; master_process off; pid {folder}/nginx.pid;
events {{ worker_connections 64; }}
http {{
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  log_format facts '$status $connection $upstream_status'; access_log {folder}/access.log facts;
  upstream gateway {{ server {first} max_fails=0; server {second} max_fails=0; keepalive 4; }}
  server {{
    listen 127.0.0.1:{port} ssl; ssl_certificate {folder}/tls.pem; ssl_certificate_key {folder}/tls.pem;
    location / {{
      proxy_pass http://gateway; proxy_http_version 1.1; proxy_set_header Connection "";
      {lines}
    }}
  }}
}}
"""
HAPROXY: Final = """
global
  log stdout format raw local0
defaults
  mode http
  log global
  log-format "%ST %cp %rc"
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend tls
  bind 127.0.0.1:{port} ssl crt {folder}/tls.pem
  default_backend gateway
backend gateway
  http-reuse always
  {lines}
  server first {first}
  server second {second}
"""


@dataclass(frozen=True)
class Kind:
    """A program, its configuration, and the lines that make it do what a test is about."""

    package: str
    program: str
    configuration: str
    arguments: list[str]
    repeated: str
    """Expression found in the last field of a log line if the proxy repeated the request."""
    streamed: list[str]
    """Lines to pass a body on as it arrives."""
    stored: list[str]
    """Lines to receive a body, or what fits into a buffer of it, before the gateway gets it."""
    never: list[str]
    """Lines to repeat nothing."""
    repeats: list[str]
    """Lines to repeat what broke."""
    repeats_when_down: list[str]
    """Lines to repeat, at the other gateway, what could not be sent."""
    impatient: list[str]
    """Lines to wait a second for an answer."""


KINDS: Final = {
    "nginx": Kind(
        "nginx-light",
        "nginx",
        NGINX,
        ["-e", "stderr", "-c"],
        repeated=",",
        streamed=["client_max_body_size 0;", "proxy_request_buffering off;"],
        stored=["client_max_body_size 0;", "proxy_request_buffering on;"],
        never=["proxy_next_upstream off;"],
        repeats=["proxy_next_upstream error timeout non_idempotent;"],
        repeats_when_down=["proxy_next_upstream error;"],
        impatient=["proxy_read_timeout 1s;"],
    ),
    "haproxy": Kind(
        "haproxy",
        "haproxy",
        HAPROXY,
        ["-db", "-f"],
        repeated="[1-9]",
        streamed=[],
        stored=["option http-buffer-request"],
        never=["retries 0"],
        repeats=["retries 3", "option http-buffer-request", "retry-on conn-failure empty-response response-timeout"],
        repeats_when_down=["retries 3", "option redispatch 1"],
        impatient=["timeout server 1s"],
    ),
}


@dataclass
class Proxy:
    """A running proxy, with a client that trusts its certificate."""

    client: GatewayClient
    log_file: Path
    repeated: str

    def log(self) -> list[tuple[str, str, bool]]:
        """Return of each request its status, the port or number of its connection, and whether it was repeated."""
        lines = [line.split(" ", 2) for line in self.log_file.read_text().splitlines()]
        return [(status, caller, bool(re.search(self.repeated, tried))) for status, caller, tried in lines]

    def statuses(self) -> set[str]:
        """Return the statuses of the requests that carry changes: only the others get 200 or 404."""
        return {status for status, _, _ in self.log()} - {"200", "404"}


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def version_of(kind: Kind) -> str:
    """Return the name and version of the installed proxy."""
    told = output_of(debian_program(kind.package, kind.program), "-v")
    found = re.search(r"(nginx|HAProxy)(?:/| version )([\d.]+)", told)
    assert found
    return f"{found[1]} {found[2]}"


@contextmanager
def run(kind: Kind, folder: Path, lines: list[str], *gateways: str) -> Iterator[Proxy]:
    """Run a proxy with these lines in front of one or two gateways."""
    folder.mkdir()
    port, issued = free_port(), trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "tls.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "trusted.pem")
    hosts = [gateway.removeprefix("http://") for gateway in gateways]
    configuration, log = folder / "configuration", folder / "access.log"
    text = kind.configuration.format(
        folder=folder, port=port, first=hosts[0], second=hosts[-1], lines="\n  ".join(lines)
    )
    configuration.write_text(text)
    command = [debian_program(kind.package, kind.program), *kind.arguments, configuration]
    with (
        log.open("w") as output,
        GatewayClient(f"https://127.0.0.1:{port}", ADMIN_KEY, folder / "trusted.pem") as client,
        program(folder / "error.log", *command, ready=lambda: _answers(client), stdout=output),
    ):
        yield Proxy(client, log, kind.repeated)


def _answers(client: GatewayClient) -> bool:
    try:
        return bool(client.parts())
    except MirrorgateError:
        return False


@pytest.fixture
def gateway(gateway: Gateway) -> Gateway:
    gateway.register(TABLE, {"id": "int64", "note": "string"})
    return gateway


def published(gateway: Gateway) -> Rows:
    """Return the rows that have landed once everything is published. Fails if a row is inserted twice."""
    gateway.until_published(TABLE)
    return landed(gateway, TABLE, "id")


def row(number: int, size: int = 10) -> dict[str, Any]:
    return {"id": number, "note": "x" * size}


def write(client: GatewayClient, rows: list[dict[str, Any]], **options: Any) -> None:
    with ChangeWriter(client, table=TABLE, **options) as writer:
        for one in rows:
            writer.write(one)


def test_a_413_of_nginx_names_its_limit(gateway: Gateway, tmp_path: Path, report: Report) -> None:
    kind = KINDS["nginx"]
    with (
        run(kind, tmp_path / "proxy", [], gateway.url) as proxy,
        pytest.raises(RejectedByGateway, match="a proxy answered 413") as error,
    ):
        proxy.client.post_changes("rows", msgspec.json.encode([row(1, 2 * MIB)]), table=TABLE)
    assert (error.value.code, error.value.status) == (Code.BODY_TOO_LARGE, 413)
    assert "Raise the limit of the proxy" in str(error.value.remedy)
    report.add(version_of(kind), 1)


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_large_body_lands_once_and_one_over_the_limit_of_the_gateway_gets_its_413(
    gateway: Gateway, tmp_path: Path, kind: Kind, report: Report, is_stored: bool
) -> None:
    body = msgspec.json.encode([row(1, 2 * MIB)])
    with run(kind, tmp_path / "proxy", kind.stored if is_stored else kind.streamed, gateway.url) as proxy:
        proxy.client.post_changes("rows", body, table=TABLE, key="first")
        for _ in range(5):
            with pytest.raises(RejectedByGateway, match="the body is larger than 67108864 bytes") as error:
                proxy.client.post_changes("rows", body.ljust(65 * MIB), table=TABLE)
            assert (error.value.code, error.value.status) == (Code.BODY_TOO_LARGE, 413)
        proxy.client.post_changes("rows", body, table=TABLE, key="first")
    assert published(gateway) == {(1,): row(1, 2 * MIB)}
    report.add(version_of(kind), 6)


def test_a_large_body_with_a_wrong_key_gets_its_401(
    gateway: Gateway, tmp_path: Path, kind: Kind, report: Report
) -> None:
    body = msgspec.json.encode([row(1, 32 * MIB)])
    with run(kind, tmp_path / "proxy", kind.streamed, gateway.url) as proxy:
        stranger = GatewayClient(
            proxy.client.url, "mg_00000000ffffffff_" + "x" * 43, tmp_path / "proxy" / "trusted.pem"
        )
        with stranger:
            for _ in range(5):
                with pytest.raises(RejectedByGateway) as error:
                    stranger.post_changes("rows", body, table=TABLE)
                assert (error.value.code, error.value.status) == (Code.UNAUTHENTICATED, 401)
    report.add(version_of(kind), 5)


@pytest.mark.parametrize("limits", [BufferLimits(), BufferLimits(request_bytes=4 * MIB, max_age=60)])
def test_a_writer_lands_all_rows_on_one_connection_also_if_the_proxy_rejects_its_requests(
    gateway: Gateway, tmp_path: Path, kind: Kind, report: Report, limits: BufferLimits
) -> None:
    rows = [row(number, 1000) for number in range(4000)]
    with run(kind, tmp_path / "proxy", [], gateway.url) as proxy:
        write(proxy.client, rows, limits=limits)
    is_rejected = kind.program == "nginx" and limits.request_bytes > MIB
    assert proxy.statuses() == ({"202", "413"} if is_rejected else {"202"})
    assert len({caller for status, caller, _ in proxy.log() if status == "202"}) == 1 or is_rejected
    assert published(gateway) == by_id(rows)
    report.add(version_of(kind), len(rows))


@pytest.mark.parametrize("is_repeated", [False, True])
@pytest.mark.parametrize("producer", [None, "app/outbox"])
def test_rows_land_once_whether_the_writer_or_the_proxy_repeats_a_request_that_broke(
    gateway: Gateway, tmp_path: Path, kind: Kind, report: Report, is_repeated: bool, producer: str | None
) -> None:
    rows = [row(number) for number in range(200)]
    lines = kind.repeats if is_repeated else kind.never
    with faulty_proxy(gateway.url) as faulty, run(kind, tmp_path / "proxy", lines, faulty.url) as proxy:
        faulty.faults = [Fault.LOST, Fault.NONE, Fault.DROPPED, Fault.NONE, Fault.FAILED, Fault.NONE, Fault.LOST]
        write(proxy.client, rows, producer=producer, limits=BufferLimits(request_rows=20))
    assert not faulty.faults
    # On a kept connection HAProxy closes without an answer, and nginx answers 502.
    assert proxy.statuses() == {"202", "500"} | ({"502"} if kind.program == "nginx" and not is_repeated else set())
    assert any(repeated for _, _, repeated in proxy.log()) == is_repeated
    assert published(gateway) == by_id(rows)
    report.add(version_of(kind), len(rows))


@pytest.mark.parametrize("producer", [None, "app/outbox"])
def test_rows_land_once_if_the_proxy_does_not_wait_for_an_answer(
    gateway: Gateway, engine: sa.Engine, tmp_path: Path, kind: Kind, report: Report, producer: str | None
) -> None:
    rows = [row(number) for number in range(100)]
    with run(kind, tmp_path / "proxy", kind.impatient, gateway.url) as proxy, ThreadPoolExecutor(1) as pool:
        with held_commits(engine):
            written = pool.submit(write, proxy.client, rows, producer=producer)
            wait_for_a_held_commit(engine)
            wait_until(lambda: "504" in proxy.statuses(), within=30, what="the proxy answers 504")
        written.result(60)
    assert "504" in proxy.statuses()
    assert published(gateway) == by_id(rows)
    commit_freely(engine)
    report.add(version_of(kind), len(rows))


@pytest.mark.parametrize("is_repeated", [False, True])
def test_rows_land_once_if_one_of_two_gateways_is_killed(
    gateway: Gateway, database_url: str, tmp_path: Path, kind: Kind, report: Report, is_repeated: bool
) -> None:
    rows = [row(number) for number in range(2000)]
    settings = {"LANDING_ZONE": str(gateway.zone), "ALLOW_UNSAFE": "true", "MASK_SECRET": MASK_SECRET}
    lines = kind.repeats_when_down if is_repeated else kind.never
    with (
        api_process(database_url, ADMIN_KEY, **settings) as (process, other),
        run(kind, tmp_path / "proxy", lines, gateway.url, other) as proxy,
        ChangeWriter(proxy.client, table=TABLE, limits=BufferLimits(request_rows=20)) as writer,
    ):
        for number, one in enumerate(rows):
            if number == len(rows) // 2:
                writer.flush()
                process.kill()
                process.wait()
            writer.write(one)
    assert proxy.statuses() <= {"202", "502", "503"}
    assert any(repeated for _, _, repeated in proxy.log()) or not is_repeated
    assert published(gateway) == by_id(rows)
    report.add(version_of(kind), len(rows))
