"""Post the rows of an application to Mirrorgate: no change data capture, no message format, each request once.

A row is an object of values by column name. It inserts the row with its key or replaces it; `"__op__": "delete"`
deletes it. This program registers the table examples.customers, then posts rows to it. Copy `Table`, which repeats a
request until the gateway decides on it. A repeat has the same idempotency key, so its rows land once.

Usage: rows.py

MIRRORGATE_URL is the address of the gateway, MIRRORGATE_API_KEY a key with the rights `ingest` and `register`.
"""

import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx

RETRIED_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})
"""The gateway cannot take the request now, or may have taken it."""

MAX_ATTEMPTS: Final = 10
COLUMNS: Final[list[dict[str, Any]]] = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "name", "type": "string"},
    {"name": "balance", "type": "decimal(12,2)"},
]


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the gateway that `client` calls."""

    client: httpx.Client
    name: str

    def register(self, columns: Sequence[dict[str, Any]], key_columns: Sequence[str]) -> None:
        """Register the table. A repeat changes nothing."""
        self._send("PUT", f"/v1/tables/{self.name}", json={"columns": columns, "key_columns": key_columns})

    def post(self, rows: Sequence[dict[str, Any]], operation: str = "upsert") -> dict[str, Any]:
        """Return the receipt of these rows, which are durable then: all of them, or none if this raises."""
        answer = self._send(
            "POST",
            "/v1/changes/rows",
            params={"table": self.name, "op": operation},
            headers={"Idempotency-Key": str(uuid.uuid4())},
            json=rows,
        )
        return dict(answer["receipts"][0])

    def _send(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        request = self.client.build_request(method, path, **arguments)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                response = self.client.send(request)
            except httpx.TransportError:
                if attempt == MAX_ATTEMPTS:
                    raise
            else:
                if response.status_code not in RETRIED_STATUSES or attempt == MAX_ATTEMPTS:
                    if response.is_error:  # names each wrong row by its index, with the code and the remedy
                        raise RuntimeError(f"{method} {path}: {response.status_code} {response.text}")
                    return dict(response.json())
            time.sleep(min(2**attempt / 10, 30.0))
        raise AssertionError


def main() -> None:
    """Register a table, then insert, change and delete rows."""
    headers = {"Authorization": f"Bearer {os.environ['MIRRORGATE_API_KEY']}"}
    with httpx.Client(base_url=os.environ["MIRRORGATE_URL"], headers=headers, timeout=60.0) as client:
        customers = Table(client, "examples.customers")
        customers.register(COLUMNS, ["id"])
        print(customers.post([{"id": 1, "name": "Ada", "balance": "12.50"}, {"id": 2, "name": "Grace", "balance": 0}]))
        print(customers.post([{"id": 1, "name": "Ada", "balance": 20}, {"id": 2, "__op__": "delete"}]))
        print(customers.post([{"id": 1}], operation="delete"))


if __name__ == "__main__":
    main()
