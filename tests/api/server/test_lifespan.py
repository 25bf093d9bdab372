"""The start of the API: where it listens, with TLS or a proxy that terminates it, and the threads that it starts."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import trustme
from pydantic import SecretStr

from app import main
from app.api.auth.oidc import IssuerKeys, OidcVerifier
from app.api.lifespan import running_gateway
from app.local import up
from app.local.embedded import PrivatePostgres
from app.settings import Settings
from app.staging.connection.database import open_engine
from app.staging.ledger.leases import renew_lease
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable
from mirrorgate.http import GatewayClient
from tests.api.calls import ADMIN_KEY, insert, own_gateway
from tests.support.http.server import api_process
from tests.support.postgres import sql
from tests.support.postgres.databases import create_database
from tests.support.processes import REPOSITORY

OWN_THREADS = (
    "audit-writer",
    "backlog-watch",
    "columnar-reader",
    "group-commit",
    "history-sampler",
    "issuer-keys",
    "probe",
    "resource-watch",
    "notification-sender",
)


def threads() -> set[threading.Thread]:
    """Return the threads that are not of the server's event loop, of its worker threads or of the tests."""
    return {thread for thread in threading.enumerate() if thread.name.startswith(OWN_THREADS)}


@pytest.fixture
def settings(database_url: str) -> Settings:
    return Settings(database_url=SecretStr(database_url))


def test_no_thread_is_left_after_the_api_has_stopped(database_url: str) -> None:
    before = {*threading.enumerate()}
    with own_gateway(database_url) as gateway:
        gateway.register("t", {"id": "int64", "note": "string"}, ["id"]).raise_for_status()
        large = [insert("t", id=str(number), note="x" * 100) for number in range(500)]
        assert gateway.arcion(*large).status_code == 202  # read by the thread for large bodies
        assert gateway.get("/readyz").status_code == 200
        assert gateway.get("/statusz").status_code in {200, 503}
        assert len({thread.name for thread in threads() - before}) >= 7
    left = {thread.name for thread in {*threading.enumerate()} - before if thread.is_alive()}
    assert not {name for name in left if not name.startswith(("AnyIO", "asyncio"))}, left


