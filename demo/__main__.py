"""Run the demo. It exits with 0 only if every posted change has landed once and in order, and is mirrored."""

import argparse
import shutil
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.tree import Tree

from app.cli.output import status_grid
from demo.gateway import GatewayDidNotStart, admin_key, running_gateway
from demo.landing_reader import ROW_MARKER, all_rows, landing_files, landing_rows, table_folder
from demo.mirror_checks import MirrorDiffers, compare_mirror, show_mirror, wait_until_mirrored
from demo.poster import Poster, with_retries
from demo.samples import REJECTED, SAMPLE_TABLES, sample_posts
from demo.workload import Row, stock_metadata, stream, stream_tables
from mirrorgate.errors import MirrorgateError
from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.parameters import Stage
from mirrorgate.stages import wait_until

HOME = Path(".demo")
CHANGES = 100_000
PER_POST = 1_000
MAX_PUBLISH_SECONDS = 180.0
MAX_SHOWN_ROWS = 3
MAX_SHOWN_FILES = 20
SHOWN_TABLE = "shop.orders"
SHOWN_SQL = ("SELECT count(*) AS orders FROM shop.orders", "SELECT * FROM shop.orders LIMIT 3")

console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


class DoesNotAddUp(Exception):
    """The landing zone differs from what was posted."""


def main() -> int:
    """Run the demo as the command line says. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument(
        "--data-dir", type=Path, default=HOME, help="deleted first; its landing zone is kept for you to look at"
    )
    parser.add_argument("--changes", type=int, default=CHANGES, help="length of the stream")
    parser.add_argument("--no-mirror", dest="mirror", action="store_false", help="run without the Delta mirror")
    parser.add_argument(
        "--fabric",
        action="store_true",
        help="publish into `mirrorgate emulator` instead of a folder, and query it by SQL",
    )
    arguments = parser.parse_args()
    shutil.rmtree(arguments.data_dir, ignore_errors=True)
    try:
        with ExitStack() as stack:
            if arguments.fabric:
                return show_fabric(arguments.data_dir, arguments.changes, stack)
            with console.status("Starting the gateway: private Postgres, API, Spark drain and mirror …"):
                started = time.monotonic()
                url = stack.enter_context(running_gateway(arguments.data_dir, mirror=arguments.mirror))
            say(f"The gateway is ready at {url} after {time.monotonic() - started:.1f} s.")
            client = stack.enter_context(GatewayClient(url, admin_key(arguments.data_dir)))
            mirror = arguments.data_dir / "mirror" if arguments.mirror else None
            run(client, arguments.data_dir / "landing-zone", mirror, arguments.changes)
    except (DoesNotAddUp, MirrorDiffers, GatewayDidNotStart, MirrorgateError) as error:
        console.print(f"[bold red]The demo failed:[/bold red] {error}")
        return 1
    except KeyboardInterrupt:
        console.print("Stopped.")
        return 130
    say(f"The landing zone is kept in {arguments.data_dir / 'landing-zone'}. Next: `make up` and README.md.")
    if arguments.mirror:
        say(f"The Delta tables too: `mirrorgate mirror history {SHOWN_TABLE} --data-dir {arguments.data_dir}`.")
    return 0


def show_fabric(data_dir: Path, changes: int, stack: ExitStack) -> int:
    """Post everything, wait until Fabric's emulator shows it, and compare. Raise MirrorDiffers for any difference."""
    from mirrorgate_zone.emulator.emulator import running

    emulator = stack.enter_context(running(data_dir / "fabric"))
    found = emulator.addresses
    environment = found.environment | {"MIRRORGATE_FABRIC_REFRESH_SQL": "true", "MIRRORGATE_FABRIC_POLL_SECONDS": "1"}
    say(f"Fabric's emulator is at {found.onelake}: OneLake, the REST API at {found.fabric}, SQL at {found.sql}.")
    with console.status("Starting the gateway: private Postgres, API and Spark drain …"):
        url = stack.enter_context(running_gateway(data_dir, environment=environment))
    client = stack.enter_context(GatewayClient(url, admin_key(data_dir)))
    expected: dict[str, list[Row]] = {}
    poster = Poster(client)
    post_samples(client, poster, expected)
    show_rejections(client)
    post_stream(client, poster, changes, expected)
    with console.status("Waiting until Fabric's SQL endpoint shows the rows …"):
        for table in expected:
            wait_until(client, table, Stage.QUERYABLE, timeout=MAX_PUBLISH_SECONDS)
    rows = compare_mirror(emulator.onelake.tree.root / found.database / "Tables", expected)
    for sql in SHOWN_SQL:
        answer = (
            httpx.post(found.sql.replace("https:", "http:"), content=sql, trust_env=False).raise_for_status().json()
        )
        say(f"[bold]{sql}[/bold]")
        console.print(rows_grid(answer["columns"], answer["rows"]))
    console.print(
        f"[bold green]Everything adds up:[/bold green] POST, OneLake, replicator, SQL: {rows:,} rows in "
        f"{len(expected)} tables are what the posted changes make."
    )
    say(f"The files of OneLake are kept in {data_dir / 'fabric'}. Next: docs/operate/emulator.md.")
    return 0


