"""HTTP client of the gateway, for the command line and the demo."""

import json
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self
from urllib.request import getproxies

import httpx

from mirrorgate.certificates import trusting_only
from mirrorgate.errors import Code, MirrorgateError, Misconfigured, RejectedInput, TemporarilyUnavailable

GATEWAY_FILE: Final = "gateway.json"
"""In the data directory: URL and certificate of the running gateway."""

ADMIN_KEY_FILE: Final = "admin.key"
"""In the data directory: the admin key."""

DEFAULT_URL: Final = "http://127.0.0.1:8480"
_MAX_PORT: Final = 65_535
_KEY: Final = re.compile("[!-~]+")
_HEADER: Final = re.compile("[!-~]+(?: +[!-~]+)*")
_THIS_MACHINE: Final = ("127.0.0.1", "::1", "localhost")
ANSWER_SECONDS: Final = 60.0
"""Seconds for which a call waits for the next bytes of its answer."""
MAX_PAGE_ENTRIES: Final = 1000
"""Entries of a page that a list is asked for."""
_TOO_LARGE: Final = 413
_CHECK_THE_PROXY: Final = (
    "Check that the URL is that of the gateway, and look for the reason in the log of the proxy in front of it."
)
_NOT_ALL_OK: Final = 503
"""The status of `/statusz` while something needs attention; the answer says what it is."""

_CONNECTION_BROKEN: Final = (
    httpx.ReadError,
    httpx.ReadTimeout,
    httpx.RemoteProtocolError,
    httpx.WriteError,
    httpx.WriteTimeout,
)


class RejectedByGateway(MirrorgateError):
    """The gateway answered with problem details. `errors` are its problems, `retry_after` the seconds to wait."""

    def __init__(self, problem: dict[str, Any], status: int, retry_after: int = 0) -> None:
        known = problem.get("code") in list(Code)
        super().__init__(
            Code(problem["code"]) if known else Code.INTERNAL,
            str(problem.get("detail", f"the gateway answered {status}")),
            remedy=problem.get("remedy"),
        )
        self.status = status
        self.retry_after = retry_after
        self.errors: list[dict[str, Any]] = problem.get("errors", [])


class AnswerLost(TemporarilyUnavailable):
    """The connection broke after the request was sent: the gateway may have carried it out."""


class NoGatewayRuns(TemporarilyUnavailable):
    """The data directory has no running gateway, and no other one is named."""

    exit_status: Final = 3
    """Exit status of the command: another try can succeed."""


class WrongUrl(Misconfigured):
    """The URL is not that of a gateway."""

    exit_status = 2


