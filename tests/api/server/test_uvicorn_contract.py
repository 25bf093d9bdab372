"""What the API overrides and reads of uvicorn's private classes still exists, in the shape that the API relies on.

A failure names the member that a new version of uvicorn removed or changed. Adapt the class that uses it, and then
raise the cap on `uvicorn` in pyproject.toml.
"""

import asyncio
import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import httptools
import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from app.api.server.http_protocol import BodyPieces, BoundedHttpProtocol, CallerTransport
from app.api.server.uvicorn_server import ApiProcesses, ApiServer

OVERRIDES: dict[tuple[type, type], dict[str, list[str]]] = {
    (BoundedHttpProtocol, HttpToolsProtocol): {
        "connection_made": ["transport"],
        "connection_lost": ["exc"],
        "data_received": ["data"],
        "send_400_response": ["msg"],
        "on_message_begin": [],
        "on_headers_complete": [],
        "on_body": ["body"],
        "on_message_complete": [],
        "on_response_complete": [],
    },
    (ApiServer, uvicorn.Server): {"startup": ["sockets"]},
    (ApiProcesses, Multiprocess): {"keep_subprocess_alive": [], "terminate_all": []},
}
"""The parameters of uvicorn's methods that a class of ours overrides."""

CONNECTION_ATTRIBUTES = {"client", "cycle", "flow", "loop", "parser", "pipeline", "scope", "server_state", "transport"}
"""What BoundedHttpProtocol reads of a connection that is made."""

REQUEST_ATTRIBUTES = {"headers", "url"}
"""What it reads of a connection once a request has begun."""

GET = b"GET / HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\n\r\n"


class Wire(asyncio.Transport):
    """A transport that sends nothing."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)}.get(name, default)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None: ...

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def write(self, data: bytes | bytearray | memoryview) -> None: ...


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    await receive()


@contextmanager
def connection() -> Iterator[HttpToolsProtocol]:
    """Give uvicorn's own connection, on an event loop that does not run."""
    config = uvicorn.Config(nothing, log_config=None)
    config.load()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    protocol = HttpToolsProtocol(config, ServerState(), {}, loop)
    protocol.connection_made(Wire())
    try:
        yield protocol
    finally:
        for task in protocol.tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*protocol.tasks, return_exceptions=True))
        loop.close()
        asyncio.set_event_loop(None)


def missing(what: str) -> str:
    return f"uvicorn {version('uvicorn')} has no longer {what}"


@pytest.mark.parametrize(
    ("ours", "theirs", "name", "parameters"),
    [
        (ours, theirs, name, parameters)
        for (ours, theirs), methods in OVERRIDES.items()
        for name, parameters in methods.items()
    ],
)
def test_a_method_that_is_overridden_exists_with_its_parameters(
    ours: type, theirs: type, name: str, parameters: list[str]
) -> None:
    method = getattr(theirs, name, None)
    assert method is not None, missing(f"{theirs.__name__}.{name}, which {ours.__name__} overrides")
    found = [parameter for parameter in inspect.signature(method).parameters if parameter != "self"]
    assert found == parameters, missing(f"{theirs.__name__}.{name}({', '.join(parameters)}); it takes {found}")
    is_coroutine = inspect.iscoroutinefunction(getattr(ours, name))
    assert inspect.iscoroutinefunction(method) == is_coroutine, missing(f"the kind of function of {name}")


@pytest.mark.parametrize(("ours", "theirs"), OVERRIDES)
def test_every_method_that_is_overridden_is_listed_here(ours: type, theirs: type) -> None:
    overridden = {name for name in vars(ours) if hasattr(theirs, name) and not name.startswith("__")}
    assert overridden == OVERRIDES[ours, theirs].keys()


def test_no_private_name_of_ours_is_one_of_uvicorns() -> None:
    with connection() as protocol:
        own = {name for name in vars(BoundedHttpProtocol) if not name.startswith("__")}
        taken = (
            own & {*vars(protocol), *dir(HttpToolsProtocol)} - OVERRIDES[BoundedHttpProtocol, HttpToolsProtocol].keys()
        )
    assert not taken, f"uvicorn {version('uvicorn')} uses a name of BoundedHttpProtocol: {taken}"


def test_every_attribute_that_is_read_of_a_connection_exists() -> None:
    with connection() as protocol:
        for name in sorted(CONNECTION_ATTRIBUTES):
            assert hasattr(protocol, name), missing(f"HttpToolsProtocol.{name}")
        assert protocol.cycle is None, missing("`cycle` None before the first request")
        assert hasattr(protocol.flow, "resume_reading"), missing("FlowControl.resume_reading()")
        assert isinstance(protocol.server_state.default_headers, list), missing("ServerState.default_headers")


