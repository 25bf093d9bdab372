"""`mirrorgate tables check`: compare a table with its source, by checksums first, then row by row where they differ."""

import json
import sys
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from app.cli.console import ERRORS, say
from app.cli.options import AsJson, Connection, TableName, with_connection
from app.client.table_path import table_path
from app.domain.model.table_schema import Column, ColumnType, TableSchema
from app.domain.source_checks.columns import compared_columns
from app.domain.source_checks.dialects import Dialect
from app.domain.source_checks.digests import MAX_ROWS
from app.domain.source_checks.source_sql import SourceQueries
from app.extras import require_extras

if TYPE_CHECKING:
    from app.client.http import GatewayClient
    from app.source.database import SourceDatabase

_KINDS: Final = ("missing", "surplus", "changed")
_MAX_SHOWN: Final = 20


class _Check(NamedTuple):
    """What is compared, and how often."""

    path: str
    against: str
    queries: SourceQueries
    digits: int
    rounds: int
    pause: float


@with_connection
def check(
    connection: Connection,
    table: TableName,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            envvar="MIRRORGATE_SOURCE",
            help="SQLAlchemy address of the source, such as postgresql://reader@host/shop. Prefer the variable: other "
            "users of this machine see the arguments of a command.",
        ),
    ] = None,
    relation: Annotated[
        str | None,
        typer.Option("--relation", help="The table in the source, or a query in parentheses. Default: the table."),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--column", help="A column to compare. Default: all that can be compared.")
    ] = None,
    expressions: Annotated[
        list[str] | None,
        typer.Option("--expression", help="`column=SQL` for a column that the source names or stores otherwise."),
    ] = None,
    against: Annotated[
        str, typer.Option("--against", help="`images`: everything accepted. `mirror`: the Delta table.")
    ] = "images",
    digits: Annotated[int, typer.Option("--digits", min=1, max=4, help="Digits of a bucket: 3 makes 4,096.")] = 3,
    rounds: Annotated[
        int,
        typer.Option("--rounds", min=1, max=100, help="How often a differing row is compared before it is reported."),
    ] = 3,
    pause: Annotated[float, typer.Option("--pause", min=0, help="Seconds between two rounds.")] = 10.0,
    show_sql: Annotated[
        Dialect | None, typer.Option("--show-sql", help="Print the query for this database, and compare nothing.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the rows of a table with those of its source. Exit 1 if a row differs in every round.

    The source and the gateway add up counts and checksums of their rows; only keys of rows that differ are exchanged.
    Rows that are on their way differ for a moment, so they are compared again after a pause. Nothing is changed.

    Example: `MIRRORGATE_SOURCE=postgresql://reader@db/shop mirrorgate tables check sales.orders`
    """
    if against not in ("images", "mirror"):
        raise typer.BadParameter("choose images or mirror", param_hint="--against")
    with connection.client() as client:
        path = table_path(table)
        schema = _schema(client.get(f"{path}/schema"))
        masked = client.get(path)["options"]["masks"]
        compared = compared_columns(schema, columns, masked)
        if show_sql is not None:
            typer.echo(_queries(show_sql, table, relation, schema, compared, expressions).buckets(digits))
            return
        if source is None:
            raise typer.BadParameter("name the source, or set MIRRORGATE_SOURCE", param_hint="--source")
        require_extras("tables check", "server")
        from app.source.database import open_source

        quiet = as_json or not sys.stderr.isatty()
        with open_source(source) as database, nullcontext() if quiet else ERRORS.status("comparing …"):
            queries = _queries(database.dialect, table, relation, schema, compared, expressions)
            found = _compare(client, database, _Check(path, against, queries, digits, rounds, pause))
    if as_json:
        typer.echo(json.dumps(found))
    else:
        _print(table, found)
    if not found["equal"]:
        raise typer.Exit(1)


def _compare(client: "GatewayClient", database: "SourceDatabase", wanted: _Check) -> dict[str, Any]:
    """Return what differs in every round: the answer of the first, with the keys that still differ in the last."""
    names = [column.name for column in wanted.queries.columns]
    base = {"against": wanted.against, "columns": names, "digits": wanted.digits}
    source = database.buckets(wanted.queries, wanted.digits)
    body = {bucket: {"rows": one.rows, "checksum": one.checksum} for bucket, one in source.items()}
    answer: dict[str, Any] = client.post(f"{wanted.path}/checks", base | {"buckets": body})
    answer["source_rows"] = sum(one.rows for one in source.values())
    chosen = _chosen(answer["buckets"])
    if not chosen:  # nothing differs, or a bucket has too many rows
        return answer
    keys: dict[str, set[str]] = {}
    is_listed = True
    for number in range(wanted.rounds):
        if number:
            threading.Event().wait(wanted.pause)
        database.start_again()
        rows = database.rows(wanted.queries, chosen)
        found = client.post(f"{wanted.path}/checks", base | {"rows": rows})["keys"]
        differing = {kind: {*found[kind]} for kind in _KINDS}
        is_listed = found["count"] == sum(map(len, differing.values()))
        keys = {kind: keys[kind] & differing[kind] for kind in _KINDS} if number else differing
        if is_listed and not any(keys.values()):
            break
    answer["keys"] = {kind: sorted(keys[kind]) for kind in _KINDS}
    answer["equal"] = is_listed and not any(keys.values()) and len(chosen) == len(answer["buckets"])
    return answer


def _chosen(buckets: list[Mapping[str, Any]]) -> list[str]:
    """Return as many of the differing buckets as one round compares: none if the first has too many rows."""
    chosen: list[str] = []
    rows = 0
    for one in buckets:
        rows += one["source"]["rows"]
        if rows > MAX_ROWS:
            break
        chosen.append(one["bucket"])
    return chosen


def _schema(answer: Mapping[str, Any]) -> TableSchema:
    columns = tuple(
        Column(one["name"], ColumnType.parse(one["type"]), one.get("nullable", True)) for one in answer["columns"]
    )
    return TableSchema(columns, tuple(answer["key_columns"]))


def _queries(
    dialect: Dialect,
    table: str,
    relation: str | None,
    schema: TableSchema,
    columns: list[Column],
    expressions: list[str] | None,
) -> SourceQueries:
    given = dict(_expression(text) for text in expressions or ())
    return SourceQueries.of(dialect, relation or table, columns, schema.key_columns, given, is_table=relation is None)


def _expression(text: str) -> tuple[str, str]:
    name, equals, sql = text.partition("=")
    if not (name and equals and sql):
        raise typer.BadParameter("write column=SQL", param_hint="--expression")
    return name, sql


def _print(table: str, found: Mapping[str, Any]) -> None:
    say(f"{table}: {found['source_rows']:,} rows in the source, {found['rows']:,} in the gateway")
    if found["equal"]:
        say("no row differs" if not found["buckets"] else "no row differs after the changes on their way had arrived")
        return
    keys = found["keys"] or {}
    for kind, meaning in zip(_KINDS, ("only in the source", "only in the gateway", "with other values"), strict=True):
        if listed := keys.get(kind, []):
            more = " …" if len(listed) > _MAX_SHOWN else ""
            say(f"{len(listed):,} rows {meaning}: {', '.join(listed[:_MAX_SHOWN])}{more}")
    rows = sum(max(one["source"]["rows"], one["gateway"]["rows"]) for one in found["buckets"])
    if found["keys"] is None:
        say(f"a bucket has more than {MAX_ROWS:,} rows; give more --digits to compare them one by one")
    say(f"{len(found['buckets']):,} buckets of {rows:,} rows differed in the first round; `--json` lists them")
