"""Hooks that tell Schemathesis how to send a text body."""

from typing import Any

import schemathesis


@schemathesis.serializer("application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream")
def as_text(_: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
