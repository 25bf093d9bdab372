"""Ask a started gateway whether it serves, and announce that it does."""

import http.client
import json
import sys
from pathlib import Path
from typing import Final

from app.certificates import trusting_only

_TIMEOUT_SECONDS: Final = 2.0
_REQUIRED_PARTS: Final = ("api", "database", "writer", "drain")
"""Parts that must work before the gateway serves. Others, such as a quarantined table, do not hold it up."""


def answers_ready(address: str, port: int, certificate: Path | None) -> bool:
    """Return True if `/statusz` reports every required part as working; False for any failure to ask."""
    try:
        connection = (
            http.client.HTTPConnection(address, port, timeout=_TIMEOUT_SECONDS)
            if certificate is None
            else http.client.HTTPSConnection(
                address, port, timeout=_TIMEOUT_SECONDS, context=trusting_only(certificate)
            )
        )
    except OSError:
        return False
    try:
        connection.request("GET", "/statusz")
        parts = json.loads(connection.getresponse().read())["parts"]
        return all(parts[part] == "ok" for part in _REQUIRED_PARTS)
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return False
    finally:
        connection.close()


def print_ready(url: str) -> None:
    """Print `ready <url>` to standard output, which scripts wait for."""
    sys.stdout.write(f"ready {url}\n")
    sys.stdout.flush()