class GatewayClient:
    """HTTP client of one gateway with one key.

    A malformed URL raises WrongUrl, a malformed key RejectedInput `unauthenticated`. Methods raise RejectedByGateway
    for an error answer, AnswerLost for a broken connection, and TemporarilyUnavailable if no gateway answers.

    For example:

        with GatewayClient(url, key) as gateway:
            gateway.post_changes("rows", b'[{"id": 1}]', table="shop.orders", key="orders-2026-11-28")
    """

    def __init__(self, url: str, key: str, certificate: Path | None = None) -> None:
        """Open a client. `certificate`, if given, is the only one accepted, whatever host name it contains."""
        self.url = url
        self._options = options = options_of(url, key, certificate)
        try:
            if options["verify"] is True:  # with the certificates that the environment names, whatever `trust_env` says
                options["verify"] = httpx.create_ssl_context()
            self._connections = [(os.getpid(), httpx.Client(**options))]
        except (ImportError, OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else type(error).__name__
            raise Misconfigured(
                Code.BAD_SETTING,
                f"the proxy or the certificates that the environment names cannot be used: {why}",
                remedy="Correct HTTP_PROXY, HTTPS_PROXY and ALL_PROXY (http:// or https://), SSL_CERT_FILE and "
                "SSL_CERT_DIR, or unset them.",
            ) from error

    @classmethod
    def find(cls, url: str | None, key: str | None, data_dir: Path) -> Self:
        """Open a client for the given URL and key, or for the gateway that `mirrorgate up` runs on `data_dir`.

        The key in `data_dir` is sent to the gateway that runs there, or to a `url` of this machine.

        Raises RejectedInput `unauthenticated` if there is no key, and NoGatewayRuns if the key has no gateway.
        """
        running = _running_gateway(data_dir / GATEWAY_FILE)
        if key is None:
            key = _stored_key(data_dir / ADMIN_KEY_FILE)
            if url is None and running is None:
                raise NoGatewayRuns(
                    Code.NOT_READY,
                    f"no gateway runs on {data_dir}",
                    remedy="Start one with `mirrorgate up`, or give the address of another with --url or "
                    "MIRRORGATE_URL.",
                )
            if url is not None and host_of(url) not in _THIS_MACHINE and url != (running and running[0]):
                raise RejectedInput(
                    Code.UNAUTHENTICATED,
                    f"the key in {data_dir} is not sent to another machine",
                    remedy="Give the key of the gateway with --key or MIRRORGATE_API_KEY.",
                )
        if url is not None:
            return cls(url, key)
        url, certificate = running or (DEFAULT_URL, None)
        return cls(url, key, certificate)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    @property
    def _http(self) -> httpx.Client:
        """The connections of this process. Requests on those of a process that was forked would mix with its own."""
        process, connections = self._connections[-1]
        if process != os.getpid():
            connections = httpx.Client(**self._options)
            self._connections.append((os.getpid(), connections))  # the others stay referenced: nothing closes them
        return connections

    def get(self, path: str, **parameters: Any) -> Any:
        """Send GET; return the JSON of the answer."""
        return self._call("GET", path, params=parameters)

    def entries(
        self, path: str, name: str, filters: Mapping[str, str] | None = None, *, start: int = 0, cursor: str = "after"
    ) -> Iterator[Any]:
        """Yield the entries of a list that the gateway answers in pages, from the key `name` of each page."""
        following: int | None = start
        while following is not None:
            page = self.get(path, **{cursor: following}, limit=MAX_PAGE_ENTRIES, **(filters or {}))
            yield from page[name]
            following = page[f"next_{cursor}"]

    def parts(self) -> dict[str, str]:
        """Return what the gateway says of each of its parts: `ok`, or what is wrong."""
        with translated_errors(self.url):
            answer = self._http.get("/statusz")
        if answer.status_code != _NOT_ALL_OK:
            checked(answer)
        return {name: str(state) for name, state in _object_of(answer, "parts")["parts"].items()}

    def put(self, path: str, content: Any, **parameters: Any) -> Any:
        """Send PUT with a JSON body; return the JSON of the answer."""
        return self._call("PUT", path, json=content, params=parameters)

    def post(self, path: str, content: Any, *, answer_seconds: float = ANSWER_SECONDS, **parameters: Any) -> Any:
        """Send POST with a JSON body; return the JSON of the answer, which may take `answer_seconds`."""
        timeout = httpx.Timeout(ANSWER_SECONDS, read=answer_seconds)
        return self._call("POST", path, json=content, params=parameters, timeout=timeout)

    def patch(self, path: str, content: Any) -> Any:
        """Send PATCH with a JSON body; return the JSON of the answer."""
        return self._call("PATCH", path, json=content)

    def delete(self, path: str, **parameters: Any) -> Any:
        """Send DELETE; return the JSON of the answer, None if it is empty."""
        return self._call("DELETE", path, params=parameters)

    def post_bytes(self, path: str, content: bytes) -> Any:
        """Send POST with the body as given; return the JSON of the answer."""
        return self._call("POST", path, content=content)

    def download(self, path: str) -> bytes:
        """Send GET; return the body of the answer, byte for byte."""
        answer = self._answered("GET", path)
        if "X-Request-Id" not in answer.headers:
            raise _error_of(answer, _problem_of_a_proxy(answer.status_code))
        return answer.content

    def post_changes(
        self,
        source_format: str,
        body: bytes,
        *,
        table: str | None = None,
        content_type: str = "application/json",
        parameters: Mapping[str, str] | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Post changes in a format such as `rows` or `arcion`; return the answer with its receipts, after the commit.

        With an idempotency `key`, or `headers` that name the request otherwise, the call can be repeated: the changes
        land once, and the answer is the same. Raises RejectedInput `bad_request` for a header that HTTP cannot send.
        """
        headers = {"Content-Type": content_type, **({"Idempotency-Key": key} if key else {}), **(headers or {})}
        for name, value in headers.items():
            if not isinstance(value, str) or (value and _HEADER.fullmatch(value) is None):
                detail = f"the header {name} must be a string of visible ASCII characters with blanks between them only"
                raise RejectedInput(Code.BAD_REQUEST, detail)
        return self._call(
            "POST",
            change_path(source_format),
            content=body,
            params={**({"table": table} if table else {}), **(parameters or {})},
            headers=headers,
        )

    def _call(self, method: str, path: str, **arguments: Any) -> Any:
        answer = self._answered(method, path, **arguments)
        return None if method == "DELETE" and not answer.content else _object_of(answer)

    def _answered(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        try:
            request = self._http.build_request(method, path, **arguments)
        except ValueError as error:
            raise RejectedInput(Code.BAD_REQUEST, f"the call cannot be sent as JSON: {error}") from None
        with translated_errors(self.url):
            return checked(self._http.send(request))


@contextmanager
def translated_errors(url: str) -> Iterator[None]:
    """Turn the errors of a connection into AnswerLost and TemporarilyUnavailable."""
    try:
        yield
    except _CONNECTION_BROKEN as error:
        raise AnswerLost(Code.NOT_READY, f"the connection to the gateway at {url} broke before it answered") from error
    except httpx.TransportError as error:
        if (reason := _tls_fault(error)) is not None:
            raise TemporarilyUnavailable(
                Code.NOT_READY,
                f"no TLS connection to the gateway at {url}: {reason}",
                remedy="Check that the port serves https://, and that its certificate is for this host and trusted "
                "here. SSL_CERT_FILE names the file of a private authority.",
            ) from error
        is_proxied = {*getproxies()} - {"no"} and host_of(url) not in _THIS_MACHINE
        raise TemporarilyUnavailable(
            Code.NOT_READY,
            f"no gateway answers at {url}{', through the proxy of the environment' if is_proxied else ''}",
            remedy="Start one with `mirrorgate up`, or give the address of one with --url or MIRRORGATE_URL.",
        ) from error


def _tls_fault(error: BaseException | None) -> str | None:
    """Return why a TLS handshake failed; None for another error."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    verified = getattr(error, "verify_message", None)
    return None if error is None else verified or (error.reason or "it ended").lower().replace("_", " ")


def checked(answer: httpx.Response) -> httpx.Response:
    """Return an answer of success. Raises RejectedByGateway for any other."""
    if answer.is_success:
        return answer
    raise _error_of(answer, _object_of(answer, "code"))


def _object_of(answer: httpx.Response, expected: str = "") -> dict[str, Any]:
    """Return the JSON object of an answer. Raises RejectedByGateway if it is none, or lacks the `expected` key."""
    with suppress(ValueError):
        found = answer.json()
        if isinstance(found, dict) and (not expected or expected in found):
            return found
    raise _error_of(answer, _problem_of_a_proxy(answer.status_code))


def _error_of(answer: httpx.Response, problem: dict[str, Any]) -> RejectedByGateway:
    seconds = answer.headers.get("Retry-After", "")
    return RejectedByGateway(problem, answer.status_code, int(seconds) if seconds.isdecimal() else 0)


def _problem_of_a_proxy(status: int) -> dict[str, Any]:
    """Return problem details for an answer that a gateway does not give."""
    detail = f"a proxy answered {status} in place of the gateway"
    if status != _TOO_LARGE:
        return {"detail": detail, "remedy": _CHECK_THE_PROXY}
    remedy = "Raise the limit of the proxy to MIRRORGATE_MAX_BODY_BYTES, or send smaller requests."
    return {"code": Code.BODY_TOO_LARGE, "detail": f"{detail}: the request exceeds its limit", "remedy": remedy}


def host_of(url: str) -> str:
    """Return the host in the URL of a gateway. Raises WrongUrl, also for credentials, which errors would show."""
    with suppress(ValueError, httpx.InvalidURL):
        parts = httpx.URL(url)
        is_plain = not parts.userinfo and not parts.query  # httpx sends a user in place of the key
        if is_plain and parts.scheme in ("http", "https") and parts.host and (parts.port or 0) <= _MAX_PORT:
            return parts.host
    raise WrongUrl(
        Code.BAD_SETTING,
        "the URL of the gateway is not http:// or https:// with a host and a valid port, without credentials and query",
        remedy=f"Write it like {DEFAULT_URL}, with --url or in MIRRORGATE_URL, and the key in MIRRORGATE_API_KEY.",
    )


def options_of(url: str, key: str, certificate: Path | None) -> dict[str, Any]:
    """Return the options of an HTTP client that calls one gateway with one key.

    Without TLS, it does not read the system's certificates, which takes 40 ms: half of a short command. A proxy of the
    environment gets no calls, and no key, for a gateway on this machine. Raises WrongUrl, RejectedInput
    `unauthenticated` for a text that no key can be, and Misconfigured for a certificate that cannot be read.
    """
    is_here = host_of(url) in _THIS_MACHINE
    if _KEY.fullmatch(key) is None:
        raise RejectedInput(
            Code.UNAUTHENTICATED,
            "the key is not an API key or access token: it is empty or has blanks, line ends or other characters",
            remedy="Give the key as it was printed, without blanks and line ends around it.",
        )
    try:
        verify = not url.startswith("http:") if certificate is None else trusting_only(certificate)
    except (OSError, ValueError) as error:
        why = error.strerror or type(error).__name__ if isinstance(error, OSError) else "it is no path"
        raise Misconfigured(
            Code.BAD_SETTING,
            f"the certificate of the gateway, {certificate}, cannot be read: {why}",
            remedy="Run the command as a user that may read the certificate, or put the file back.",
        ) from error
    return {
        "base_url": url,
        "headers": {"Authorization": f"Bearer {key}"},
        "timeout": ANSWER_SECONDS,
        "verify": verify,
        "trust_env": not is_here,
    }


def _stored_key(file: Path) -> str:
    """Return the key of a data directory. Raises RejectedInput `unauthenticated`."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError as error:
        raise RejectedInput(
            Code.UNAUTHENTICATED,
            f"there is no key: neither --key nor MIRRORGATE_API_KEY is set, and {file}: {error.strerror}",
            remedy="Give a key, or the data directory of a running `mirrorgate up` with --data-dir.",
        ) from error


def _running_gateway(file: Path) -> tuple[str, Path | None] | None:
    """Return the URL and certificate of the gateway that runs on a data directory; None if the file names none."""
    try:
        found = json.loads(file.read_text())
        with suppress(PermissionError):  # it is another user's
            os.kill(found["pid"], 0)  # after a crash, the file remains
        return str(found["url"]), Path(found["certificate"]) if "certificate" in found else None
    except (OSError, OverflowError, ValueError, KeyError, TypeError):
        return None


def change_path(source_format: str) -> str:
    """Return the path of the endpoint that reads a format."""
    return f"/v1/changes/{source_format}"
