"""`mirrorgate bridge kafka` and `bridge objects`: post messages to a gateway, each exactly once."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.extras import Distribution, require_extras
from mirrorgate.cli.console import ERRORS, INTERRUPTED, OUTPUT, print_json, say
from mirrorgate.cli.grid import Grid
from mirrorgate.cli.options import TO_USE, AsJson, Connection, named_values, with_connection
from mirrorgate.errors import Misconfigured, TemporarilyUnavailable
from mirrorgate.text import amount

if TYPE_CHECKING:
    from mirrorgate.http import GatewayClient
    from mirrorgate_bridge.objects.settings import ObjectsSettings
    from mirrorgate_bridge.objects.table import BridgeStatus

_BRIDGE: Final = Distribution(
    "mirrorgate-bridge",
    {
        "kafka": ("confluent_kafka", "fastavro", "prometheus_client"),
        "objects": ("obstore", "prometheus_client"),
    },
)
_END_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_REJECTED: Final = 1
_GAVE_UP: Final = 3


@with_connection
def objects(
    connection: Connection,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE",
            help="A folder, s3://bucket/prefix, gs://…, az://… or abfss://…, instead of --config.",
            show_default=False,
        ),
    ] = None,
    *,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The YAML file of the bridge.", show_default=False)
    ] = None,
    source_format: Annotated[
        str | None,
        typer.Option(
            "--format", help="SOURCE: arcion, replicate, replicate-files, rows or debezium.", show_default=False
        ),
    ] = None,
    table: Annotated[str | None, typer.Option(help="SOURCE: the table of all objects.", show_default=False)] = None,
    table_from_path: Annotated[
        list[str] | None,
        typer.Option(metavar="TEMPLATE", help="SOURCE: read the table from the path, as '{schema}/{table}/…'."),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            metavar="NAME=VALUE",
            help="SOURCE: a parameter of the requests, as mode=realtime. Repeatable.",
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="NAME=VALUE", help="SOURCE: an option of the store, as endpoint=http://…. Repeatable."
        ),
    ] = None,
    name: Annotated[
        str, typer.Option(help="SOURCE: name of the bridge at the gateway. Another name reads every object again.")
    ] = "objects",
    once: Annotated[bool, typer.Option("--once", help="Stop when nothing is left to read.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check the settings, the sources and the gateway. Nothing is sent.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Post the messages of files in a folder or objects in a bucket to the gateway, each exactly once and in order.

    It continues with what arrives until Ctrl-C or SIGTERM. A bucket requires the extra `objects`, a folder none.

    The gateway keeps the position of each table in the transaction of its data, so a killed bridge or a lost answer
    neither loses nor repeats a message. A file that is rejected stops its table; the other tables continue.

    Exit status: 0 everything was read (--once); 1 a table is stopped, or a setting is wrong; 3 the store or the
    gateway was unreachable; 130 ended by Ctrl-C or SIGTERM.

    For example:

        mirrorgate bridge objects ./changes --format arcion
        mirrorgate bridge objects --config objects.yaml --check
        mirrorgate bridge objects --config objects.yaml
        mirrorgate bridge objects s3://lake/arcion --format arcion --table-from-path '{schema}/{table}/…'
    """
    if (source is None) == (config is None):
        raise typer.BadParameter("give either a SOURCE or --config FILE")
    from mirrorgate.http import RejectedByGateway
    from mirrorgate.object_store import is_folder
    from mirrorgate.retrying import is_final
    from mirrorgate_bridge.objects.table import BridgeStatus

    if source is None or not is_folder(source):
        require_extras("bridge objects", "objects", of=_BRIDGE)
    if config is not None:
        from mirrorgate_bridge.objects.settings import read_settings

        settings = read_settings(config, os.environ)
        client = settings.gateway.client()
    else:
        client = connection.client()
        given = _Simple(source_format, table, table_from_path, parameters, options)
        settings = _of_url(str(source), name, client.url, given)
    if check:
        _check(settings, client)
        return
    status = BridgeStatus()
    try:
        with _stop_on_signals() as stop:
            is_interrupted = _run(settings, client, status, stop, once=once)
    except TemporarilyUnavailable as error:
        say(f"error {error.code}: {error.detail}\n  {error.remedy}", to=ERRORS)
        raise typer.Exit(_GAVE_UP) from error
    _report(status, as_json=as_json)
    if is_interrupted:
        sys.stdout.flush()
        os._exit(INTERRUPTED)  # Python would wait for a thread whose request takes longer than `stop.within`
    stops = [table_status.stop.error for table_status in status.tables if table_status.stop is not None]
    if any(is_final(error) or not isinstance(error, TemporarilyUnavailable | RejectedByGateway) for error in stops):
        raise typer.Exit(_REJECTED)
    if stops:
        raise typer.Exit(_GAVE_UP)


