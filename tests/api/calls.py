"""Calls to the gateway that many tests share."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

import httpx
import sqlalchemy as sa

from app.domain.model.projection import AuditColumns
from app.domain.model.table_options import DEFAULT_OPTIONS
from app.settings import Settings
from tests.support.http.server import served

ADMIN_KEY: Final = "mg_0000000000000001_" + "a-secret-only-for-tests-of-the-api"
MAX_BODY_BYTES: Final = 100_000
NATION: Final = "tpch_scale_0_01.nation"
REGION: Final = "io_blitzz.region"
EMPLOYEES: Final = "HR.EMPLOYEES"


class Gateway(httpx.Client):
    """A client of the gateway, with its calls by name."""

    engine: sa.Engine
    """The tests' connections to the database of the gateway; only the `gateway` fixture sets them."""

    @property
    def address(self) -> str:
        return str(self.base_url).removesuffix("/")

    @classmethod
    def at(cls, address: str, key: str | None) -> Self:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return cls(base_url=address, headers=headers, trust_env=False, verify=False, timeout=30)

    def register(
        self, table: str, columns: dict[str, str], keys: list[str] | None = None, **options: Any
    ) -> httpx.Response:
        """PUT a table; key columns are required, the others nullable."""
        key_columns = keys or []
        declared = [{"name": name, "type": of, "nullable": name not in key_columns} for name, of in columns.items()]
        body = {"key_columns": key_columns, "columns": declared, "options": options}
        return self.put(f"/v1/tables/{table}", json=body)

    def arcion(self, *messages: Any, **parameters: Any) -> httpx.Response:
        return self.post("/v1/changes/arcion", json=list(messages), params=parameters)

    def replicate(self, *messages: Any, **parameters: Any) -> httpx.Response:
        return self.post("/v1/changes/replicate", json=list(messages), params=parameters)

    def rows(self, table: str, *rows: Any, **parameters: Any) -> httpx.Response:
        return self.post("/v1/changes/rows", json=list(rows), params={"table": table, **parameters})

    def csv_rows(self, table: str, text: str, **parameters: Any) -> httpx.Response:
        return self.body("rows", text, "text/csv", table=table, **parameters)

    def body(
        self,
        path: str,
        content: Any,
        media_type: str = "application/json",
        headers: dict[str, str] | None = None,
        **parameters: Any,
    ) -> httpx.Response:
        """POST a body as it is to `/v1/changes/<path>`."""
        sent = {"Content-Type": media_type, **(headers or {})}
        return self.post(f"/v1/changes/{path}", content=content, params=parameters, headers=sent)

    def status(self, table: str) -> dict[str, Any]:
        status: dict[str, Any] = self.get(f"/v1/tables/{table}").raise_for_status().json()
        return status

    def types(self, table: str) -> dict[str, str]:
        """Return the type of each column of a table, in their order."""
        columns = self.get(f"/v1/tables/{table}/schema").raise_for_status().json()["columns"]
        return {column["name"]: column["type"] for column in columns}

    def events(self, table: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self.get(f"/v1/tables/{table}/events").raise_for_status().json()["events"]
        return events

    def letters(self, table: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return the dead letters of a table as they are listed."""
        answer = self.get(f"/v1/tables/{table}/dead-letters", params=parameters).raise_for_status()
        letters: list[dict[str, Any]] = answer.json()["letters"]
        return letters

    def audit(self, **wanted: Any) -> list[dict[str, Any]]:
        """Return the first page of the audit."""
        events: list[dict[str, Any]] = self.get("/v1/audit", params=wanted).raise_for_status().json()["events"]
        return events

    def metric(self, series: str) -> float:
        """Return the sum of the series of ours with this name, or with a name and its first labels; 0 without one."""
        text = self.get("/metrics").raise_for_status().text
        return sum(map(float, re.findall(rf"^mirrorgate_{re.escape(series)}(?:[{{,].*)? (\S+)$", text, re.MULTILINE)))

    def listed_keys(self) -> list[dict[str, Any]]:
        keys: list[dict[str, Any]] = self.get("/v1/keys").raise_for_status().json()["keys"]
        return keys

    def new_key(self, *rights: str, **wanted: Any) -> dict[str, Any]:
        """Create a key, for all tables unless `tables` says otherwise; return it with its id and its secrets."""
        created: dict[str, Any] = self.post("/v1/keys", json={"rights": rights, **wanted}).raise_for_status().json()
        return created


@contextmanager
def own_gateway(
    database_url: str, *, in_front: bool = True, send_buffer: int | None = None, **settings: Any
) -> Iterator[Gateway]:
    """Run a separate app with these settings; yield a client with the admin key."""
    given = Settings.model_validate({"database_url": database_url, "admin_key": ADMIN_KEY, **settings})
    with (
        served(given, in_front=in_front, send_buffer=send_buffer) as address,
        Gateway.at(address, ADMIN_KEY) as client,
    ):
        yield client


def insert(table: str, **after: Any) -> dict[str, Any]:
    """Return an Arcion insert of these values."""
    schema, _, name = table.rpartition(".")
    return {
        "tableName": {"namespace": {"catalog": None, "schema": schema or None}, "name": name},
        "opType": "I",
        "after": after,
        "exists": dict.fromkeys(after, "1"),
    }


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Return the problem details of a rejection, which must have this status and code."""
    assert response.headers["content-type"] == "application/problem+json"
    details: dict[str, Any] = response.json()
    assert (response.status_code, details["status"], details["code"]) == (status, status, code), details
    assert details.keys() >= {"type", "title", "detail", "remedy"}
    assert details["request_id"] == response.headers["x-request-id"]
    return details


def without_id(response: httpx.Response) -> str:
    """Return a problem without the id of its request."""
    return response.text.replace(response.headers["x-request-id"], "")


def shown_defaults() -> dict[str, Any]:
    """Return the options of a table that gives none, as answers have them."""
    return DEFAULT_OPTIONS.to_json() | {"audit_columns": dict.fromkeys(AuditColumns.__dataclass_fields__)}
