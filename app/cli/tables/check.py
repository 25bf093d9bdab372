"""`mirrorgate tables check`: compare a table with its source, by checksums first, then row by row where they differ."""

import json
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Annotated, Any, Final

import typer

from app.cli.console import ERRORS, say
from app.cli.options import AsJson, Connection, TableName, with_connection
from app.cli.tables.comparison import KINDS, Check, Comparison
from app.client.table_path import table_path
from app.domain.model.table_schema import Column, ColumnType, TableSchema
from app.domain.source_checks.columns import compared_columns
from app.domain.source_checks.dialects import Dialect
from app.domain.source_checks.source_sql import SourceQueries
from app.extras import require_extras

_MAX_SHOWN: Final = 20


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
    buckets: Annotated[
        list[str] | None,
        typer.Option("--bucket", help="With --show-sql: print the query for the rows of this bucket; repeat it."),
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
        found = client.get(f"{path}/schema")
        schema = _schema(found)
        masked = client.get(path)["options"]["masks"]
        compared = compared_columns(schema, columns, masked, found["left_columns"])
        given = _expressions(expressions, compared)

        def queries_in(dialect: Dialect) -> SourceQueries:
            keys, is_table = schema.key_columns, relation is None
            return SourceQueries.of(dialect, relation or table, compared, keys, given, is_table=is_table)

        if show_sql is not None:
            try:
                typer.echo(queries_in(show_sql).script(digits, buckets))
            except ValueError as error:
                raise typer.BadParameter(str(error), param_hint="--bucket") from None
            return
        if source is None:
            raise typer.BadParameter("name the source, or set MIRRORGATE_SOURCE", param_hint="--source")
        require_extras("tables check", "server")
        from app.source.database import open_source

        quiet = as_json or not sys.stderr.isatty()
        with open_source(source) as database, nullcontext() if quiet else ERRORS.status("comparing …"):
            wanted = Check(path, against, queries_in(database.dialect), digits, rounds, pause)
            found = Comparison(client, database, wanted).run()
    if as_json:
        typer.echo(json.dumps(found))
    else:
        _print(table, found)
    if not found["equal"]:
        raise typer.Exit(1)


def _schema(answer: Mapping[str, Any]) -> TableSchema:
    columns = tuple(
        Column(one["name"], ColumnType.parse(one["type"]), one.get("nullable", True)) for one in answer["columns"]
    )
    return TableSchema(columns, tuple(answer["key_columns"]))


def _expressions(texts: list[str] | None, compared: list[Column]) -> dict[str, str]:
    """Return the expressions by their columns, which have to be among the compared ones."""
    given = dict(_expression(text) for text in texts or ())
    if others := given.keys() - {column.name for column in compared}:
        detail = f"column {min(others)!r} is not compared, or the table does not have it"
        raise typer.BadParameter(detail, param_hint="--expression")
    return given


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
    for kind, meaning in zip(KINDS, ("only in the source", "only in the gateway", "with other values"), strict=True):
        if listed := keys.get(kind, []):
            more = " …" if len(listed) > _MAX_SHOWN else ""
            shown = ", ".join(map(_printable, listed[:_MAX_SHOWN]))
            say(f"{len(listed):,} rows {meaning}: {shown}{more}")
    if keys and keys["count"] > sum(len(keys[kind]) for kind in KINDS):
        say(f"{keys['count']:,} rows differ, more than are listed")
    rows = sum(max(one["source"]["rows"], one["gateway"]["rows"]) for one in found["buckets"])
    say(f"{len(found['buckets']):,} buckets of {rows:,} rows differed in the first round; `--json` lists them")
    if found["buckets_not_compared"]:
        say(f"{found['buckets_not_compared']:,} of them have too many rows to compare; give more --digits, up to 4")


def _printable(key: str) -> str:
    """Return a key text without characters that a terminal would obey."""
    return "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in key)