class _Simple:
    """The options that describe the only source, given by its URL."""

    def __init__(
        self,
        source_format: str | None,
        table: str | None,
        templates: list[str] | None,
        parameters: list[str] | None,
        options: list[str] | None,
    ) -> None:
        self.format = source_format
        self.table = table
        self.templates = templates or []
        self.parameters = named_values("--parameter", parameters or [])
        self.options = named_values("--option", options or [])


def _of_url(url: str, name: str, gateway_url: str, given: _Simple) -> "ObjectsSettings":
    """Return the settings of one source. Raises BadParameter."""
    from pydantic import ValidationError

    from mirrorgate.file_paths import PathTemplate
    from mirrorgate.object_store import folder_path, is_folder
    from mirrorgate_bridge.objects.settings import ObjectFormat, ObjectsSettings, SourceSettings
    from mirrorgate_bridge.settings_file import GatewaySettings

    if given.format not in set(ObjectFormat):
        raise typer.BadParameter(f"--format must be one of {', '.join(ObjectFormat)}")
    source_format = ObjectFormat(given.format)
    if given.table is not None and given.templates:
        raise typer.BadParameter("give either --table or --table-from-path")
    if source_format in (ObjectFormat.ROWS, ObjectFormat.REPLICATE_FILES) and not (given.table or given.templates):
        raise typer.BadParameter(f"--format {source_format} requires --table or --table-from-path")
    try:
        templates = tuple(PathTemplate.parse(text) for text in given.templates)
    except Misconfigured as error:
        raise typer.BadParameter(f"{error.detail}. {error.remedy}") from error
    if is_folder(url):
        url = str(Path(folder_path(url)).expanduser().resolve())  # the same name from any folder
    gateway = GatewaySettings.model_construct(url=gateway_url)  # the client is open, with its key
    poll = 1.0 if is_folder(url) else 10.0
    try:
        source = SourceSettings(
            url=url,
            format=source_format,
            options=given.options,
            table=given.table,
            table_from_path=templates,
            parameters=given.parameters,
        )
        return ObjectsSettings(name=name, gateway=gateway, sources=(source,), poll=poll, health=None)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "[key]")
        raise typer.BadParameter(f"{place} {first['msg']}. {first.get('ctx', {}).get('remedy', '')}") from error


def _check(settings: "ObjectsSettings", client: "GatewayClient") -> None:
    """Print what the sources hold. Raises the error of the first source or of the gateway."""
    from mirrorgate.object_store import open_store
    from mirrorgate_bridge.objects.engine import check_gateway, check_source

    grid = Grid(("source", "table", "objects"), right=("objects",))
    for source in settings.sources:
        found = check_source(source, open_store(source.url, source.options))
        for table, objects in sorted(found.tables.items()):
            grid.add(source.name, table, f"{objects:,}{' or more' if found.is_partial else ''}")
        if found.left_out:
            say(f"{source.name}: {amount(found.left_out, 'object')} left out, such as {found.example}", "yellow")
        if not found.tables:
            say(f"{source.name}: no object found at {found.url}", "yellow")
    grid.print(OUTPUT)
    with client:
        check_gateway(settings, client)
    say(f"{amount(len(settings.sources), 'source')} and the gateway at {settings.gateway.url}: no error found")


def _run(
    settings: "ObjectsSettings", client: "GatewayClient", status: "BridgeStatus", stop: threading.Event, *, once: bool
) -> bool:
    """Run the bridge; return whether a signal ended it."""
    from mirrorgate.object_store import open_store
    from mirrorgate.process_memory import collect_seldom, keep_freed_memory
    from mirrorgate_bridge.log import BridgeLog
    from mirrorgate_bridge.objects.engine import run
    from mirrorgate_bridge.objects.table import showing

    keep_freed_memory()
    collect_seldom()
    stores = {source.name: open_store(source.url, source.options) for source in settings.sources}
    with client, _health_port(settings, status) as port, showing(status, ERRORS):
        log = BridgeLog(settings.log)
        log.info("bridge_started", name=settings.name, sources=len(settings.sources), health_port=port)
        run(settings, stores, client, log, status, stop, once=once)
        log.info("bridge_ended", objects=sum(table.objects for table in status.tables))
    return stop.is_set()


