"""Commands of administrators: `keys`, `audit`, `alerts` and `landing-zone`.

The commands about keys and the audit call the API. Those about the landing zone open the database and the zone
directly, because the API never sees the zone. `alerts test` calls the webhook that the API sends alerts to.
"""

import json
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.domain.access.rejections import AuditOutcome
from app.domain.access.rights import RateLimits, rates
from app.extras import require_extras
from mirrorgate.cli.console import ERRORS, print_json, say
from mirrorgate.cli.options import DEFAULT_DATA_DIR, AsJson, Connection, LandingZone, LocalDataDir, with_connection
from mirrorgate.errors import Code, Misconfigured
from mirrorgate.parameters import named_path

if TYPE_CHECKING:
    from mirrorgate.cli.grid import Grid

_MAX_DAYS: Final = 36_525
"""A hundred years: further than a key or an audit lasts, and still a date."""

RequestRate = Annotated[
    float | None, typer.Option(min=0.001, help="Requests per second that one API process accepts from this key.")
]
ByteRate = Annotated[
    int | None, typer.Option(min=1, help="Body bytes per second that one API process accepts from this key.")
]
KeyName = Annotated[str, typer.Argument(help="Name of the key for people, up to 100 characters; empty for none.")]
KeyId = Annotated[str, typer.Argument(help="The id of the key, as `keys list` shows it.")]