def test_the_thread_that_reads_an_issuers_keys_is_stopped(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = OidcVerifier(IssuerKeys("https://127.0.0.1:1"), "issuer", "audience", {})
    monkeypatch.setattr("app.api.lifespan.token_verifier", lambda _: verifier)
    before = {*threading.enumerate()}
    with running_gateway(settings):
        pass
    assert not {thread.name for thread in {*threading.enumerate()} - before}


def test_a_failed_start_leaves_no_thread(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Settings) -> None:
        raise RuntimeError("no verifier")

    before = {*threading.enumerate()}
    monkeypatch.setattr("app.api.lifespan.token_verifier", fail)
    with pytest.raises(RuntimeError, match="no verifier"), running_gateway(settings):
        pass
    assert not {thread.name for thread in {*threading.enumerate()} - before}


Files = tuple[Path, Path]


def certificate(folder: Path, name: str) -> Files:
    """Return a certificate for this host name, which has expired, and its private key."""
    year = datetime(2024, 1, 1, tzinfo=UTC)
    issued = trustme.CA().issue_cert(name, not_before=year, not_after=year + timedelta(days=366))
    files = folder / f"{name}.pem", folder / f"{name}.key"
    issued.cert_chain_pems[0].write_to_path(files[0])
    issued.private_key_pem.write_to_path(files[1])
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return certificate(tmp_path_factory.mktemp("tls"), "gateway.example")


def start_check(database_url: str, **given: Any) -> None:
    settings = {"database_url": SecretStr(database_url), "admin_key": SecretStr(ADMIN_KEY), **given}
    main.check_start(Settings.model_validate(settings))


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "configure_logging", lambda _: None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "gateway.example", ""])
def test_listening_in_public_needs_tls_or_a_proxy_that_is_said_to_be_there(
    database_url: str, files: Files, host: str
) -> None:
    with pytest.raises(Misconfigured, match=Code.PUBLIC_WITHOUT_TLS) as rejection:
        start_check(database_url, host=host)
    assert "MIRRORGATE_BEHIND_TLS_PROXY" in rejection.value.remedy
    start_check(database_url, host=host, behind_tls_proxy=True)
    start_check(database_url, host=host, tls_certificate_file=files[0], tls_key_file=files[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_listening_on_this_machine_alone_needs_neither(database_url: str, host: str) -> None:
    start_check(database_url, host=host)


@pytest.mark.parametrize("behind_tls_proxy", [False, True])
def test_in_public_there_must_be_a_key(database_url: str, files: Files, behind_tls_proxy: bool) -> None:
    tls = {} if behind_tls_proxy else {"tls_certificate_file": files[0], "tls_key_file": files[1]}
    with pytest.raises(Misconfigured, match=Code.PUBLIC_WITHOUT_KEY):
        start_check(database_url, host="0.0.0.0", admin_key=None, behind_tls_proxy=behind_tls_proxy, **tls)


def test_a_certificate_and_key_that_do_not_go_together_are_rejected(
    database_url: str, files: Files, tmp_path: Path
) -> None:
    own, key = files
    other, _ = certificate(tmp_path, "other.example")
    for given in (
        {"tls_certificate_file": own},
        {"tls_key_file": key},
        {"tls_certificate_file": other, "tls_key_file": key},
        {"tls_certificate_file": key, "tls_key_file": own},
        {"tls_certificate_file": own, "tls_key_file": tmp_path / "nothing"},
    ):
        with pytest.raises(Misconfigured, match=Code.BAD_SETTING) as rejection:
            start_check(database_url, **given)
        assert "MIRRORGATE_TLS_KEY_FILE" in rejection.value.detail + rejection.value.remedy


@pytest.fixture(scope="module")
def tls_address(postgres: PrivatePostgres, template_database: str, files: Files) -> Iterator[str]:
    """Give the address of a process that serves with the certificate."""
    settings = {"TLS_CERTIFICATE_FILE": str(files[0]), "TLS_KEY_FILE": str(files[1])}
    url = create_database(postgres.url, "tls", template=template_database)
    engine = open_engine(url)
    sql.call(engine, renew_lease, uuid4(), 3600)
    engine.dispose()
    with api_process(url, ADMIN_KEY, "https", **settings) as (_, address):
        yield address


@pytest.mark.slow
def test_with_a_certificate_nothing_is_answered_in_plain_and_clients_here_trust_that_one_alone_even_expired(
    tls_address: str, files: Files, tmp_path: Path
) -> None:
    port = int(tls_address.rpartition(":")[2])
    with pytest.raises(httpx.RemoteProtocolError), httpx.Client(trust_env=False) as client:
        client.get(f"http://127.0.0.1:{port}/healthz")
    (tmp_path / "admin.key").write_text(ADMIN_KEY)
    (tmp_path / "gateway.json").write_text(
        json.dumps({"url": tls_address, "pid": os.getpid(), "certificate": str(files[0])})
    )
    with GatewayClient.find(None, None, tmp_path) as client:
        assert client.get("/v1/tables")["tables"] == []
    other, _ = certificate(tmp_path, "other.example")
    (tmp_path / "gateway.json").write_text(
        json.dumps({"url": tls_address, "pid": os.getpid(), "certificate": str(other)})
    )
    with GatewayClient.find(None, None, tmp_path) as client, pytest.raises(TemporarilyUnavailable):
        client.get("/v1/tables")
    with GatewayClient(tls_address, ADMIN_KEY) as client, pytest.raises(TemporarilyUnavailable):
        client.get("/v1/tables")
    trusted = {name: up.answers_ready("127.0.0.1", port, name) for name in (files[0], other, tmp_path / "nothing")}
    assert [*trusted.values()] == [True, False, False]


@pytest.mark.slow
def test_the_health_check_of_the_image_knows_tls(tls_address: str, files: Files) -> None:
    environment = os.environ | {
        "MIRRORGATE_PORT": tls_address.rpartition(":")[2],
        "MIRRORGATE_TLS_CERTIFICATE_FILE": str(files[0]),
        "MIRRORGATE_TLS_KEY_FILE": str(files[1]),
        "PYTHONPATH": str(REPOSITORY),
    }
    command = [sys.executable, str(REPOSITORY / "docker" / "api_healthy.py")]
    subprocess.run(command, env=environment, check=True, timeout=60)
    del environment["MIRRORGATE_TLS_CERTIFICATE_FILE"]
    failed = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    assert failed.returncode != 0


@pytest.mark.parametrize(
    ("settings", "believed"),
    [
        ({}, (False, "127.0.0.1")),
        ({"behind_tls_proxy": True}, (True, "127.0.0.1")),
        ({"behind_tls_proxy": True, "forwarded_allow_ips": "10.1.0.0/16"}, (True, "10.1.0.0/16")),
    ],
)
def test_what_a_proxy_says_is_believed_of_the_proxies_that_are_named_alone(
    settings: dict[str, Any], believed: tuple[bool, str]
) -> None:
    listens = main.listening(Settings.model_validate(settings))
    assert (listens["proxy_headers"], listens["forwarded_allow_ips"]) == believed
