"""The client of a gateway: which gateway it calls, how long it waits, and what an answer of a proxy means."""

import json
import os
import pickle
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest

from mirrorgate import http
from mirrorgate.errors import Code, MirrorgateError, Misconfigured, RejectedInput, TemporarilyUnavailable
from mirrorgate.http import ANSWER_SECONDS, GatewayClient, RejectedByGateway, checked
from mirrorgate.producer import ProducerConflict
from mirrorgate.writer.core import RejectedRow, RowsRejected


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[GatewayClient, list[httpx.Response]]]:
    """Give a client, and the list whose first entry each of its requests takes as the answer."""
    waiting: list[httpx.Response] = []
    options = http.options_of("http://gateway", "key", None)
    options |= {"transport": httpx.MockTransport(lambda _: waiting.pop(0))}
    monkeypatch.setattr(http, "options_of", lambda *_: options)
    with GatewayClient("http://gateway", "key") as client:
        yield client, waiting


def test_a_long_answer_does_not_lengthen_the_wait_for_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"])
        return httpx.Response(200, json={})

    options = http.options_of("http://gateway", "key", None) | {"transport": httpx.MockTransport(answer)}
    monkeypatch.setattr(http, "options_of", lambda *_: options)
    with GatewayClient("http://gateway", "key") as client:
        client.post("/v1/tables/orders/checks", {}, answer_seconds=3_600.0)
    assert seen == [{"connect": ANSWER_SECONDS, "read": 3_600.0, "write": ANSWER_SECONDS, "pool": ANSWER_SECONDS}]


REJECTION = RejectedByGateway({"code": "null_key", "detail": "no", "errors": [{"index": 0}]}, 422, 5)


@pytest.mark.parametrize(
    "error",
    [
        REJECTION,
        ProducerConflict("p", REJECTION),
        RowsRejected([RejectedRow("handle", 1, 0, "null_key", "no", "Send it.", "/id")], REJECTION, 2),
        TemporarilyUnavailable(Code.NOT_READY, "not now", retry_after=7, remedy="Wait."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_reaches_another_process_as_it_is(error: MirrorgateError) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert (type(arrived), str(arrived), vars(arrived)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("key", ["mg_a_key\r", "mg_a_key ", "mg_…", "", "mg a", "mg_\udce9"])
def test_what_no_key_can_be_is_rejected_at_once_and_not_shown(key: str, tmp_path: Path) -> None:
    with pytest.raises(RejectedInput, match="not an API key") as error:
        GatewayClient("http://127.0.0.1:1", key)
    assert (error.value.code, "mg" in error.value.detail) == (Code.UNAUTHENTICATED, False)


@pytest.mark.parametrize(
    "url", ["http://me:secret@127.0.0.1:1", "http://secret@127.0.0.1:1", "http://127.0.0.1:1?secret"]
)
def test_a_url_with_credentials_is_rejected_at_once_and_not_shown(url: str) -> None:
    with pytest.raises(Misconfigured, match="the URL of the gateway") as error:
        GatewayClient(url, "mg_a_key")
    assert "secret" not in str(error.value)


def test_a_gateway_on_this_machine_is_called_without_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        with (
            GatewayClient("http://127.0.0.1:1", "mg_a_key") as client,
            pytest.raises(TemporarilyUnavailable, match=r"no gateway answers at http://127.0.0.1:1$"),
        ):
            client.get("/v1/tables")
    with (
        GatewayClient("http://gateway.example", "mg_a_key") as client,
        pytest.raises(TemporarilyUnavailable, match="through the proxy of the environment"),
    ):
        client.get("/v1/tables")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SSL_CERT_FILE", "/nowhere/secret.pem"),
        ("ALL_PROXY", "ftp://me:secret@proxy"),
        ("ALL_PROXY", "socks5://secret:1"),
    ],
)
def test_an_environment_that_cannot_be_used_is_a_setting(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Misconfigured) as error:
        GatewayClient("https://gateway.example", "mg_a_key")
    assert (error.value.code, name in error.value.remedy, "secret" in str(error.value)) == (
        Code.BAD_SETTING,
        True,
        False,
    )


@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(b"mg_\xff"), Path.mkdir])
def test_a_damaged_key_file_is_rejected(damage: Callable[[Path], object], tmp_path: Path) -> None:
    damage(tmp_path / "admin.key")
    with pytest.raises(RejectedInput) as error:
        GatewayClient.find("http://127.0.0.1:1", None, tmp_path)
    assert error.value.code is Code.UNAUTHENTICATED


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8480",
        "localhost",
        "ftp://127.0.0.1",
        "http://",
        "http://a:99999",
        "http://[::1",
        "http://a\udce9",
        "http://user:password@127.0.0.1:1",
        "",
    ],
)
def test_what_is_no_url_of_a_gateway_is_wrong_usage(url: str, tmp_path: Path) -> None:
    (tmp_path / "admin.key").write_text("mg_a_key")
    for key in (None, "mg_a_key"):
        with pytest.raises(Misconfigured, match="http") as error:
            GatewayClient.find(url, key, tmp_path)
        assert (error.value.code, error.value.exit_status) == (Code.BAD_SETTING, 2)
        assert "password" not in str(error.value)


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [(413, Code.BODY_TOO_LARGE, "limit of the proxy"), (502, Code.INTERNAL, "log of the proxy")],
)
def test_an_error_page_of_a_proxy_is_not_taken_for_an_answer_of_the_gateway(
    status: int, code: Code, remedy: str
) -> None:
    with pytest.raises(RejectedByGateway, match=f"a proxy answered {status} in place of the gateway") as error:
        checked(httpx.Response(status, html="<h1>No</h1>"))
    assert (error.value.code, error.value.status) == (code, status)
    assert remedy in str(error.value.remedy)


