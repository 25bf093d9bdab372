"""The client under load: one thread per table posts over HTTP to any API, and retries until each answer is definite."""

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import httpx

from demo.workload import Post, StreamTable, stock_metadata
from tests.chaos.checks.journal import Journal
from tests.chaos.checks.oracle import Violation
from tests.chaos.workload import bad_post, registration

TIMEOUT_SECONDS: Final = 60.0
PAUSE: Final = 0.05
PASSING: Final = (429, 503)


class Caller:
    """Calls of the API, repeated on another process until one answers clearly."""

    def __init__(self, urls: Sequence[str], key: str, source: random.Random, events: Counter[str]) -> None:
        self._urls, self._source, self._events = urls, source, events
        self._http = httpx.Client(headers={"Authorization": f"Bearer {key}"}, timeout=5.0)

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, *, impatient: bool = False, **arguments: Any) -> httpx.Response:
        """Return the first definite answer. Raises Violation when there is none in time.

        `impatient`: the first try does not wait for the answer.
        """
        deadline = time.monotonic() + TIMEOUT_SECONDS
        last: object = None
        while time.monotonic() < deadline:
            timeout = httpx.Timeout(5.0, read=0.003) if impatient else httpx.Timeout(5.0)
            impatient = False
            try:
                url = self._source.choice(self._urls)
                answer = self._http.request(method, url + path, timeout=timeout, **arguments)
            except httpx.TransportError as error:
                last = error
                self._events["answers lost" if not isinstance(error, httpx.ConnectError) else "not reached"] += 1
            else:
                if answer.status_code not in PASSING:
                    return answer
                last = answer.text
                self._events[f"answered {answer.json().get('code')}"] += 1
            threading.Event().wait(PAUSE)
        raise Violation(f"{method} {path}: no answer in {TIMEOUT_SECONDS:.0f} s: {last}")


class TableClient:
    """Everything that is done to one table, one after the other: good and bad requests, repeats, operators' acts."""

    def __init__(self, table: StreamTable, caller: Caller, journal: Journal, *, recreates: bool) -> None:
        self._table, self._caller, self._journal, self._recreates = table, caller, journal, recreates
        self._source = table.source
        self.events: Counter[str] = Counter()

    def register(self) -> None:
        if self._table.source_format == "replicate":
            answer = self._caller.call("POST", "/v1/changes/replicate", content=stock_metadata())
        else:
            answer = self._caller.call("PUT", f"/v1/tables/{self._table.name}", json=registration(self._table))
        require(answer, 200, 201, 202)

    def step(self) -> None:
        """Do the next step. Raises Violation."""
        kind = self._source.random()
        if kind < 0.85:
            self._post()
        elif kind < 0.93:
            self._post_bad()
        elif kind < 0.985 or not self._recreates:
            self._act(self._source.choice(("pause", "resume", "resume", "flush")))
        else:
            self._recreate()

    def resume(self) -> None:
        self._act("resume")

    def _post(self) -> None:
        live = list(self._table.live)
        post = self._table.post(self._source.randrange(1, 60))
        key = self._new_key(post)
        answer = self._send(post, key, impatient=self._source.random() < 0.1)
        if answer.status_code == 409:
            self._journal.rejected(key, 409, answer.json()["code"])
            self._table.live[:] = live
            return
        self._accept(key, answer)
        if self._source.random() < 0.1:
            self._accept(key, self._send(post, key))
            self.events["requests repeated"] += 1

    def _post_bad(self) -> None:
        post = bad_post(self._table)
        key = self._new_key(post)
        answer = self._send(post, key)
        require(answer, 400, 409, 422)
        self._journal.rejected(key, answer.status_code, answer.json()["code"])
        self.events["requests rejected"] += 1

    def _new_key(self, post: Post) -> str:
        key = UUID(int=self._source.getrandbits(128)).hex
        self._journal.sent(key, post.table, post.rows)
        return key

    def _send(self, post: Post, key: str, *, impatient: bool = False) -> httpx.Response:
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        path = f"/v1/changes/{post.source_format}"
        return self._caller.call("POST", path, content=post.body, headers=headers, impatient=impatient)

    def _accept(self, key: str, answer: httpx.Response) -> None:
        """Record an accepted answer. Raises Contradiction if it differs from an earlier one."""
        (receipt,) = require(answer, 200, 202)["receipts"]
        self._journal.accepted(key, receipt["generation"], receipt["sequence"])

    def _act(self, act: str) -> None:
        answer = self._caller.call("POST", f"{self._path}/{act}", params={"generation": self._generation()})
        require(answer, 200, 202, 409)
        self.events[f"act {act}"] += 1

    def _recreate(self) -> None:
        """Recreate the table, and post to it meanwhile, which is rejected."""
        before = self._generation()
        while self._generation() == before:
            require(self._caller.call("POST", f"{self._path}/recreate", params={"generation": before}), 200, 202, 409)
            self._post()
            threading.Event().wait(PAUSE)
        self._table.live.clear()
        self.events["act recreate"] += 1

    def _generation(self) -> int:
        return int(require(self._caller.call("GET", self._path), 200)["generation"])

    @property
    def _path(self) -> str:
        return f"/v1/tables/{self._table.name}"


def require(answer: httpx.Response, *wanted: int) -> Any:
    """Return the JSON of an answer. Raises Violation if its status is not one of these."""
    if answer.status_code not in wanted:
        raise Violation(f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text[:500]}")
    return answer.json()