def run(client: GatewayClient, landing_zone: Path, mirror: Path | None, changes: int) -> None:
    """Post everything, wait for publication and compare. Raise DoesNotAddUp or MirrorDiffers for any difference."""
    expected: dict[str, list[Row]] = {}
    poster = Poster(client)
    post_samples(client, poster, expected)
    show_rejections(client)
    seconds = post_stream(client, poster, changes, expected)
    wait_until_published(client)
    landed = time.monotonic()
    files = verify(landing_zone, expected)
    show_landing_zone(landing_zone, expected)
    tables = table_states(client)
    status_grid(tables, console.width, wide=True).print(console)
    check_reconciliation(tables, expected)
    if mirror is not None:
        check_mirror(landing_zone, mirror, expected)
    rows = sum(len(rows) for rows in expected.values())
    if poster.interruptions:
        say(f"The gateway was interrupted {poster.interruptions} times; nothing was lost or landed twice.")
    sent, published = changes / (seconds.sent - seconds.began), changes / (landed - seconds.began)
    say(
        f"Accepted {sent:,.0f} changes/s (durable before each answer); published {published:,.0f} changes/s end to end."
    )
    console.print(
        f"[bold green]Everything adds up:[/bold green] {rows:,} rows in {files} files of {len(expected)} tables, "
        "each row once, in order, with its marker."
    )


def post_samples(client: GatewayClient, poster: Poster, expected: dict[str, list[Row]]) -> None:
    """Register the tables of the samples and post the samples. Add their rows to `expected`."""
    for name, wanted in SAMPLE_TABLES.items():
        register(client, name, wanted)
    count = 0
    for post in sample_posts():
        poster.post(post)
        expected.setdefault(post.table, []).extend(post.rows)
        count += 1
    say(f"Posted {count} sample messages of the Arcion and Replicate documentation.")


def register(client: GatewayClient, table: str, wanted: dict[str, Any]) -> None:
    """Register a table. Retry while the gateway is unavailable."""
    with_retries(lambda: client.put(f"/v1/tables/{table}", wanted))


def table_states(client: GatewayClient) -> list[dict[str, Any]]:
    """Return the status of every table."""
    found: list[dict[str, Any]] = with_retries(lambda: client.get("/v1/tables"))["tables"]
    return found


def show_rejections(client: GatewayClient) -> None:
    """Post invalid messages and show the answer: index, pointer and remedy. Raise DoesNotAddUp if one is accepted."""
    for source_format, body, code in REJECTED:
        try:
            with_retries(partial(client.post_changes, source_format, body))
        except RejectedByGateway as rejection:
            if rejection.code != code:
                raise
            first = rejection.errors[0]
            where = f"message {first['index']} at {first['pointer']}"
            say(f"Rejected, as it must be: {first['code']} in {where}: {first['detail']}.")
            console.print(f"  Remedy: {rejection.remedy}", style="dim")
        else:
            raise DoesNotAddUp(f"a request that must be rejected with {code} was accepted")


class Times:
    """The start of the stream, and when its last request was durable, by `time.monotonic()`."""

    began = sent = 0.0


def post_stream(client: GatewayClient, poster: Poster, changes: int, expected: dict[str, list[Row]]) -> Times:
    """Post the stream of changes over three tables. Add its rows to `expected`, and return when it began and ended."""
    tables = stream_tables()
    for table in tables:
        if table.source_format == "arcion":
            columns: list[dict[str, Any]] = [
                {"name": name, "type": declared} for name, declared in table.columns.items()
            ]
            columns[0]["nullable"] = False
            register(client, table.name, {"columns": columns, "key_columns": [columns[0]["name"]]})
    with_retries(lambda: client.post_changes("replicate", stock_metadata()))
    times = Times()
    times.began = time.monotonic()
    with progress() as bar:
        task = bar.add_task("Posting changes", total=changes)
        for post in stream(tables, changes, PER_POST):
            poster.post(post)
            expected.setdefault(post.table, []).extend(post.rows)
            bar.update(task, advance=post.changes)
    times.sent = time.monotonic()
    return times


