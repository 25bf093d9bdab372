"""Topics and the rules of the file that match them: the table and the endpoint of each record.

A table template names groups of the topic's pattern, `topic`, `header.NAME`, `key`, or `key.MEMBER`:
`{schema}.{table}`, `{header.table}`. Invariant: the same record always has the same table.
"""

import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from app.bridge.kafka.records import RecordRejected

FORMATS: Final = ("arcion", "debezium", "replicate", "rows")
KEYED: Final = frozenset({"debezium", "replicate"})
"""Formats whose messages need the record's key."""

Start = Literal["earliest", "latest"] | datetime

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


@dataclass(frozen=True, slots=True)
class TopicRule:
    """One entry of `topics`."""

    name: str
    """The topic, or the pattern as written."""
    pattern: re.Pattern[str]
    is_pattern: bool
    source_format: str
    table: Template | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    value: str = "json"
    key: str = "auto"
    start: Start = "earliest"
    on_reject: str = "stop"
    tombstones: str = "delete"
    """For rows: `delete` the row of the key, or `ignore`."""
    partitions: int | None = None
    """The number of partitions that the operator has accepted."""

    @property
    def needs_order(self) -> bool:
        """Return True unless the rule only appends rows."""
        return not (self.source_format == "rows" and self.parameters.get("op") == "insert")

    def matches(self, topic: str) -> bool:
        """Return True if the topic is this rule's."""
        return self.pattern.fullmatch(topic) is not None

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
        found = self.pattern.fullmatch(topic)
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
    return next((rule for rule in sorted(rules, key=lambda rule: rule.is_pattern) if rule.matches(topic)), None)


def _of(name: str) -> bool:
    return name == "key" or "." in name