@contextmanager
def _health_port(settings: "ObjectsSettings", status: "BridgeStatus") -> Iterator[int | None]:
    """Serve the health port of a bridge that has a file; its package is not needed otherwise."""
    if settings.health is None:
        yield None
        return
    from mirrorgate_bridge.health import Health, serving
    from mirrorgate_bridge.objects.metrics import registry_of

    with serving(Health(registry_of(status), status.to_json, status.reasons, lambda: True), settings.health) as port:
        yield port


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C or SIGTERM sets; a second signal ends the process at once."""
    stop = threading.Event()

    def end(number: int, _: object) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()
        say("Stopping after the answers to the requests under way. Press Ctrl-C again to stop immediately.", to=ERRORS)

    before = {number: signal.signal(number, end) for number in _END_SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(status: "BridgeStatus", *, as_json: bool) -> None:
    """Print what was sent, and why tables are stopped."""
    tables = sorted(status.tables, key=lambda table: (table.source, table.table))
    if as_json:
        print_json(status.to_json())
        return
    numbers = ("objects", "messages", "changes", "waiting")
    grid = Grid(("source", "table", *numbers, "state"), right=numbers)
    for table in tables:
        counts = (table.objects, table.messages, table.changes, table.waiting_objects)
        state = "" if table.stop is None else f"stopped: {table.stop.error.code}"
        grid.add(table.source, table.table, *(f"{count:,}" for count in counts), state)
    grid.print(OUTPUT)
    for table in tables:
        if table.stop is not None:
            at = f" at message {table.stop.message}" if table.stop.message is not None else ""
            where = f" {table.stop.key}{at}:" if table.stop.key else ""
            error = table.stop.error
            say(f"{table.table or table.source}:{where} {error.code}: {error.detail}\n  {error.remedy}", to=ERRORS)


def kafka(
    config: Annotated[Path, typer.Option("--config", "-c", help="The YAML file of the bridge.", show_default=False)],
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Check the file, then ask the gateway and the brokers for topics, tables and rights, and exit. "
            "Nothing is consumed or sent.",
        ),
    ] = False,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            "--skip",
            metavar="TOPIC/PARTITION@OFFSET",
            help="Leave out this one record, for example one that stopped its partition. Repeatable.",
        ),
    ] = None,
    start: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="TOPIC/PARTITION@OFFSET",
            help="Start of a partition whose log no longer has the position, for example of a recreated topic: an "
            "offset, `earliest` or `latest`; `*` is every partition. Has no effect on any other partition.",
        ),
    ] = None,
) -> None:
    """Post the records of Kafka topics to the gateway, each exactly once and in order. Requires the extra `kafka`.

    The gateway keeps the position of each partition in the transaction of its data. So a killed bridge, a rebalance or
    a lost answer neither loses nor repeats a record. Run several bridges with one group to share the partitions. Stop
    with Ctrl-C or SIGTERM: requests in flight are finished.

    A record that the gateway rejects stops its partition; the log and `/readyz` say which one, why and what to do.

    https://mirrorgate.github.io/mirrorgate/send/kafka/ explains the file of the bridge, with an example.

    For example:

        mirrorgate bridge kafka --config bridge.yaml --check
        mirrorgate bridge kafka --config bridge.yaml
    """
    require_extras("bridge kafka", "kafka", of=_BRIDGE)
    from mirrorgate_bridge.kafka.bridge import serve
    from mirrorgate_bridge.kafka.buffer import Choices
    from mirrorgate_bridge.kafka.cluster import check_connections, check_librdkafka
    from mirrorgate_bridge.kafka.settings import read_settings

    choices = Choices.parse(skip or (), start or ())
    settings = read_settings(config, os.environ)
    check_librdkafka(settings)
    if not check:
        serve(settings, choices)
        return
    say(f"{config}: no error found")
    findings = [*check_connections(settings)]
    for finding in findings:
        say(f"{'ok   ' if finding.is_good else 'error'} {finding.text}", None if finding.is_good else "red")
        if finding.remedy:
            say(f"      remedy: {finding.remedy}")
    if not all(finding.is_good for finding in findings):
        raise typer.Exit(1)


def add_commands(root: typer.Typer) -> None:
    """Add `bridge` to the command line."""
    bridge = typer.Typer(
        help="Read messages from Kafka or object storage and post them to a gateway, each exactly once.",
        no_args_is_help=True,
    )
    bridge.command("kafka")(kafka)
    bridge.command("objects")(objects)
    root.add_typer(bridge, name="bridge", rich_help_panel=TO_USE)
