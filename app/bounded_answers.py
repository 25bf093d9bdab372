"""Read answers of other services up to a limit of size and time: none can fill the memory or hold threads for long."""

import time
from typing import Any, Final

import httpx

MAX_SECONDS: Final = 60.0
"""Seconds for the body of an answer. Timeouts of httpx bound each wait for some bytes of it."""


class UnusableAnswer(ValueError):
    """An answer is larger than its reader allows, or compressed, so that its size is unknown until it is read."""


def bounded_answer(client: httpx.Client, method: str, address: str, *, max_bytes: int, **sent: Any) -> httpx.Response:
    """Send a request, and return the answer with its body of at most `max_bytes`.

    Asks for an uncompressed body: a few kilobytes of a compressed one can unfold to gigabytes in one step. Raises
    UnusableAnswer, and httpx.HTTPError as `client` does.
    """
    headers = {**sent.pop("headers", {}), "Accept-Encoding": "identity"}
    body = bytearray()
    with client.stream(method, address, headers=headers, **sent) as answer:
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise UnusableAnswer("the answer is compressed although that was not asked for")
        deadline = time.monotonic() + MAX_SECONDS
        for chunk in answer.iter_raw():
            body += chunk
            if len(body) > max_bytes:
                raise UnusableAnswer(f"the answer is larger than {max_bytes:,} bytes")
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout("the answer takes too long")
    return httpx.Response(answer.status_code, headers=answer.headers, content=bytes(body), request=answer.request)
