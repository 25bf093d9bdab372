"""Commands about who may do what: API keys, and the audit."""

import json
import secrets
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.cli.common import AsJson, DataDir, Key, Url
from app.cli.output import Grid, moment
from app.client.http import GatewayClient
from app.domain.access.api_key import format_key

_HOME: Final = Path(".mirrorgate")
_PAGE: Final = 1000

keys = typer.Typer(help="Create, list, rotate and delete API keys.", no_args_is_help=True)

RequestRate = Annotated[
    float | None, typer.Option(min=0.001, help="Requests a second that an API process takes of the key.")
]
ByteRate = Annotated[
    int | None, typer.Option(min=1, help="Bytes of bodies a second that an API process takes of the key.")
]
KeyId = Annotated[str, typer.Argument(help="The id, as `keys list` shows it.")]


class Outcome(StrEnum):
    DONE = "done"
    REJECTED = "rejected"


@keys.command("create")
def create_key(
    rights: Annotated[str, typer.Option(help="Comma-separated: ingest, read, register, admin.")],
    table_patterns: Annotated[str, typer.Option("--tables", help="Comma-separated patterns, as `sales.*`.")] = "*",
    days: Annotated[int | None, typer.Option(min=1, help="Days until it expires; unset: never.")] = None,
    requests_per_second: RequestRate = None,
    bytes_per_second: ByteRate = None,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
) -> None:
    """Create an API key in a running gateway and print it; its secret is not shown again."""
    expires_at = None if days is None else (datetime.now(UTC) + timedelta(days=days)).isoformat()
    wanted = {
        "rights": rights.split(","),
        "tables": table_patterns.split(","),
        "expires_at": expires_at,
        "requests_per_second": requests_per_second,
        "bytes_per_second": bytes_per_second,
    }
    with GatewayClient.find(url, key, data_dir) as client:
        typer.echo(client.post("/v1/keys", wanted)["key"])


@keys.command("generate")
def generate_key() -> None:
    """Print a new key for MIRRORGATE_ADMIN_KEY. Asks no gateway: the key works where that variable holds it."""
    typer.echo(format_key(secrets.token_hex(4), secrets.token_urlsafe(32)))


@keys.command("list")
def list_keys(url: Url = None, key: Key = None, data_dir: DataDir = _HOME, as_json: AsJson = False) -> None:
    """All keys, without their secrets: when each was last used, and until when a former secret works."""
    with GatewayClient.find(url, key, data_dir) as client:
        found = client.get("/v1/keys")["keys"]
    if as_json:
        typer.echo(json.dumps(found))
        return
    grid = Grid(("id", "rights", "tables", "created", "expires", "last used", "former secret", "limits"))
    for entry in found:
        former = entry["former_secret_until"]
        grid.add(
            entry["id"],
            ",".join(entry["rights"]),
            ",".join(entry["tables"]),
            moment(entry["created_at"]),
            moment(entry["expires_at"]) or "never",
            moment(entry["last_used_at"]) or "never",
            f"until {moment(former)}" if former else "",
            _limits(entry),
        )
    grid.print()


@keys.command("rotate")
def rotate_key(
    key_id: KeyId,
    overlap: Annotated[
        int, typer.Option(min=0, help="Seconds for which the present secret goes on working; 0: it ends at once.")
    ] = 86_400,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
) -> None:
    """Give a key a new secret and print it; id, rights, tables and producers stay."""
    with GatewayClient.find(url, key, data_dir) as client:
        typer.echo(client.post(f"/v1/keys/{key_id}/rotate", {"overlap_seconds": overlap})["key"])


@keys.command("limit")
def limit_key(
    key_id: KeyId,
    requests_per_second: RequestRate = None,
    bytes_per_second: ByteRate = None,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
) -> None:
    """Set the rate limits of a key; without an option, the limit of the settings holds again."""
    wanted = {"requests_per_second": requests_per_second, "bytes_per_second": bytes_per_second}
    with GatewayClient.find(url, key, data_dir) as client:
        changed = client.patch(f"/v1/keys/{key_id}", wanted)
    typer.echo(_limits(changed) or "no limits of its own")


@keys.command("delete")
def delete_key(key_id: KeyId, url: Url = None, key: Key = None, data_dir: DataDir = _HOME) -> None:
    """Delete a key; it stops working within five seconds."""
    with GatewayClient.find(url, key, data_dir) as client:
        client.delete(f"/v1/keys/{key_id}")


def audit(
    hours: Annotated[float, typer.Option(min=0, help="How far to look back.")] = 24.0,
    subject: Annotated[str | None, typer.Option(help="Only this key id, or `oidc:<subject>`.")] = None,
    table: Annotated[str | None, typer.Option(help="Only events about tables of this name.")] = None,
    outcome: Annotated[
        Outcome | None, typer.Option(help="Only acts that were done, or calls that were rejected.")
    ] = None,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
    as_json: AsJson = False,
) -> None:
    """Who did what to keys and tables, and who was rejected, oldest first."""
    wanted = {"subject": subject, "table": table, "outcome": outcome}
    filters = {name: value for name, value in wanted.items() if value is not None}
    since = (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
    events: list[dict[str, Any]] = []
    after: int | None = 0
    with GatewayClient.find(url, key, data_dir) as client:
        while after is not None:
            page = client.get("/v1/audit", after=after, limit=_PAGE, since=since, **filters)
            events += page["events"]
            after = page["next_after"]
    if as_json:
        typer.echo(json.dumps(events))
    else:
        _audit_grid(events).print()


def _audit_grid(events: list[dict[str, Any]]) -> Grid:
    grid = Grid(("when", "who", "what", "table", "outcome", "times", "details"), right=("times",), text=True)
    for event in events:
        rejected = f"{event['status']} {event['code']}"
        grid.add(
            moment(event["happened_at"]),
            event["subject"] or "-",
            event["action"],
            event["table"] or "",
            rejected if event["outcome"] == "rejected" else "done",
            str(event["times"]),
            "" if not event["details"] else json.dumps(event["details"]),
            style="red" if event["outcome"] == "rejected" else "",
        )
    return grid


def _limits(entry: dict[str, Any]) -> str:
    """The rate limits that a key has of its own."""
    requests, size = entry["requests_per_second"], entry["bytes_per_second"]
    shown = [] if requests is None else [f"{requests:g} requests/s"]
    return ", ".join(shown if size is None else [*shown, f"{size:,} bytes/s"])