def test_every_attribute_that_is_read_of_a_request_exists() -> None:
    with connection() as protocol:
        protocol.data_received(GET)
        for name in sorted(REQUEST_ATTRIBUTES):
            assert hasattr(protocol, name), missing(f"HttpToolsProtocol.{name}")
        assert protocol.url == b"/"
        assert (b"host", b"g") in protocol.headers, missing("header names in lower case, as bytes")
        assert protocol.parser.get_http_version() == "1.1"
        assert protocol.scope["type"] == "http", missing("the ASGI scope as HttpToolsProtocol.scope")
        for name in ("body", "response_complete", "transport"):
            assert hasattr(protocol.cycle, name), missing(f"RequestResponseCycle.{name}")
        assert isinstance(protocol.cycle.body, bytearray), missing("the unread bytes as RequestResponseCycle.body")


def test_the_attributes_that_the_protocol_reads_are_listed_here() -> None:
    source = inspect.getsource(BoundedHttpProtocol)
    read = {*re.findall(r"self\.(\w+)", source)} - {*vars(BoundedHttpProtocol)}
    assert read == CONNECTION_ATTRIBUTES | REQUEST_ATTRIBUTES


def test_uvicorn_uses_only_what_the_transport_of_ours_has() -> None:
    """`transport` is a CallerTransport, which passes on these methods alone."""
    used = set()
    for user in (HttpToolsProtocol, RequestResponseCycle, FlowControl):
        used |= {*re.findall(r"self\._?transport\.(\w+)", inspect.getsource(user))}
    for function in (get_remote_addr, get_local_addr, is_ssl):
        used |= {*re.findall(r"transport\.(\w+)", inspect.getsource(function))}
    used -= {"set_protocol"}  # for websockets, which are off
    assert used <= {*vars(CallerTransport)}, f"CallerTransport must have {used}"


class RecordingTransport(Wire):
    """A transport that notes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))


def test_a_held_head_is_written_with_the_body_that_follows_it() -> None:
    below, loop = RecordingTransport(), asyncio.new_event_loop()
    loop.close()
    transport = CallerTransport(below, loop)
    transport.is_holding = True
    transport.write(b"head")
    assert below.written == []
    for piece in (b"body", b"more"):
        transport.write(piece)
    assert below.written == [b"headbody", b"more"]


def test_uvicorn_writes_a_head_with_one_call_and_the_body_with_the_next() -> None:
    """`Exchange.send_answer` holds the first of them. Answers with a head alone are sent by the framework."""
    writes = re.findall(r"self\.transport\.write\((.*)\)", inspect.getsource(RequestResponseCycle.send))
    assert writes == ['b"".join(content)', 'b"".join(content)', "body"], missing("these writes of an answer")


def test_a_body_is_used_only_as_its_pieces_can_be() -> None:
    """`cycle.body` is replaced by BodyPieces, which can be extended, measured and turned into bytes."""
    received = re.findall(r".*self\.body\b.*", inspect.getsource(RequestResponseCycle.receive))
    assert [line.strip().partition("bytes(self.body)")[1] or line.strip() for line in received] == [
        "bytes(self.body)",
        "self.body = bytearray()",
    ], missing("these uses of RequestResponseCycle.body")
    used = set(re.findall(r"\S*self\.cycle\.body\b(?: \+=)?", inspect.getsource(HttpToolsProtocol.on_body)))
    assert used == {"self.cycle.body +=", "len(self.cycle.body"}, missing("these uses of RequestResponseCycle.body")


def test_one_piece_of_a_body_is_not_copied() -> None:
    pieces = BodyPieces()
    assert not pieces
    pieces += (first := bytes(1_000))
    assert bytes(pieces) is first
    pieces += b"abc"
    assert (len(pieces), bytes(pieces)) == (1_003, first + b"abc")


def test_an_error_raised_at_the_end_of_a_head_stops_the_parser() -> None:
    """BoundedHttpProtocol raises in `on_headers_complete`; uvicorn must then call `send_400_response`."""
    assert issubclass(httptools.HttpParserCallbackError, httptools.HttpParserError)
    source = inspect.getsource(HttpToolsProtocol.data_received)
    assert re.search(r"except httptools\.HttpParserError:.*self\.send_400_response\(msg\)", source, re.DOTALL), missing(
        "the call of send_400_response for an error of the parser"
    )


def test_the_server_says_when_it_has_started() -> None:
    server = uvicorn.Server(uvicorn.Config(nothing, log_config=None))
    assert server.started is False, missing("Server.started")


def test_the_supervisor_has_its_processes_and_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uvicorn.supervisors.multiprocess.SIGNALS", {})
    supervisor = Multiprocess(uvicorn.Config(nothing, log_config=None), [])
    assert supervisor.processes == [], missing("Multiprocess.processes")
    assert supervisor.sockets == [], missing("Multiprocess.sockets")
    assert supervisor.should_exit.is_set() is False, missing("Multiprocess.should_exit")
    process = Process(supervisor.config, [])
    for name in ("pid", "exitcode", "process", "parent_conn", "child_conn"):
        assert hasattr(process, name), missing(f"Process.{name}")
    process._server = uvicorn.Server(supervisor.config)
    process.parent_conn.send(b"ping")
    process.pong()
    assert process.parent_conn.recv() is False, missing("the answer of a process to a ping: whether it serves")
