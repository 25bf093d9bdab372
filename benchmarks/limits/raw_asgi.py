"""The least ASGI application, `python -m benchmarks.limits.raw_asgi`: it reads the body and answers 202.

It shows what the HTTP server costs without a framework. It prints its port, and ends when its parent does.
"""

import socket
import sys
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from app.local.child_process import exit_with_parent

CONTENT: Final = b'{"status":"ok"}'
_HEADERS: Final = [(b"content-type", b"application/json"), (b"content-length", str(len(CONTENT)).encode())]


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the whole body of a request, as one value, and answer 202."""
    if scope["type"] != "http":
        return
    pieces = []
    more = True
    while more:
        message = await receive()
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    b"".join(pieces)
    await send({"type": "http.response.start", "status": 202, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": CONTENT})


def run(app: ASGIApp) -> None:
    """Serve an application on a free port with the gateway's settings of uvicorn, but uvicorn's own HTTP protocol."""
    exit_with_parent()
    settings: dict[str, Any] = {"loop": "uvloop", "ws": "none", "log_config": None, "log_level": "error"}
    config = uvicorn.Config(app, http="httptools", access_log=False, server_header=False, **settings)
    listener = socket.create_server(("127.0.0.1", 0), backlog=config.backlog)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    run(answer)
