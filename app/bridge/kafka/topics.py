"""Topics and the rules of the file that match them: the table and the endpoint of each record.

A table template names groups of the topic's pattern, `topic`, `header.NAME`, `key`, or `key.MEMBER`:
`{schema}.{table}`, `{header.table}`. Invariant: the same record always has the same table.
"""

import re
import string
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Final, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator

from app.bridge.kafka.records import RecordRejected
from app.bridge.settings_file import Problem, Section, own_names, whole_number, wrong

KEYED: Final = frozenset({"debezium", "replicate"})
"""Formats whose messages need the record's key."""

Start = Literal["earliest", "latest"] | datetime

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_OWN_PARAMETERS: Final = {
    "table": "Write it as `table` of the topic.",
    "on_reject": "Write it as `on_reject` of the topic.",
    "partition": "The bridge sends the number of the record's partition.",
    "dry_run": "A dry run stages nothing, so the bridge does not allow it.",
    "keyed": "The bridge sends the record's key as the format needs it.",
}
_FIELD: Final = re.compile(r"topic|key|key\.[^{}]+|header\.[^{}]+|[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Template:
    """The table of a record. `fields` are the names in braces."""

    text: str
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Read a template. Raises ValueError for one that is not well formed."""
        fields = []
        for _, name, form, conversion in string.Formatter().parse(text):
            if name is not None:
                if not _FIELD.fullmatch(name) or form or conversion:
                    raise ValueError(f"{{{name}}} is not a field of a table template")
                fields.append(name)
        return cls(text, tuple(fields))

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the fields that are groups of the topic's pattern."""
        return tuple(name for name in self.fields if name not in ("topic", "key") and "." not in name)

    @property
    def is_of_the_record(self) -> bool:
        """Return True if records of one topic can have different tables."""
        return any(name == "key" or "." in name for name in self.fields)


def _topic(text: str) -> str:
    if not _TOPIC.fullmatch(text):
        raise wrong(f"{text!r} is not a topic's name", "Write a regular expression as `pattern:`.")
    return text


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise wrong(
            f"is not a regular expression: {error}",
            r"Write for example 'cdc\.(?P<schema>\w+)\.(?P<table>\w+)', in single quotes. It has to match the whole "
            "name of a topic.",
        ) from None
    return text


def _template(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return Template.parse(given)
    except ValueError as error:
        raise wrong(str(error), "Write for example {schema}.{table}.") from None


def _start(given: Any) -> Any:
    if not isinstance(given, str) or given in ("earliest", "latest"):
        return given
    with suppress(ValueError):
        moment = datetime.fromisoformat(given)
        if moment.tzinfo is not None:
            return moment
    remedy = "Write for example 2026-11-01T00:00:00Z."
    raise wrong(f"{given!r} is neither earliest nor latest nor a time with its zone", remedy)


class TopicRule(Section):
    """One entry of `topics`."""

    topic: Annotated[str, AfterValidator(_topic)] | None = None
    """Name of one topic. Each rule has either `topic` or `pattern`."""
    pattern: Annotated[str, AfterValidator(_pattern)] | None = None
    """Regular expression of Python that matches the whole name. New topics are found within 15 seconds."""
    format: Literal["arcion", "debezium", "replicate", "rows"]
    """Format of the records, which decides the endpoint."""
    table: Annotated[Template, BeforeValidator(_template)] | None = None
    """Table of the records, required for `rows`; without it, the messages name their tables."""
    parameters: Mapping[Annotated[str, own_names(_OWN_PARAMETERS)], str] = {}
    """Query parameters of the endpoint, for example `op`, `layout`, `key_columns`, `timestamps`."""
    value: Literal["json", "avro", "json_schema"] = "json"
    """Encoding of the values. `avro` and `json_schema` have the ids of a registry; `avro` with `format: replicate`
    also reads Replicate's envelopes.
    """
    key: Literal["auto", "json", "text", "none", "avro", "json_schema"] = "auto"
    """Encoding of the keys. `auto` reads JSON, and a key that is not JSON as text."""
    start: Annotated[Start, BeforeValidator(_start)] = "earliest"
    """Start of a partition without a position: `earliest`, `latest` or a time such as `2026-11-01T00:00:00Z`."""
    on_reject: Literal["stop", "dead_letter", "skip_to_file"] = "stop"
    """Treatment of a record that the gateway rejects."""
    tombstones: Literal["delete", "ignore"] = "delete"
    """For `rows`: `delete` the row whose key columns are the record's key, or `ignore`."""
    partitions: Annotated[int, whole_number(1, 100_000)] | None = None
    """The number of partitions that you have accepted."""

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield what contradicts another value of the topic."""
        names = [name for name in ("topic", "pattern") if name in given]
        if len(names) != 1:
            found = "topic and pattern are both given" if names else "none of topic, pattern is given"
            yield (), wrong(found, "Give exactly one of topic, pattern.")
        kind, parameters = given.get("format"), given.get("parameters")
        if kind == "rows" and "table" not in given:
            yield (), wrong("rows name no table", "Add `table:`, for example `table: sales.orders`.")
        if "tombstones" in given and kind != "rows":
            is_parameter = kind == "debezium"
            remedy = "Write it among the `parameters`." if is_parameter else "Remove it: the format has own deletes."
            yield ("tombstones",), wrong("tombstones is a setting of rows", remedy)
        deletes = isinstance(parameters, Mapping) and parameters.get("tombstones") == "delete"
        if kind == "debezium" and given.get("key") == "none" and deletes:
            remedy = "Remove `key: none`, or write `tombstones: ignore` among the `parameters`."
            yield (), wrong("tombstones=delete needs the keys of the records, and key is none", remedy)
        yield from cls._unknown_groups(given)

    @classmethod
    def _unknown_groups(cls, given: Mapping[str, Any]) -> Iterator[Problem]:
        with suppress(ValueError, TypeError, re.error):
            groups = re.compile(given.get("pattern") or "").groupindex
            for name in Template.parse(given.get("table") or "").groups:
                if name not in groups:
                    known = ", ".join([*groups, "topic", "key", "key.MEMBER", "header.NAME"])
                    remedy = f"Name a group with (?P<{name}>…), or use one of {known}."
                    yield ("table",), wrong(f"{{{name}}} is not a group of the pattern", remedy)

    @property
    def name(self) -> str:
        """The topic, or the pattern as written."""
        return self.topic or self.pattern or ""

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The pattern of the topics' names."""
        return re.compile(re.escape(self.topic) if self.topic is not None else self.pattern or "")

    @property
    def needs_order(self) -> bool:
        """Return True unless the rule only appends rows."""
        return not (self.format == "rows" and self.parameters.get("op") == "insert")

    def matches(self, topic: str) -> bool:
        """Return True if the topic is this rule's."""
        return self.expression.fullmatch(topic) is not None

    def fixed_table(self, topic: str) -> str | None:
        """Return the table of every record of `topic`; None if the records decide or name it."""
        if self.table is None or self.table.is_of_the_record:
            return None
        return self._fill(topic, {})

    def record_table(self, topic: str, key: bytes | None, headers: Iterable[tuple[str, Any]] | None) -> str:
        """Return the table of one record. Raises RecordRejected if it lacks what the template names."""
        assert self.table is not None
        given = {name: self._record_field(name, key, dict(headers or ())) for name in self.table.fields if _of(name)}
        return self._fill(topic, given)

    def _fill(self, topic: str, given: Mapping[str, str]) -> str:
        assert self.table is not None
        found = self.expression.fullmatch(topic)
        values = {**(found.groupdict() if found else {}), **given, "topic": topic}
        parts = string.Formatter().parse(self.table.text)
        return "".join(text + ("" if name is None else values.get(name) or "") for text, name, _, _ in parts)

    def _record_field(self, name: str, key: bytes | None, headers: Mapping[str, Any]) -> str:
        kind, _, member = name.partition(".")
        value: Any = headers.get(member) if kind == "header" else None
        if kind == "key" and key is not None:
            try:
                value = msgspec.json.decode(key)
            except msgspec.DecodeError:
                value = key.decode(errors="replace")
            if member:
                value = value.get(member) if isinstance(value, dict) else None
        value = value.decode(errors="replace") if isinstance(value, bytes) else value
        if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
            raise RecordRejected(
                f"the record has no text {name!r}, which the table template names",
                "Correct `table` of the topic, or the producer of the record.",
            )
        return str(value)


def rule_of(topic: str, rules: Iterable[TopicRule]) -> TopicRule | None:
    """Return the first rule that matches; rules with a name are before those with a pattern."""
    return next((rule for rule in sorted(rules, key=lambda rule: rule.topic is None) if rule.matches(topic)), None)


def _of(name: str) -> bool:
    return name == "key" or "." in name