@with_connection
def create_key(
    connection: Connection,
    rights: Annotated[str, typer.Option(help="Comma-separated: ingest, read, register, admin.")],
    name: Annotated[
        str | None, typer.Option(help="Name of the key for people; the audit and events show it beside the id.")
    ] = None,
    table_patterns: Annotated[
        str, typer.Option("--tables", help="Comma-separated patterns of table names, for example `sales.*`.")
    ] = "*",
    days: Annotated[
        int | None, typer.Option(min=1, max=_MAX_DAYS, help="Days until the key expires. Default: it never does.")
    ] = None,
    requests_per_second: RequestRate = None,
    bytes_per_second: ByteRate = None,
    hmac: Annotated[
        bool, typer.Option("--hmac", help="Also print a signing secret, for webhook senders that sign their bodies.")
    ] = False,
) -> None:
    """Create an API key in a running gateway and print it. The secret cannot be shown again.

    For example:

        mirrorgate keys create --name "orders CDC" --rights ingest --tables "sales.*"
    """
    expires_at = None if days is None else (datetime.now(UTC) + timedelta(days=days)).isoformat()
    wanted = {
        "name": name,
        "rights": [right.strip() for right in rights.split(",")],
        "tables": [pattern.strip() for pattern in table_patterns.split(",")],
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
    from app.domain.access.rights import format_key

    typer.echo(format_key(secrets.token_hex(4), secrets.token_urlsafe(32)))


@with_connection
def list_keys(connection: Connection, as_json: AsJson = False) -> None:
    """List all keys without their secrets: rights, tables, last use, and how long a former secret still works."""
    from mirrorgate.cli.grid import Grid, moment

    with connection.client() as client:
        answer = client.get("/v1/keys")
    found, of_settings = answer["keys"], answer["settings_key_id"]
    if as_json:
        print_json(found)
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
    """Give a key a new secret and print it. Id, name, rights, tables and producers remain the same.

    Standard error says until when the former secret works.
    """
    from mirrorgate.cli.grid import moment

    with connection.client() as client:
        rotated = client.post(f"{named_path('keys', key_id)}/rotate", {"overlap_seconds": overlap})
    typer.echo(rotated["key"])
    until = rotated["former_secret_until"]
    told = "no longer works" if until is None else f"works until {moment(until)} UTC"
    say(f"the former secret {told}", to=ERRORS)


@with_connection
def rename_key(connection: Connection, key_id: KeyId, name: KeyName) -> None:
    """Give a key another name. Earlier events show the new name too."""
    with connection.client() as client:
        changed = client.patch(named_path("keys", key_id), {"name": name or None})
    say(f"{changed['id']}: {changed['name'] or 'no name'}")


@with_connection
def limit_key(
    connection: Connection, key_id: KeyId, requests_per_second: RequestRate = None, bytes_per_second: ByteRate = None
) -> None:
    """Set the rate limits of a key. Leave an option out to return to the limit in the gateway's settings."""
    wanted = {"requests_per_second": requests_per_second, "bytes_per_second": bytes_per_second}
    with connection.client() as client:
        changed = client.patch(named_path("keys", key_id), wanted)
    typer.echo(_limits(changed))


@with_connection
def delete_key(connection: Connection, key_id: KeyId) -> None:
    """Delete a key. Every process rejects it within five seconds."""
    with connection.client() as client:
        client.delete(named_path("keys", key_id))


def _limits(entry: dict[str, Any]) -> str:
    """Return the rate limits set for the key itself."""
    return rates(RateLimits(entry["requests_per_second"], entry["bytes_per_second"]))


@with_connection
def audit(
    connection: Connection,
    hours: Annotated[float, typer.Option(min=0, max=_MAX_DAYS * 24, help="Hours to look back.")] = 24.0,
    subject: Annotated[
        str | None, typer.Option(help="Only this caller: a key's id or name, or `oidc:<subject>`.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Only events about tables of this name.")] = None,
    outcome: Annotated[
        AuditOutcome | None, typer.Option(help="Only operations that were done, or rejected calls.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List who did what to keys and tables, and whose calls were rejected, oldest first.

    For example:

        mirrorgate audit --hours 1 --outcome rejected
    """
    wanted = {"subject": subject, "table": table, "outcome": outcome}
    filters = {name: value for name, value in wanted.items() if value is not None}
    since = (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
    with connection.client() as client:
        events = list(client.entries("/v1/audit", "events", {"since": since, **filters}))
    if as_json:
        print_json(events)
    else:
        _audit_grid(events).print()


def _audit_grid(events: list[dict[str, Any]]) -> "Grid":
    from app.cli.output import caller
    from mirrorgate.cli.grid import Grid, moment

    grid = Grid(("when", "who", "what", "table", "outcome", "times", "details"), right=("times",), text=True)
    for event in events:
        rejected = f"{event['status']} {event['code']}"
        grid.add(
            moment(event["happened_at"]),
            caller(event["subject"] or "-", event["subject_name"]),
            event["action"],
            event["table"] or "",
            rejected if event["outcome"] == "rejected" else "done",
            str(event["times"]),
            "" if not event["details"] else json.dumps(event["details"]),
            style="red" if event["outcome"] == "rejected" else "",
        )
    return grid


def test_alerts() -> None:
    """Send a test message to the webhook of MIRRORGATE_ALERT_URL.

    Run it where the API runs, with its variables.

    For example:

        MIRRORGATE_ALERT_URL=https://… mirrorgate alerts test
    """
    require_extras("alerts test", "server")
    from app.api.alerting import Webhook
    from app.settings import Settings

    settings = Settings.from_environment()
    if settings.alert_url is None:
        raise Misconfigured(
            Code.BAD_SETTING,
            "MIRRORGATE_ALERT_URL is not set",
            remedy="Set it to the address of the webhook, for this command and for the API.",
        )
    now = datetime.now(UTC).isoformat()
    text = "TEST: this is a test message of Mirrorgate. Nothing is wrong."
    Webhook(settings.alert_url, settings.alert_secret).send(
        {"version": 1, "gateway": "", "sent_at": now, "text": text, "alerts": []}
    )
    say("the webhook accepted the message")


def show_zone(as_json: AsJson = False, data_dir: LocalDataDir = DEFAULT_DATA_DIR) -> None:
    """Print the id of the zone that the database publishes into, and the address where a drain last used it."""
    require_extras("landing-zone show", "server")
    from app.cli.direct import open_database
    from app.staging.connection.database import translated_errors
    from app.staging.ledger.leases import known_zone

    with open_database(data_dir) as engine, translated_errors(), engine.begin() as connection:
        known = known_zone(connection)
    if as_json:
        print_json(known and {"zone_id": str(known.zone_id), "location": known.location})
    else:
        typer.echo("no drain has started yet" if known is None else str(known))


def move_zone(landing_zone: LandingZone = None, data_dir: LocalDataDir = DEFAULT_DATA_DIR) -> None:
    """Publish into the given landing zone from now on, instead of the one that the database remembers.

    A zone that only moved to another mount point or address needs no move: its id moves with it. A new, empty zone has
    no table folders, so each table with published files stops with `landing_folder_lost` until you rebuild it, or
    recreate it and load it again.

    For example:

        mirrorgate landing-zone move --landing-zone /mnt/new-zone
    """
    require_extras("landing-zone move", "server")
    from app.checks.landing_zone import move_landing_zone
    from app.cli.direct import direct_settings, open_database_and_zone
    from app.landing.open_zone import open_zone
    from app.landing.zone import PathKind
    from app.staging.connection.database import translated_errors
    from app.staging.ledger.files import recorded_number
    from app.staging.tables.registry import list_tables

    direct_settings(landing_zone, data_dir).require_landing_zone()
    with open_database_and_zone(landing_zone, data_dir) as (engine, address):
        former, now = move_landing_zone(engine, address)
        opened = open_zone(address)
        with translated_errors(), engine.begin() as connection:
            published = [table for table in list_tables(connection) if recorded_number(connection, table.table_id)]
        missing = [str(table.name) for table in published if opened.kind(table.name.folder) is PathKind.ABSENT]
    say(f"was: {former or 'none'}")
    say(f"now: {now}")
    if missing:
        say(f"{len(missing)} tables have published files and no folder there: {', '.join(missing)}")
        say("start a drain, then run `mirrorgate tables rebuild --all`; recreate the tables that it cannot rebuild")
