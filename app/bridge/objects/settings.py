"""The file of the bridge of object storage: its sections, defaults, and what is checked before anything connects."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from app.bridge.common_settings import (
    GatewaySettings,
    HealthSettings,
    LogSettings,
    read_gateway,
    read_health,
    read_log,
    read_name,
)
from app.bridge.objects.formats import Content, ObjectFormat
from app.bridge.objects.store import shows_growing_objects
from app.bridge.settings_file import (
    Entry,
    Fields,
    bytes_of,
    choice_of,
    fields_of,
    read_file,
    seconds_of,
    whole_number,
)
from app.client.file_paths import FileNames, FileOrder, PathTemplate
from app.errors import Code, Misconfigured

_SECTIONS: Final = ("name", "gateway", "sources", "batch", "poll", "recheck", "stop", "health", "log")
_SOURCE_KEYS: Final = (
    "url",
    "name",
    "options",
    "format",
    "content",
    "table",
    "table_from_path",
    "parameters",
    "key_columns",
    "order",
    "only",
    "ignore",
    "settle",
    "done_marker",
    "on_reject",
    "late",
)
_OWN_PARAMETERS: Final = {
    "table": "Write it as `table` or `table_from_path` of the source.",
    "on_reject": "Write it as `on_reject` of the source.",
    "dry_run": "A dry run stages nothing, so the bridge does not allow it.",
}
DEFAULT_SETTLE_SECONDS: Final = 5.0


@dataclass(frozen=True)
class SourceSettings:
    """One source. `name` is part of the producers' names at the gateway: never change it."""

    url: str
    name: str
    format: ObjectFormat = ObjectFormat.ROWS
    options: Mapping[str, str] = field(default_factory=dict)
    content: Content = Content.AUTO
    table: str | None = None
    templates: tuple[PathTemplate, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    key_columns: tuple[str, ...] = ()
    order: FileOrder = FileOrder.NAME
    names: FileNames = field(default_factory=FileNames)
    settle_seconds: float = 0.0
    on_reject: str = "stop"
    late: str = "stop"


@dataclass(frozen=True)
class BatchSettings:
    """When a request is cut."""

    max_bytes: int = 8 * 2**20
    max_messages: int | None = None


@dataclass(frozen=True)
class StopSettings:
    """How long requests in flight may take at the end, and when a stopped table is tried again."""

    within: float = 30.0
    retry_after: float = 60.0


@dataclass(frozen=True)
class ObjectsSettings:
    """The whole file. Invariant: it has been checked without a connection."""

    name: str
    gateway: GatewaySettings
    sources: tuple[SourceSettings, ...]
    batch: BatchSettings = field(default_factory=BatchSettings)
    poll_seconds: float = 10.0
    recheck_seconds: float = 600.0
    """Seconds between two complete listings, which find late and changed objects."""
    stop: StopSettings = field(default_factory=StopSettings)
    health: HealthSettings | None = field(default_factory=HealthSettings)
    """None for a bridge without a health port."""
    log: LogSettings = field(default_factory=LogSettings)


def read_settings(path: Path, environment: Mapping[str, str]) -> ObjectsSettings:
    """Return the settings of a file. Raises BadFile with every problem, each with its line and path in the file."""
    root = read_file(path, environment)
    fields = fields_of(root, _SECTIONS, ("name", "gateway", "sources"))
    settings = ObjectsSettings(
        name=fields.take("name", read_name, ""),
        gateway=fields.take("gateway", read_gateway, GatewaySettings()),
        sources=fields.take("sources", _sources, ()),
        batch=fields.take("batch", _batch, BatchSettings()),
        poll_seconds=fields.take("poll", seconds_of(0.01, 86_400), 10.0),
        recheck_seconds=fields.take("recheck", seconds_of(0.01, 86_400 * 7), 600.0),
        stop=fields.take("stop", _stop, StopSettings()),
        health=fields.take("health", read_health, HealthSettings()),
        log=fields.take("log", read_log, LogSettings()),
    )
    root.findings.check()
    return settings


def default_name(url: str) -> str:
    """Return the name of a source that has none: its address without characters that names do not have."""
    return re.sub(r"[^!-.0-~]+", "-", url.partition("?")[0].rstrip("/").replace("://", "-").replace("/", "-"))[-100:]


def default_settle(url: str, done_marker: str | None) -> float:
    """Return the seconds without a change after which an object is complete."""
    return DEFAULT_SETTLE_SECONDS if done_marker is None and shows_growing_objects(url) else 0.0


def default_order(source_format: ObjectFormat) -> FileOrder:
    """Return the order of a source: Replicate's full loads have names that sort after those of its changes."""
    return FileOrder.LOAD_FIRST if source_format is ObjectFormat.REPLICATE_FILES else FileOrder.NAME


def _sources(entry: Entry) -> tuple[SourceSettings, ...]:
    sources: list[SourceSettings] = []
    for item in entry.items():
        with entry.findings.noted():
            source = _source(item)
            if any(other.name == source.name for other in sources):
                remedy = "Give each source its own `name`."
                raise item.wrong(Code.BAD_SETTING, f"the source {source.name!r} is already declared", remedy)
            sources.append(source)
    if not entry.items():
        raise entry.wrong(Code.BAD_SETTING, "has no source", "Add at least one `- url:` with its `format:`.")
    return tuple(sources)


def _source(entry: Entry) -> SourceSettings:
    fields = fields_of(entry, _SOURCE_KEYS, ("url", "format"))
    url = fields.take("url", Entry.text, "")
    source_format = ObjectFormat(fields.take("format", choice_of(*ObjectFormat), "rows"))
    done_marker = fields.take("done_marker", Entry.text, None)
    source = SourceSettings(
        url=url,
        name=fields.take("name", read_name, default_name(url)),
        format=source_format,
        options=fields.take("options", _texts, {}),
        content=Content(fields.take("content", choice_of(*Content), "auto")),
        table=fields.take("table", Entry.text, None),
        templates=fields.take("table_from_path", _templates, ()),
        parameters=fields.take("parameters", _parameters, {}),
        key_columns=fields.take("key_columns", _list, ()),
        order=FileOrder(fields.take("order", choice_of(*FileOrder), default_order(source_format).value)),
        names=FileNames(fields.take("only", _list, ("*",)), fields.take("ignore", _list, ()), done_marker),
        settle_seconds=fields.take("settle", seconds_of(0, 86_400), default_settle(url, done_marker)),
        on_reject=fields.take("on_reject", choice_of("stop", "dead_letter"), "stop"),
        late=fields.take("late", choice_of("stop", "report"), "stop"),
    )
    _check_source(fields, source)
    return source


def _check_source(fields: Fields, source: SourceSettings) -> None:
    """Note what contradicts another setting."""
    entry, members = fields.entry, fields.members
    names_table = source.table is not None or bool(source.templates)
    problems = (
        (
            source.format in (ObjectFormat.ROWS, ObjectFormat.REPLICATE_FILES)
            and "format" in members
            and not names_table,
            f"{source.format} name no table",
            "Add `table: sales.orders` or `table_from_path: '{schema}/{table}/…'`.",
        ),
        (
            source.table is not None and bool(source.templates),
            "table and table_from_path are both given",
            "Give one of them.",
        ),
        (
            "settle" in members and "done_marker" in members,
            "settle and done_marker are both given",
            "Give one of them.",
        ),
        (
            bool(source.key_columns) and source.format is not ObjectFormat.REPLICATE_FILES,
            "key_columns is a setting of replicate-files",
            "Remove it.",
        ),
    )
    for is_wrong, detail, remedy in problems:
        if is_wrong:
            with entry.findings.noted():
                raise entry.wrong(Code.BAD_SETTING, detail, remedy)


def _templates(entry: Entry) -> tuple[PathTemplate, ...]:
    try:
        return tuple(PathTemplate.parse(text) for text in _list(entry))
    except Misconfigured as error:
        raise entry.wrong(error.code, error.detail, error.remedy) from None


def _list(entry: Entry) -> tuple[str, ...]:
    """Read a list of texts; a single text is a list of one."""
    if type(entry.node).__name__ == "ScalarNode":
        return (entry.text(),)
    return tuple(item.text() for item in entry.items())


def _texts(entry: Entry) -> dict[str, str]:
    return {name: value.text() for name, value in entry.members().items()}


def _parameters(entry: Entry) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in entry.members().items():
        with entry.findings.noted():
            if name in _OWN_PARAMETERS:
                raise value.wrong(Code.BAD_SETTING, "is set by the bridge", _OWN_PARAMETERS[name])
            given[name] = value.text()
    return given


def _batch(entry: Entry) -> BatchSettings:
    fields = fields_of(entry, ("max_bytes", "max_messages"))
    return BatchSettings(
        fields.take("max_bytes", bytes_of(1024, 64 * 2**20), BatchSettings.max_bytes),
        fields.take("max_messages", whole_number(1, 500_000), None),
    )


def _stop(entry: Entry) -> StopSettings:
    fields = fields_of(entry, ("within", "retry_after"))
    return StopSettings(
        fields.take("within", seconds_of(0, 600), StopSettings.within),
        fields.take("retry_after", seconds_of(0.01, 86_400), StopSettings.retry_after),
    )
