"""Commands that compare or export a table: `tables check`, `tables verify` and `export-rows`.

`check` compares a table with its source, by checksums first, then row by row where they differ. `TableComparison`
compares all buckets first, then the rows of those that differ, in several rounds. The rows of differing buckets are
compared a group at a time, because a request has at most MAX_ROWS of them and MAX_BODY_BYTES. The gateway reads its
whole table for each, so a round has at most MAX_GROUPS; what is beyond it is reported as not compared.

`verify` compares a landing zone, and `export_rows` writes rows as Parquet.
"""

import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from app.domain.model.table_schema import Column, TableSchema
from app.domain.source_checks import MAX_ROWS, Dialect, SourceQueries, bucket_of, compared_columns, is_bucket
from app.extras import require_extras
from mirrorgate.cli.console import ERRORS, print_json, say, working
from mirrorgate.cli.options import (
    DEFAULT_DATA_DIR,
    AsJson,
    Connection,
    LandingZone,
    LocalDataDir,
    TableName,
    TableOrAll,
    with_connection,
)
from mirrorgate.errors import Code, MirrorgateError, RejectedInput
from mirrorgate.parameters import table_path

if TYPE_CHECKING:
    from app.checks.landing_zone import Verified
    from app.checks.source_database import SourceDatabase
    from app.domain.model.table import Table
    from app.staging.connection.database import Engine
    from mirrorgate.http import GatewayClient

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
        typer.Option("--expression", help="`column=SQL` for a column that the source names or stores differently."),
    ] = None,
    against: Annotated[
        str, typer.Option("--against", help="`images`: everything accepted. `mirror`: the Delta table.")
    ] = "images",
    digits: Annotated[int, typer.Option("--digits", min=1, max=4, help="Digits of a bucket: 3 makes 4,096.")] = 3,
    rounds: Annotated[
        int,
        typer.Option("--rounds", min=1, max=100, help="Comparisons of a differing row before it is reported."),
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

    For example:

        MIRRORGATE_SOURCE=postgresql://reader@db/shop mirrorgate tables check sales.orders
    """
    if against not in ("images", "mirror"):
        raise typer.BadParameter("choose images or mirror", param_hint="--against")
    with connection.client() as client:
        path = table_path(table)
        found = client.get(f"{path}/schema")
        schema = TableSchema.from_json({**found, "bare": False})
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
        from app.checks.source_database import open_source

        quiet = as_json or not sys.stderr.isatty()
        with open_source(source) as database, nullcontext() if quiet else ERRORS.status("comparing …"):
            wanted = Check(path, against, queries_in(database.dialect), digits, rounds, pause)
            found = TableComparison(client, database, wanted).run()
    if as_json:
        print_json(found)
    else:
        _print_found(table, found)
    if not found["equal"]:
        raise typer.Exit(1)


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


def _print_found(table: str, found: Mapping[str, Any]) -> None:
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


KINDS: Final = ("missing", "surplus", "changed")
MAX_GROUPS: Final = 10
MAX_BODY_BYTES: Final = 7 * 2**20
"""Of the rows of one request; the gateway takes a megabyte more."""
_ANSWER_SECONDS: Final = 3_600.0
"""The gateway answers when it has read the whole table."""


class Check(NamedTuple):
    """The subject and interval of a comparison."""

    path: str
    against: str
    queries: "SourceQueries"
    digits: int
    rounds: int
    pause: float


class _Round(NamedTuple):
    """The findings of one round."""

    keys: Mapping[str, set[str]]
    """The listed rows that differ: of each request, the first of each kind."""
    total: int
    """All rows that differ."""
    left_out: int
    """Buckets whose rows were too many for the round."""

    @property
    def is_listed(self) -> bool:
        """True if every row that differs is listed."""
        return self.total == sum(map(len, self.keys.values()))


class TableComparison:
    """Comparison of one table."""

    def __init__(self, client: "GatewayClient", source: "SourceDatabase", wanted: Check) -> None:
        self._client, self._source, self._wanted = client, source, wanted
        names = [column.name for column in wanted.queries.columns]
        self._base = {"against": wanted.against, "columns": names, "digits": wanted.digits}

    def run(self) -> dict[str, Any]:
        """Return the answer to all buckets, with the keys of the rows that differ in every round.

        `buckets_not_compared` counts the buckets whose rows were not compared.
        """
        source = self._source.buckets(self._wanted.queries, self._wanted.digits)
        answer = self._post(
            buckets={name: {"rows": one.rows, "checksum": one.checksum} for name, one in source.items()}
        )
        answer |= {"source_rows": sum(one.rows for one in source.values()), "buckets_not_compared": 0}
        if answer["equal"]:
            return answer
        sizes = {one["bucket"]: int(one["source"]["rows"]) for one in answer["buckets"]}
        found = first = self._round([*sizes], sizes)
        left_out = first.left_out
        for _ in range(1, self._wanted.rounds):
            if not found.total:
                break
            threading.Event().wait(self._wanted.pause)
            found = self._again(found, sizes)
            left_out = max(left_out, found.left_out)
        answer["keys"] = {kind: sorted(found.keys[kind]) for kind in KINDS} | {"count": found.total}
        answer["buckets_not_compared"] = left_out
        answer["equal"] = not found.total and not left_out
        return answer

    def _again(self, before: _Round, sizes: Mapping[str, int]) -> _Round:
        """Compare the rows again that differed before; all buckets if not every such row is listed."""
        keys = {key for kind in KINDS for key in before.keys[kind]}
        differing = {bucket_of(key, self._wanted.digits) for key in keys} if before.is_listed else set(sizes)
        differing &= sizes.keys()  # the gateway names the keys
        found = self._round(sorted(differing), sizes)
        if not (before.is_listed and found.is_listed):
            return found
        both = {kind: before.keys[kind] & found.keys[kind] for kind in KINDS}
        return found._replace(keys=both, total=sum(map(len, both.values())))

    def _round(self, buckets: Sequence[str], sizes: Mapping[str, int]) -> _Round:
        self._source.start_again()
        keys: dict[str, set[str]] = {kind: set() for kind in KINDS}
        count, requests, compared = 0, 0, 0
        for group in groups(buckets, sizes):
            for part in parts(self._source.rows(self._wanted.queries, group)):
                if requests == MAX_GROUPS:
                    break
                requests, compared = requests + 1, compared + len(part)
                found = self._post(rows=part)["keys"]
                count += found["count"]
                for kind in KINDS:
                    keys[kind].update(found[kind])
            if requests == MAX_GROUPS:
                break
        return _Round(keys, count, len(buckets) - compared)

    def _post(self, **of_source: Any) -> dict[str, Any]:
        body = self._base | of_source
        answer = self._client.post(f"{self._wanted.path}/checks", body, answer_seconds=_ANSWER_SECONDS)
        return checked_answer(answer, self._wanted.digits, has_keys="rows" in of_source)


def checked_answer(answer: Any, digits: int, *, has_keys: bool) -> dict[str, Any]:
    """Return an answer of the gateway if it is one, with nothing else in it.

    Names of buckets become SQL that runs in the source, so a gateway is not trusted.

    Raises MirrorgateError `internal` for any other answer.
    """
    try:
        equal, sequence, listed = answer["equal"], answer["sequence"], answer["keys"]
        names = [_text(one["bucket"]) for one in answer["buckets"]]
        if type(equal) is not bool or len({*names}) < len(names) or not all(is_bucket(name, digits) for name in names):
            raise ValueError
        buckets = [
            {"bucket": name, "source": _digest(one["source"]), "gateway": _digest(one["gateway"])}
            for name, one in zip(names, answer["buckets"], strict=True)
        ]
        keys = None
        if has_keys:
            keys = {kind: [_text(key) for key in listed[kind]] for kind in KINDS} | {"count": _count(listed["count"])}
        return {
            "equal": equal,
            "generation": _count(answer["generation"]),
            "sequence": None if sequence is None else _count(sequence),
            "columns": [_text(name) for name in answer["columns"]],
            "rows": _count(answer["rows"]),
            "buckets": buckets,
            "keys": keys,
        }
    except (KeyError, TypeError, ValueError):
        raise MirrorgateError(
            Code.INTERNAL,
            "the gateway's answer is not one to a comparison",
            remedy="Check that --url names a Mirrorgate gateway of the same version as this program.",
        ) from None


def _digest(given: Any) -> dict[str, int]:
    return {"rows": _count(given["rows"]), "checksum": _count(given["checksum"])}


def _count(given: Any) -> int:
    """Return a whole number that is not negative. Raises ValueError for anything else."""
    if type(given) is not int or given < 0:
        raise ValueError
    return given


def _text(given: Any) -> str:
    """Return a string. Raises ValueError for anything else."""
    if type(given) is not str:
        raise ValueError
    return given


def groups(buckets: Sequence[str], sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield the buckets with at most MAX_ROWS rows together, without those that have more alone."""
    group: list[str] = []
    rows = 0
    for bucket in buckets:
        if sizes[bucket] > MAX_ROWS:
            continue
        if rows + sizes[bucket] > MAX_ROWS:
            yield group
            group, rows = [], 0
        group.append(bucket)
        rows += sizes[bucket]
    if group:
        yield group


def parts(rows: Mapping[str, Mapping[str, int]]) -> Iterator[dict[str, Mapping[str, int]]]:
    """Yield the rows of a group in requests of at most MAX_ROWS and MAX_BODY_BYTES.

    A bucket that is larger alone is left out. The source may have more rows now than when the group was chosen.
    """
    part: dict[str, Mapping[str, int]] = {}
    count, size = 0, 0
    for bucket, of_bucket in rows.items():
        more = len(json.dumps(of_bucket, ensure_ascii=False).encode())
        if more > MAX_BODY_BYTES or len(of_bucket) > MAX_ROWS:
            continue
        if count + len(of_bucket) > MAX_ROWS or size + more > MAX_BODY_BYTES:
            yield part
            part, count, size = {}, 0, 0
        part[bucket] = of_bucket
        count += len(of_bucket)
        size += more
    if part:
        yield part


def verify(
    table: TableOrAll = None,
    every: Annotated[bool, typer.Option("--all", help="Verify every table.")] = False,
    as_json: AsJson = False,
    landing_zone: LandingZone = None,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Compare published files in the landing zone with the ledger: size and SHA-256. Exit 1 if any file differs.

    The command reads the database and the landing zone directly, as a drain does, and changes nothing. Files that
    mirroring has consumed are compared as long as mirroring keeps them; files it has removed since are only counted.
    """
    require_extras("tables verify", "server")
    from app.checks.landing_zone import files_to_compare, require_own_zone, verify_table
    from app.cli.direct import open_database_and_zone

    if every == (table is not None):
        raise typer.BadParameter("name one table, or give --all")
    with open_database_and_zone(landing_zone, data_dir) as (engine, address):
        require_own_zone(engine, address)
        chosen = _chosen(engine, table)
        verified = []
        with working("comparing", steps=files_to_compare(engine, chosen), quiet=as_json) as advance:
            for one in chosen:
                advance(str(one.name))
                verified.append(verify_table(engine, address, one, partial(advance, str(one.name), done=1)))
    if as_json:
        print_json([one.to_json() for one in verified])
    else:
        for result in verified:
            _print_verified(result)
    if any(one.report is not None and one.report.differences for one in verified):
        raise typer.Exit(1)


def _chosen(engine: "Engine", table: str | None) -> "list[Table]":
    """Return the tables to compare. A table that is being dropped has nothing to compare."""
    from app.domain.model.names import TableName
    from app.domain.model.table import TableState
    from app.staging.connection.database import translated_errors
    from app.staging.tables.registry import find_table, list_tables
    from mirrorgate.errors import Code, RejectedInput

    with translated_errors(), engine.begin() as connection:
        if table is None:
            return [one for one in list_tables(connection) if one.state is not TableState.DROPPING]
        found = find_table(connection, TableName.parse(table))
    if found is None:
        raise RejectedInput(
            Code.UNKNOWN_TABLE, f"there is no table {table}", remedy="`mirrorgate tables list` shows all tables."
        )
    return [found]


def _print_verified(verified: "Verified") -> None:
    report = verified.report
    if report is None:
        line = "skipped: the table is being dropped or recreated"
    else:
        line = f"{report.compared} files compared, {report.removed} removed by mirroring"
        if report.beyond_history:
            line += f", {report.beyond_history} older than the ledger's history"
        line += f", {len(report.differences)} differences" if report.differences else ", no difference"
    say(f"{verified.table.name}: {line}")
    for one in report.differences if report is not None else ():
        say(f"  {one.problem} {one.path}: {one.detail}")


def export_rows(
    table: TableName,
    to: Annotated[
        Path, typer.Option("--to", help="The file to write, or a folder, in which it is named after the table.")
    ],
    as_json: AsJson = False,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Write all present rows of a table that keeps row images into one Parquet file.

    The rows are those of one moment; changes continue meanwhile. The command reads the database directly. An existing
    file is replaced when the new one is complete.

    For example:

        mirrorgate tables export-rows sales.orders --to orders.parquet
    """
    require_extras("tables export-rows", "server")
    from app.cli.direct import open_database
    from app.cli.tables.table_rows import export_rows as write_rows
    from app.cli.tables.table_rows import find_exportable
    from app.domain.model import names

    with open_database(data_dir) as engine:
        found, rows = find_exportable(engine, names.TableName.parse(table))
        with working(str(found.name), steps=rows, quiet=as_json) as advance:
            try:
                written = write_rows(engine, found, to, lambda more: advance(str(found.name), done=more))
            except OSError as error:
                detail = f"{to} cannot be written: {error.strerror or error}"
                remedy = "Name a file in a folder that exists and has room."
                raise RejectedInput(Code.BAD_REQUEST, detail, remedy=remedy) from error
    if as_json:
        told = {"file": str(written.file), "rows": written.rows, "bytes": written.bytes, "sequence": written.sequence}
        print_json(told)
    else:
        say(f"{written.rows:,} rows, {written.bytes:,} bytes, as of batch {written.sequence}: {written.file}")
