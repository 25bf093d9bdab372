"""Read answers of other services up to a limit, so that none can fill the memory of this process."""

from typing import Any

import httpx


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
        for chunk in answer.iter_raw():
            body += chunk
            if len(body) > max_bytes:
                raise UnusableAnswer(f"the answer is larger than {max_bytes:,} bytes")
    return httpx.Response(answer.status_code, headers=answer.headers, content=bytes(body), request=answer.request)