def wait_until_published(client: GatewayClient) -> None:
    """Wait until every accepted row is published. Raise DoesNotAddUp after `MAX_PUBLISH_SECONDS` seconds."""
    deadline = time.monotonic() + MAX_PUBLISH_SECONDS
    with progress() as bar:
        task = bar.add_task("Publishing rows", total=None)
        while True:
            tables = table_states(client)
            accepted = sum(table["accepted"]["rows"] for table in tables)
            published = sum(table["published"]["rows"] for table in tables)
            bar.update(task, total=accepted, completed=published)
            if published == accepted:
                return
            if time.monotonic() > deadline:
                raise DoesNotAddUp(
                    f"{published:,} of {accepted:,} rows were published within {MAX_PUBLISH_SECONDS:.0f} s"
                )
            threading.Event().wait(0.1)


def verify(landing_zone: Path, expected: dict[str, list[Row]]) -> int:
    """Compare every landed row with the posted ones, and return the number of files. Raise DoesNotAddUp."""
    files = 0
    with console.status("Comparing the landing zone with what was posted …"):
        for table, wanted in expected.items():
            try:
                found = all_rows(landing_zone, table)
                for number, (want, have) in enumerate(zip_longest(wanted, found), start=1):
                    if want != have:
                        raise DoesNotAddUp(f"{table}: row {number} of the landing zone is not the row that was posted")
            except ValueError as error:
                raise DoesNotAddUp(str(error)) from error
            files += len(landing_files(table_folder(landing_zone, table)))
    return files


def check_reconciliation(tables: list[dict[str, Any]], expected: dict[str, list[Row]]) -> None:
    """Raise DoesNotAddUp unless the gateway counts the posted rows as accepted, staged and published."""
    for table in tables:
        rows = {table[stage]["rows"] for stage in ("accepted", "staged", "published")}
        if rows != {len(expected.get(table["table"], []))}:
            raise DoesNotAddUp(f"{table['table']}: accepted, staged, published and posted rows differ")


def check_mirror(landing_zone: Path, mirror: Path, expected: dict[str, list[Row]]) -> None:
    """Compare the mirrored tables with what was posted, and show one of them. Raise MirrorDiffers."""
    with console.status("Waiting for the mirror, and comparing its tables with what was posted …"):
        wait_until_mirrored(landing_zone, mirror, expected)
        rows = compare_mirror(mirror, expected)
    show_mirror(console, mirror, SHOWN_TABLE)
    say(f"Mirrored as Fabric does it: {rows:,} rows in {len(expected)} Delta tables are what the posted changes make.")


def show_landing_zone(landing_zone: Path, tables: Iterable[str]) -> None:
    """Print the landing zone as a tree, with the first rows of its files."""
    tree = Tree(f"[bold]{landing_zone}[/bold]")
    tree.add("_partnerEvents.json")
    for table in tables:
        folder = table_folder(landing_zone, table)
        branch = tree.add(str(folder.relative_to(landing_zone)))
        branch.add("_metadata.json")
        files = landing_files(folder)
        for file in files[:MAX_SHOWN_FILES]:
            rows = landing_rows(file)
            leaf = branch.add(f"{file.name}  {len(rows):,} rows, {file.stat().st_size:,} bytes")
            leaf.add(sample_grid(file, rows[:MAX_SHOWN_ROWS]))
        if len(files) > MAX_SHOWN_FILES:
            branch.add(f"… {len(files)} files in all")
    console.print(tree)


def sample_grid(file: Path, rows: list[Row]) -> Grid:
    """Return these rows of a file as a grid, the row marker first."""
    names = [name for name in pq.read_schema(file).names if name != ROW_MARKER]
    return rows_grid([ROW_MARKER, *names], rows)


def rows_grid(names: Iterable[str], rows: Iterable[Iterable[Any]]) -> Grid:
    """Return rows with these columns as a grid."""
    grid = Grid(box=None, header_style="dim", padding=(0, 1))
    for name in names:
        grid.add_column(name, no_wrap=True)
    for row in rows:
        grid.add_row(*("NULL" if value is None else str(value) for value in row))
    return grid


def progress() -> Progress:
    """Return a progress bar with count and time."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)


def say(text: str) -> None:
    """Print a line for the user."""
    console.print(text)


if __name__ == "__main__":
    sys.exit(main())
