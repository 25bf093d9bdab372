"""`mirrorgate audit`: list who changed keys and tables, and whose calls were rejected."""

import json
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.options import AsJson, Connection, with_connection

if TYPE_CHECKING:
    from app.cli.output import Grid

_PAGE: Final = 1000


class Outcome(StrEnum):
    """What the gateway did with a call."""

    DONE = "done"
    REJECTED = "rejected"


@with_connection
def audit(
    connection: Connection,
    hours: Annotated[float, typer.Option(min=0, help="How many hours to look back.")] = 24.0,
    subject: Annotated[
        str | None, typer.Option(help="Only this caller: a key's id or name, or `oidc:<subject>`.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Only events about tables of this name.")] = None,
    outcome: Annotated[Outcome | None, typer.Option(help="Only operations that were done, or rejected calls.")] = None,
    as_json: AsJson = False,
) -> None:
    """List who did what to keys and tables, and whose calls were rejected, oldest first.

    Example: `mirrorgate audit --hours 1 --outcome rejected`
    """
    wanted = {"subject": subject, "table": table, "outcome": outcome}
    filters = {name: value for name, value in wanted.items() if value is not None}
    since = (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
    events: list[dict[str, Any]] = []
    after: int | None = 0
    with connection.client() as client:
        while after is not None:
            page = client.get("/v1/audit", after=after, limit=_PAGE, since=since, **filters)
            events += page["events"]
            after = page["next_after"]
    if as_json:
        typer.echo(json.dumps(events))
    else:
        _audit_grid(events).print()


def _audit_grid(events: list[dict[str, Any]]) -> "Grid":
    from app.cli.output import Grid, caller, moment

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
