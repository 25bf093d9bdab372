"""The client's requests and answers, one JSON object per line, written before each request and after each answer."""

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

Row = list[Any]
"""A landing row: the marker, then the column values in file order, as JSON has them."""

Life = tuple[str, int]
"""A table's name and one of its generations."""


def plain(value: Any) -> Any:
    """Return a value as the journal stores it; equal values give equal texts."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return str(value) if isinstance(value, Decimal | date) else value


@dataclass(frozen=True)
class Request:
    """One request to one table, and the rows that it must become."""

    key: str
    table: str
    rows: list[Row]


class Contradiction(Exception):
    """Two answers of the gateway that cannot both be true."""


class Journal:
    """A file of requests and answers; a file that is there is read and gone on with."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self._requests: dict[str, Request] = {}
        self._batches: dict[Life, dict[int, Request]] = {}
        self._answered: dict[str, Any] = {}
        for line in file.read_text().splitlines() if file.exists() else ():
            self._take(json.loads(line))
        self._file = file.open("a")

    def close(self) -> None:
        self._file.close()

    def sent(self, key: str, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """To be called before the request goes out."""
        self._write({"sent": key, "table": table, "rows": [[plain(value) for value in row] for row in rows]})

    def accepted(self, key: str, generation: int, sequence: int) -> None:
        """Record an answer. Raises Contradiction if it differs from an earlier one, or belongs to another request."""
        self._write({"accepted": key, "generation": generation, "sequence": sequence})

    def rejected(self, key: str, status: int, code: str) -> None:
        self._write({"rejected": key, "status": status, "code": code})

    def lives(self) -> list[Life]:
        """Return the generations that acknowledged something."""
        with self._lock:
            return list(self._batches)

    def last_sequence(self, life: Life) -> int:
        """Return the highest acknowledged sequence; 0 for none."""
        with self._lock:
            return max(self._batches.get(life, {}), default=0)

    def batches(self, life: Life, first: int, last: int) -> list[Request] | None:
        """Return the requests of these sequences; None while one of them is not acknowledged."""
        with self._lock:
            known = self._batches.get(life, {})
            wanted = range(first, last + 1)
            return [known[sequence] for sequence in wanted] if all(s in known for s in wanted) else None

    def unanswered(self) -> list[str]:
        with self._lock:
            return [key for key in self._requests if key not in self._answered]

    def count(self) -> dict[str, int]:
        """Count requests, acknowledged requests and their rows."""
        with self._lock:
            batches = [request for life in self._batches.values() for request in life.values()]
            rows = sum(len(request.rows) for request in batches)
            return {"requests": len(self._requests), "acknowledged": len(batches), "rows": rows}

    def _write(self, entry: dict[str, Any]) -> None:
        with self._lock:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()
            self._take(entry)

    def _take(self, entry: dict[str, Any]) -> None:
        if "sent" in entry:
            self._requests[entry["sent"]] = Request(entry["sent"], entry["table"], entry["rows"])
            return
        key = entry.get("accepted") or entry["rejected"]
        answer = {name: value for name, value in entry.items() if value != key}
        if self._answered.setdefault(key, answer) != answer:
            raise Contradiction(f"request {key} was answered {self._answered[key]} and {answer}")
        if "accepted" in entry:
            request = self._requests[key]
            batches = self._batches.setdefault((request.table, entry["generation"]), {})
            if batches.setdefault(entry["sequence"], request).key != key:
                raise Contradiction(f"{request.table}: sequence {entry['sequence']} was given to two requests")
