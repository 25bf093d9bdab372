"""Rejected secrets and row values, also those in a crash, never appear in answers, logs, metrics or the audit."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import pytest
import sqlalchemy as sa

from app.local.embedded import PrivatePostgres
from app.staging.connection.database import open_engine
from tests.api.calls import ADMIN_KEY, MAX_BODY_BYTES, Gateway, insert
from tests.support.http.issuer import AUDIENCE, Issuer, issuing
from tests.support.http.server import api_process, stopped
from tests.support.postgres import sql
from tests.support.postgres.databases import create_database
from tests.support.samples import messages
from tests.support.waiting import wait_until

Call = Callable[[Gateway, str], httpx.Response]
GOOD: Final = {"id": "1", "day": "2024-02-29", "note": "n"}
CSV: Final = {"table": "t", "mode": "snapshot", "columns": "id,day,note"}


def bearer(client: Gateway, authorization: str) -> httpx.Response:
    return client.get("/v1/tables", headers={"Authorization": authorization})


def raw(client: Gateway, body: bytes, headers: dict[str, str] | None = None, **query: Any) -> httpx.Response:
    return client.post("/v1/changes/arcion", content=body, headers=headers, params=query)


def csv(client: Gateway, text: str, **query: Any) -> httpx.Response:
    return raw(client, text.encode(), {"Content-Type": "text/csv"}, **(CSV | query))


def numbered(client: Gateway, note: str, **headers: str) -> httpx.Response:
    return client.post("/v1/changes/arcion", json=[insert("t", **GOOD | {"note": note})], headers=headers)


REJECTED: Final[dict[str, Call]] = {
    "key of an unknown id": lambda c, x: bearer(c, f"Bearer mg_00000000ffffffff_{x * 3}"),
    "wrong secret of the admin key": lambda c, x: bearer(c, f"Bearer {ADMIN_KEY[:20]}{x * 3}"),
    "malformed key": lambda c, x: bearer(c, f"Bearer mg_{x}"),
    "another scheme": lambda c, x: bearer(c, f"Basic {x}"),
    "key twice": lambda c, x: bearer(c, f"Bearer {ADMIN_KEY} {x}"),
    "long key": lambda c, x: bearer(c, f"Bearer mg_00000000ffffffff_{x * 50}"),
    "key in the address": lambda c, x: c.get(f"/v1/nothing/mg_00000000ffffffff_{x * 3}", params={"key": x}),
    "token that is none": lambda c, x: bearer(c, f"Bearer {x}.{x}.{x}"),
    "integer": lambda c, x: c.arcion(insert("t", **GOOD | {"id": x})),
    "date": lambda c, x: c.arcion(insert("t", **GOOD | {"day": x})),
    "no member of a change": lambda c, x: c.arcion(insert("t", **GOOD | {"other": x})),
    "value for an unknown table": lambda c, x: c.arcion(insert("nowhere", id=x)),
    "value that is no text": lambda c, x: c.arcion(insert("t", **GOOD | {"day": {"a": x}})),
    "null in a key": lambda c, x: c.arcion(insert("t", **GOOD | {"id": None, "note": x})),
    "operation": lambda c, x: c.arcion(insert("t", **GOOD) | {"opType": x}),
    "mask": lambda c, x: c.arcion(insert("t", **GOOD) | {"exists": dict.fromkeys(GOOD, x)}),
    "image that is none": lambda c, x: c.arcion(insert("t", **GOOD) | {"after": x}),
    "update of half a row": lambda c, x: c.arcion(messages.arcion("t", {"id": "1"}, {"id": "1", "note": x})),
    "address of a table": lambda c, x: c.arcion(insert("t", **GOOD) | {"tableName": {"name": [x]}}),
    "one of many messages": lambda c, x: c.arcion(insert("t", **GOOD), insert("t", **GOOD | {"day": x})),
    "broken JSON": lambda c, x: raw(c, f'{{"a": "{x}'.encode()),
    "JSON of another kind": lambda c, x: raw(c, json.dumps(x).encode()),
    "member twice": lambda c, x: raw(c, f'{{"{x}": 1, "{x}": 2}}'.encode()),
    "half a surrogate pair": lambda c, x: raw(c, f'{{"a": "{x}\\ud800"}}'.encode()),
    "too deep": lambda c, x: raw(c, b"[" * 99 + f'"{x}"'.encode() + b"]" * 99),
    "no UTF-8": lambda c, x: raw(c, f'{{"a": "{x}'.encode() + b'\xff"}'),
    "no gzip": lambda c, x: raw(c, x.encode(), {"Content-Encoding": "gzip"}),
    "gzip that is cut": lambda c, x: raw(c, gzip.compress(x.encode() * 99)[:-9], {"Content-Encoding": "gzip"}),
    "unknown encoding": lambda c, x: raw(c, b"{}", {"Content-Encoding": x}),
    "unknown type": lambda c, x: raw(c, b"{}", {"Content-Type": f"text/{x}"}),
    "too large": lambda c, x: raw(c, x.encode() * MAX_BODY_BYTES),
    "CSV value": lambda c, x: csv(c, f"{x},2024-02-29,n\r\n"),
    "CSV fields": lambda c, x: csv(c, f"1,2024-02-29,n,{x}\r\n"),
    "CSV quotes": lambda c, x: csv(c, f'1,2024-02-29,"{x}'),
    "CSV delimiter": lambda c, x: csv(c, "1\r\n", delimiter=x),
    "Replicate operation": lambda c, x: c.replicate({"headers": {"operation": x}, "data": {"id": 1}}),
    "Replicate data": lambda c, x: c.replicate(messages.data("INSERT", {"id": x}), table="t"),
    "Replicate mask": lambda c, x: c.replicate(messages.data("UPDATE", {"id": 1}, columnMask=x), table="t"),
    "Replicate row": lambda c, x: c.replicate(messages.data("INSERT", None) | {"message": x}, table="t"),
    "Replicate precision": lambda c, x: c.replicate(messages.metadata("m", {"id": {"type": "NUMERIC", "scale": x}})),
    "Arrow schema": lambda c, x: c.put("/v1/tables/u", json={"arrow_schema": x}),
    "option": lambda c, x: c.put("/v1/tables/t", json={"options": {"partial_updates": x}}),
    "right of a key": lambda c, x: c.post("/v1/keys", json={"rights": [x]}),
    "end of a key": lambda c, x: c.post("/v1/keys", json={"rights": ["read"], "expires_at": x}),
    "overlap": lambda c, x: c.post("/v1/keys/0011aabb/rotate", json={"overlap_seconds": x}),
    "key to delete": lambda c, x: c.delete(f"/v1/keys/mg_0011aabb_{x}"),
    "reason of a release": lambda c, x: c.post("/v1/tables/t/release?generation=1", json={"reason": x}),
    "idempotency key of another request": lambda c, x: numbered(c, x, **{"Idempotency-Key": "taken"}),
    "value after a gap": lambda c, x: numbered(
        c, x, **{"Mirrorgate-Producer": "p", "Mirrorgate-Producer-Sequence": "9"}
    ),
    "filter of the audit": lambda c, x: c.get("/v1/audit", params={"since": x}),
}


def away(table: str) -> tuple[str, str]:
    """Return what takes a table away, and what brings it back."""
    return f"ALTER TABLE mirrorgate.{table} RENAME TO away", f"ALTER TABLE mirrorgate.away RENAME TO {table}"


def rejecting(table: str, check: str = "false") -> tuple[str, str]:
    """Return what lets a table reject rows by a constraint, and what ends that."""
    change = f"ALTER TABLE mirrorgate.{table}"
    return f"{change} ADD CONSTRAINT broken CHECK ({check}) NOT VALID", f"{change} DROP CONSTRAINT broken"


BREAKAGES: Final[dict[str, tuple[tuple[str, str], Call]]] = {
    "keys cannot be looked up": (away("api_keys"), lambda c, x: bearer(c, f"Bearer mg_0011aabb_{x * 3}")),
    "batches cannot be numbered": (away("table_counters"), numbered),
    "blocks are rejected by a constraint": (rejecting("staged_blocks"), numbered),
    "payloads are rejected by a constraint": (rejecting("block_payloads", "length(payload) = 0"), numbered),
    "receipts are rejected by a constraint": (
        rejecting("request_receipts"),
        lambda c, x: numbered(c, x, **{"Idempotency-Key": x}),
    ),
    "keys are rejected by a constraint": (
        rejecting("api_keys"),
        lambda c, x: c.post("/v1/keys", json={"rights": ["read"], "tables": [x]}),
    ),
}


def tokens(issuer: Issuer) -> dict[str, Callable[[str], str]]:
    """Return tokens that are rejected for different reasons, each with a distinct value in its claims."""
    issuer.new_key("forger", publish=False)
    return {
        "expired": lambda x: issuer.token("one", [x], exp=1),
        "for another audience": lambda x: issuer.token("one", [], aud=x),
        "of another issuer": lambda x: issuer.token("one", [], iss=x),
        "signed by an unknown key": lambda x: issuer.token("one", [], headers={"kid": x}),
        "signed by another": lambda x: issuer.token("forger", [x], headers={"kid": "one"}),
        "with a wrong subject": lambda x: issuer.token("one", [x], sub=f"{x} {x}"),
        "without a right": lambda x: issuer.token("one", [x]),
    }


@dataclass
class Remains:
    """What was sent, and everything that was written about it."""

    canaries: list[str] = field(default_factory=list)
    answers: dict[str, httpx.Response] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)

    def canary(self) -> str:
        """Return a text that occurs nowhere else."""
        self.canaries.append(f"canary{len(self.canaries):02d}x7391")
        return self.canaries[-1]


@pytest.fixture(scope="module")
def remains(postgres: PrivatePostgres, template_database: str) -> Iterator[Remains]:
    url = create_database(postgres.url, "canaries", template=template_database)
    engine = open_engine(url)
    remains = Remains()
    postgres_log = postgres.log_file.stat().st_size
    with issuing() as issuer:
        shown_tokens = tokens(issuer)
        settings = {
            "MAX_BODY_BYTES": str(MAX_BODY_BYTES),
            "OIDC_ISSUER": issuer.url,
            "OIDC_AUDIENCE": AUDIENCE,
            "OIDC_RIGHTS": '{"sender": {"rights": ["ingest"], "tables": ["*"]}}',
        }
        with api_process(url, ADMIN_KEY, **settings) as (process, address), Gateway.at(address, ADMIN_KEY) as client:
            client.register("t", {"id": "int64", "day": "date", "note": "string"}, ["id"]).raise_for_status()
            numbered(client, "first", **{"Idempotency-Key": "taken"}).raise_for_status()
            for name, call in REJECTED.items():
                remains.answers[name] = call(client, remains.canary())
            good = f"Bearer {issuer.token('one', ['sender'])}"
            wait_until(lambda: bearer(client, good).status_code == 403, within=30, what="the issuer's keys are read")
            for name, token in shown_tokens.items():
                shown = token(remains.canary())
                remains.canaries.append(shown.rpartition(".")[2])
                remains.answers[f"token {name}"] = bearer(client, f"Bearer {shown}")
            for name, ((break_it, mend_it), call) in BREAKAGES.items():
                sql.run(engine, break_it)
                remains.answers[name] = call(client, remains.canary())
                sql.run(engine, mend_it)
            kept = 1 + sum(
                answer.status_code in {401, 403} or answer.json()["code"] == "issuer_unavailable"
                for answer in remains.answers.values()
            )
            wait_until(lambda: rejections(engine) == kept, within=30, what="the audit is written")
            remains.written["metrics"] = client.get("/metrics").raise_for_status().text
            remains.written["the audit as it is shown"] = client.get("/v1/audit").raise_for_status().text
            remains.written["log"] = stopped(process)
    for table in ("audit_events", "table_events", "api_keys", "former_key_secrets"):
        rows = sql.rows(engine, f"SELECT to_jsonb(t)::text FROM mirrorgate.{table} t".replace("::", "\\:\\:"))
        remains.written[table] = "\n".join(row for (row,) in rows)
    remains.written["log of Postgres"] = postgres.log_file.read_bytes()[postgres_log:].decode(errors="replace")
    engine.dispose()
    yield remains


def rejections(engine: sa.Engine) -> int:
    counted: int = sql.value(engine, "SELECT coalesce(sum(times), 0) FROM mirrorgate.audit_events WHERE code <> ''")
    return counted


def test_every_canary_was_rejected_or_crashed_on(remains: Remains) -> None:
    assert len(remains.answers) >= 50
    accepted = [name for name, answer in remains.answers.items() if not answer.is_error]
    assert accepted == []
    crashed = {name for name, answer in remains.answers.items() if answer.status_code >= 500}
    assert crashed == {*BREAKAGES, "token signed by an unknown key"}, "its issuer may have published it since"
    assert all("problem" in answer.headers["content-type"] for answer in remains.answers.values())
    codes = {answer.json()["code"] for answer in remains.answers.values()}
    assert len(codes) >= 25, "many kinds of errors"


def test_no_canary_is_in_an_answer(remains: Remains) -> None:
    found = [
        (name, canary)
        for name, answer in remains.answers.items()
        for canary in remains.canaries
        if canary in answer.text or canary in str(answer.headers)
    ]
    assert found == []


def test_no_canary_is_in_a_log_in_the_metrics_or_in_the_audit(remains: Remains) -> None:
    found = [(name, canary) for name, text in remains.written.items() for canary in remains.canaries if canary in text]
    assert found == []


def test_no_secret_of_a_valid_key_is_written_anywhere(remains: Remains) -> None:
    secret = ADMIN_KEY.split("_", 2)[2]
    assert [name for name, text in remains.written.items() if secret in text] == []


def test_what_was_written_is_what_was_looked_through(remains: Remains) -> None:
    """Each text tells of these calls, so that a canary in it would have been found."""
    assert "request_crashed" in remains.written["log"]
    assert all(answer.headers["x-request-id"] in remains.written["log"] for answer in remains.answers.values())
    assert 'mirrorgate_rejected_requests_total{code="bad_value"}' in remains.written["metrics"]
    assert "unauthenticated" in remains.written["audit_events"]
    assert '"code":"unauthenticated"' in remains.written["the audit as it is shown"]
    assert "violates check constraint" in remains.written["log of Postgres"]