@pytest.mark.parametrize(
    "gateway_file",
    [
        None,
        "{",
        "[]",
        '{"url": "http://127.0.0.1:1"}',
        *(f'{{"url": "http://127.0.0.1:1", "pid": {pid}}}' for pid in (2**31 - 1, 2**80)),
    ],
    ids=["none", "damaged", "another document", "without a process", "of a process that is gone", "of no process"],
)
def test_the_key_of_a_data_directory_is_not_sent_to_what_else_listens_on_the_default_port(
    tmp_path: Path, gateway_file: str | None
) -> None:
    (tmp_path / "admin.key").write_text("mg_a_key\n")
    if gateway_file is not None:
        (tmp_path / "gateway.json").write_text(gateway_file)
    with pytest.raises(TemporarilyUnavailable, match=f"no gateway runs on {tmp_path}") as error:
        GatewayClient.find(None, None, tmp_path)
    assert (error.value.code, "mirrorgate up" in error.value.remedy) == (Code.NOT_READY, True)
    with GatewayClient.find(None, "mg_given_key", tmp_path) as client:
        assert client.url == http.DEFAULT_URL


@pytest.mark.parametrize("certificate", ["missing.pem", "gateway.json", "."])
def test_a_certificate_of_a_running_gateway_that_cannot_be_read_is_named(certificate: str, tmp_path: Path) -> None:
    file = str(tmp_path / certificate)
    running = {"url": "https://127.0.0.1:1", "pid": os.getpid(), "certificate": file}
    (tmp_path / "gateway.json").write_text(json.dumps(running))
    with pytest.raises(Misconfigured, match=re.escape(file)) as rejection:
        GatewayClient.find(None, "mg_a_key", tmp_path)
    assert rejection.value.code is Code.BAD_SETTING


@pytest.mark.parametrize(
    ("url", "is_sent"),
    [("http://localhost:1", True), ("https://gateway.example", True), ("https://other.example", False)],
)
def test_the_key_of_a_data_directory_is_for_this_machine_and_its_own_gateway(
    tmp_path: Path, url: str, *, is_sent: bool
) -> None:
    (tmp_path / "admin.key").write_text("mg_a_key\n")
    (tmp_path / "gateway.json").write_text(json.dumps({"url": "https://gateway.example", "pid": os.getpid()}))
    with nullcontext() if is_sent else pytest.raises(RejectedInput, match="another machine"):
        GatewayClient.find(url, None, tmp_path)
    GatewayClient.find(url, "mg_given_key", tmp_path)


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"<h1>Hello</h1>", b'"\xff"'])
def test_the_answer_of_another_server_is_not_taken_for_one_of_the_gateway(
    answers: tuple[GatewayClient, list[httpx.Response]], content: bytes
) -> None:
    client, waiting = answers
    calls: list[Callable[[], object]] = [
        lambda: client.get("/v1/tables"),
        client.parts,
        lambda: client.download("/v1/tables/t/dead-letters/1"),
    ]
    for call in calls:
        waiting.append(httpx.Response(200, content=content))
        with pytest.raises(RejectedByGateway, match="answered 200 in place of the gateway"):
            call()


@pytest.mark.parametrize("problem", [None, [], {"errors": {"name": ["wrong"]}}, {"detail": "not found"}])
def test_an_error_without_a_code_is_not_one_of_the_gateway(problem: object) -> None:
    with pytest.raises(RejectedByGateway, match="a proxy answered 404 in place of the gateway") as error:
        checked(httpx.Response(404, json=problem))
    assert error.value.errors == []


def test_an_empty_answer_to_a_deletion_is_expected(answers: tuple[GatewayClient, list[httpx.Response]]) -> None:
    client, waiting = answers
    waiting.append(httpx.Response(204))
    assert client.delete("/v1/keys/1") is None


@pytest.mark.parametrize("value", ["größe", "a\nb", "a ", 5])
def test_a_header_that_http_cannot_send_is_rejected_and_not_repeated(
    answers: tuple[GatewayClient, list[httpx.Response]], value: object
) -> None:
    client, _ = answers
    with pytest.raises(RejectedInput, match="Mirrorgate-Producer-Position") as error:
        client.post_changes("rows", b"{}", headers={"Mirrorgate-Producer-Position": value})  # type: ignore[dict-item]  # wrong on purpose
    assert error.value.code is Code.BAD_REQUEST


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_a_value_that_json_cannot_have_is_rejected_and_not_sent(
    answers: tuple[GatewayClient, list[httpx.Response]], value: object
) -> None:
    client, _ = answers
    with pytest.raises(RejectedInput, match="cannot be sent as JSON") as error:
        client.put("/v1/tables/t", {"options": {"constants": value}})
    assert error.value.code is Code.BAD_REQUEST


def test_a_failed_tls_handshake_is_told_from_a_gateway_that_does_not_run() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_in_plain_http() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=answer_in_plain_http)
        thread.start()
        with (
            GatewayClient(f"https://127.0.0.1:{server.getsockname()[1]}", "key") as client,
            pytest.raises(TemporarilyUnavailable, match="no TLS connection") as error,
        ):
            client.get("/v1/tables")
        thread.join()
    assert "SSL_CERT_FILE" in error.value.remedy
