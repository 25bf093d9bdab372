"""The commands `mirrorgate keys …`: create, list, rotate, limit and delete API keys."""

import json
import secrets
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from app.cli.console import ERRORS, say
from app.cli.options import AsJson, Connection, with_connection

RequestRate = Annotated[
    float | None, typer.Option(min=0.001, help="Requests per second that one API process accepts from this key.")
]
ByteRate = Annotated[
    int | None, typer.Option(min=1, help="Body bytes per second that one API process accepts from this key.")
]
KeyName = Annotated[str, typer.Argument(help="What people call the key, up to 100 characters; empty for no name.")]
KeyId = Annotated[str, typer.Argument(help="The id of the key, as `keys list` shows it.")]


@with_connection
def create_key(
    connection: Connection,
    rights: Annotated[str, typer.Option(help="Comma-separated: ingest, read, register, admin.")],
    name: Annotated[
        str | None, typer.Option(help="What people call the key; the audit and events show it beside the id.")
    ] = None,
    table_patterns: Annotated[
        str, typer.Option("--tables", help="Comma-separated patterns of table names, for example `sales.*`.")
    ] = "*",
    days: Annotated[int | None, typer.Option(min=1, help="Days until the key expires. Default: it never does.")] = None,
    requests_per_second: RequestRate = None,
    bytes_per_second: ByteRate = None,
    hmac: Annotated[
        bool, typer.Option("--hmac", help="Also print a signing secret, for webhook senders that sign their bodies.")
    ] = False,
) -> None:
    """Create an API key in a running gateway and print it. The secret cannot be shown again.

    Example: `mirrorgate keys create --name "orders CDC" --rights ingest --tables "sales.*"`
    """
    expires_at = None if days is None else (datetime.now(UTC) + timedelta(days=days)).isoformat()
    wanted = {
        "name": name,
        "rights": rights.split(","),
        "tables": table_patterns.split(","),
        "expires_at": expires_at,
        "requests_per_second": requests_per_second,
        "bytes_per_second": bytes_per_second,
        **({"hmac": True} if hmac else {}),
    }
    with connection.client() as client:
        created = client.post("/v1/keys", wanted)
    typer.echo(created["key"])
    if hmac:
        typer.echo(f"key id: {created['id']}")
        typer.echo(f"signing secret: {created['signing_secret']}")


def generate_key() -> None:
    """Print a new key for MIRRORGATE_ADMIN_KEY. No gateway is called: set the variable to make the key valid."""
    from app.domain.access.api_key import format_key

    typer.echo(format_key(secrets.token_hex(4), secrets.token_urlsafe(32)))


@with_connection
def list_keys(connection: Connection, as_json: AsJson = False) -> None:
    """List all keys without their secrets: rights, tables, last use, and how long a former secret still works."""
    from app.cli.output import Grid, moment

    with connection.client() as client:
        answer = client.get("/v1/keys")
    found, of_settings = answer["keys"], answer["settings_key_id"]
    if as_json:
        typer.echo(json.dumps(found))
        return
    grid = Grid(("id", "name", "rights", "tables", "created", "expires", "last used", "former secret", "limits"))
    for entry in found:
        former = entry["former_secret_until"]
        grid.add(
            entry["id"],
            entry["name"] or "",
            ",".join(entry["rights"]),
            ",".join(entry["tables"]),
            moment(entry["created_at"]),
            moment(entry["expires_at"]) or "never",
            moment(entry["last_used_at"]) or "never",
            f"until {moment(former)}" if former else "",
            _limits(entry),
        )
    if found:
        grid.print()
    else:
        typer.echo("no keys are stored; `mirrorgate keys create` makes one")
    if of_settings is not None:
        say(
            f"the key {of_settings} of MIRRORGATE_ADMIN_KEY is not stored: it has every right, and is changed with the "
            "setting (`mirrorgate up`: the file admin.key)"
        )


@with_connection
def rotate_key(
    connection: Connection,
    key_id: KeyId,
    overlap: Annotated[
        int, typer.Option(min=0, help="Seconds the old secret keeps working. Use 0 if it has leaked.")
    ] = 86_400,
) -> None:
    """Give a key a new secret and print it. Id, name, rights, tables and producers stay the same.

    Standard error says until when the former secret works.
    """
    from app.cli.output import moment

    with connection.client() as client:
        rotated = client.post(f"/v1/keys/{key_id}/rotate", {"overlap_seconds": overlap})
    typer.echo(rotated["key"])
    until = rotated["former_secret_until"]
    told = "no longer works" if until is None else f"works until {moment(until)} UTC"
    say(f"the former secret {told}", to=ERRORS)


@with_connection
def rename_key(connection: Connection, key_id: KeyId, name: KeyName) -> None:
    """Give a key another name. Events from before show the new name too."""
    with connection.client() as client:
        changed = client.patch(f"/v1/keys/{key_id}", {"name": name or None})
    say(f"{changed['id']}: {changed['name'] or 'no name'}")


@with_connection
def limit_key(
    connection: Connection, key_id: KeyId, requests_per_second: RequestRate = None, bytes_per_second: ByteRate = None
) -> None:
    """Set the rate limits of a key. Leave an option out to return to the limit in the gateway's settings."""
    wanted = {"requests_per_second": requests_per_second, "bytes_per_second": bytes_per_second}
    with connection.client() as client:
        changed = client.patch(f"/v1/keys/{key_id}", wanted)
    typer.echo(_limits(changed) or "no separate limits")


@with_connection
def delete_key(connection: Connection, key_id: KeyId) -> None:
    """Delete a key. Every process rejects it within five seconds."""
    with connection.client() as client:
        client.delete(f"/v1/keys/{key_id}")


def _limits(entry: dict[str, Any]) -> str:
    """Format the rate limits set for the key itself."""
    requests, size = entry["requests_per_second"], entry["bytes_per_second"]
    shown = [] if requests is None else [f"{requests:g} requests/s"]
    return ", ".join(shown if size is None else [*shown, f"{size:,} bytes/s"])
