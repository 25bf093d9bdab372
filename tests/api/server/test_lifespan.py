"""The lifespan of the API starts every thread of its own, and leaves none behind."""

import threading

import pytest
from pydantic import SecretStr

from app.api.auth.oidc import IssuerKeys, OidcVerifier
from app.api.lifespan import running_gateway
from app.settings import Settings
from tests.api.calls import insert, own_gateway

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


def test_a_gateway_stops_the_threads_that_it_has_started(settings: Settings) -> None:
    before = {*threading.enumerate()}
    with running_gateway(settings) as gateway:
        gateway.probe_threads.submit(lambda: None).result()
        started = {*threading.enumerate()} - before
        assert {thread.name.rpartition("_")[0] or thread.name for thread in started} >= {"group-commit", "probe"}
    assert not {thread.name for thread in started if thread.is_alive()}


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
