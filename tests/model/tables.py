"""A random table: its columns, a combination of options that docs/reference/options.md allows, and its landed rows."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from hashlib import sha256
from random import Random
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from tests.model.values import KEY_KINDS, KINDS, landed_value, random_value
from tests.support.forms.form import ANY, Facts, Key, SourceTable
from tests.support.forms.values import ARROW, Column, Row, as_text

MASK_SECRET: Final = "a-secret-only-for-the-random-model-of-the-gateway"
ZONES: Final = ("UTC", "UTC", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
NAMES: Final = ("id", "KEY 2", "com,ma", "ünï", "a/b~c", 'quo"te', "colon:x", "plain", "é.dot", "last", "n10", "n11")
AUDITS: Final = {
    "operation": pa.string(), "source_timestamp": pa.timestamp("us", "UTC"), "source_position": pa.string(),
    "accepted_at": pa.timestamp("us", "UTC"), "row_order": pa.int64(), "deleted": pa.bool_(),
}  # fmt: skip

Filter = Mapping[str, Any]


class OwnHash:
    """The hash of a text in one table, whose key nobody outside knows: always the same for the text."""

    __slots__ = ("_known", "_text")

    def __init__(self, text: str, known: dict[str, str]) -> None:
        self._text, self._known = text, known

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and len(other) == 64 and self._known.setdefault(self._text, other) == other

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"hash of {self._text!r}: {self._known.get(self._text)!r}"


@dataclass
class Spec(SourceTable):
    """A table of the source and its registration."""

    options: dict[str, Any]
    hashes: dict[str, str] = field(default_factory=dict)
    """Hashes of this table alone, as far as they have been seen."""

    @cached_property
    def keeps_images(self) -> bool:
        return bool({self.options.get("row_images"), self.options.get("partial_updates")} & {"on", "complete"})

    @cached_property
    def knows_rows(self) -> bool:
        """Whether inserts of keys that have a row, and key changes, are decided by row images."""
        return self.options.get("partial_updates") == "complete" or self.flags_deletes

    @cached_property
    def completes(self) -> bool:
        return self.options.get("partial_updates") == "complete"

    @cached_property
    def flags_deletes(self) -> bool:
        return self.options.get("deletes") == "flag"

    @cached_property
    def is_history(self) -> bool:
        return self.options.get("history") == "append_only"

    @property
    def appends(self) -> bool:
        """Whether every landing row is a row of its own."""
        return self.is_history or not self.keys

    @property
    def registration(self) -> dict[str, Any]:
        columns = [
            {"name": column.name, "type": column.declared, "nullable": column.nullable} for column in self.columns
        ]
        return {"columns": columns, "key_columns": self.keys, "options": self.options}

    @property
    def landed_types(self) -> dict[str, pa.DataType]:
        """Return the columns of the files by name."""
        renamed = self.options.get("rename", {})
        types = {renamed.get(column.name, column.name): column.arrow for column in self.columns}
        types |= {name: ARROW[of["type"]] for name, of in self.options.get("constants", {}).items()}
        types |= dict.fromkeys(self.options.get("derive", {}), pa.string())
        return types | {name: AUDITS[audit] for audit, name in self.options.get("audit_columns", {}).items()}

    def landed_key(self, key: Key) -> Key:
        """Return the key as the files have it."""
        return tuple([self._masked(name, value) for name, value in zip(self.keys, key, strict=True)])

    def landed(self, row: Row, facts: Facts, *, is_deleted: bool = False, only_key: bool = False) -> Row:
        """Return the landing row; with `only_key` all other columns of the source are NULL."""
        renamed = self.options.get("rename", {})
        made = {}
        for column in self.columns:
            name = column.name
            value = None if only_key and name not in self.keys else self._masked(name, row.get(name))
            made[renamed.get(name, name)] = landed_value(value)
        for name, of in self.options.get("constants", {}).items():
            made[name] = int(of["value"]) if of["type"] == "int32" else of["value"]
        for name, text in self.options.get("derive", {}).items():
            value = row.get(text[text.index('"') + 1 : text.rindex('"')].replace('""', '"'))
            made[name] = None if only_key else "none" if value is None else f"<{value}>"
        told = {"operation": facts.operation, "source_timestamp": facts.timestamp, "source_position": facts.position,
                "accepted_at": ANY, "row_order": ANY, "deleted": is_deleted}  # fmt: skip
        for audit, name in self.options.get("audit_columns", {}).items():
            made[name] = told[audit]
        return made

    def matches(self, row: Row) -> bool:
        """Return whether the filter mirrors the row."""
        return self.options.get("filter") is None or _matches(self.options["filter"], row, self._kinds)

    @cached_property
    def _kinds(self) -> dict[str, str]:
        return {column.name: column.kind for column in self.columns}

    def _masked(self, name: str, value: Any) -> Any:
        mask = self.options.get("masks", {}).get(name)
        if mask is None or value is None:
            return value
        if mask["method"] == "hash":
            if "group" not in mask:
                return OwnHash(value, self.hashes)
            key = hmac.digest(MASK_SECRET.encode(), f"group:{mask['group']}".encode(), sha256)
            return hmac.digest(key, value.encode(), sha256).hex()
        return value[: mask["characters"]] if mask["method"] == "truncate" else None


def _matches(condition: Filter, row: Row, kinds: Mapping[str, str]) -> bool:
    for combined, together in (("all", all), ("any", any)):
        if combined in condition:
            return together([_matches(inner, row, kinds) for inner in condition[combined]])
    value, op, kind = row[condition["column"]], condition["op"], kinds[condition["column"]]
    if op in ("is_null", "is_not_null"):
        return bool(value is None) == (op == "is_null")
    if value is None:
        return False
    wanted = [_read(text, kind) for text in condition.get("values", [condition.get("value")])]
    if kind == "string":
        value, wanted = value.encode(), [text.encode() for text in wanted]
    if op in ("in", "not_in"):
        return bool(value in wanted) == (op == "in")
    (other,) = wanted
    return bool({"=": value == other, "!=": value != other, "<": value < other, "<=": value <= other,
                 ">": value > other, ">=": value >= other}[op])  # fmt: skip


def _read(text: str, kind: str) -> Any:
    if kind == "timestamp":
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    return text if kind == "string" else int(Decimal(text))


def random_spec(rng: Random, name: str) -> Spec:
    """Return a table whose options fit each other."""
    zone, base64 = ZoneInfo(rng.choice(ZONES)), rng.random() < 0.3
    saturates, key_count = rng.random() < 0.3, rng.choice((0, 1, 1, 1, 1, 1, 2))
    names = rng.sample(NAMES[:-2], rng.randrange(key_count + 1, 10))

    def column(at: int, title: str) -> Column:
        kind = rng.choice(KEY_KINDS if at < key_count else KINDS)
        precision = rng.randrange(8 if at < key_count else 1, 39)
        declared = f"decimal({precision},{rng.randrange(min(precision, 12))})" if kind == "decimal" else kind
        nullable = at >= key_count and rng.random() < 0.85
        return Column(title, kind, zone, nullable, "base64" if base64 else "hex", saturates, declared)

    columns = [column(at, title) for at, title in enumerate(names)]
    options: dict[str, Any] = {"source_timezone": zone.key, "binary_encoding": "base64" if base64 else "hex"}
    options["out_of_range"] = "saturate" if saturates else "reject"
    if types := {column.name: {"type": "json"} for column in columns if column.kind == "json"}:
        options["columns"] = types  # metadata messages have no such type
    spec = Spec(name, columns, names[:key_count], options)
    _choose_options(rng, spec)
    if rng.random() < 0.25:
        kind = rng.choice(KINDS[:6])
        spec.excluded = [Column("not wanted", kind, zone, declared=kind)]
        options["exclude"] = ["not wanted"]
    return spec


def _choose_options(rng: Random, spec: Spec) -> None:
    options, has_keys = spec.options, bool(spec.keys)
    options["seed_file"] = rng.random() < 0.5
    options["incomplete_inserts"] = rng.choice(("land_null", "land_null", "reject"))
    options["new_columns"] = rng.choice(("reject", "add_as_string"))
    marks = {column.name: column for column in spec.columns}
    kind = rng.choice(("plain", "plain", "filter", "flag", "history")) if has_keys else "plain"
    if rng.random() < 0.45:
        wanted = rng.sample([*AUDITS][:5], rng.randrange(1, 6))
        options["audit_columns"] = {audit: f"_{audit}" for audit in wanted}
    if has_keys:
        options["partial_updates"] = rng.choice(("complete", "complete", "reject"))
        options["row_images"] = rng.choice(("on", "off"))
        options["reload"] = rng.choice(("reject", "upsert"))
        options["insert_marker"] = rng.choice(("insert", "insert", "upsert"))
        plain = kind == "plain" and options["insert_marker"] == "insert"
        options["initial_load"] = "without_marker" if plain and rng.random() < 0.3 else "with_marker"
    if kind == "flag":
        options |= {"deletes": "flag", "row_images": "on"}
    if kind == "history":
        options["history"] = "append_only"
    if kind == "flag" or (kind == "history" and rng.random() < 0.5):
        options["audit_columns"] = options.get("audit_columns", {}) | {"deleted": "_deleted"}
    if rng.random() < 0.3:
        source = rng.choice(spec.columns).name
        options["rename"] = {source: f"{source} new"}
    if rng.random() < 0.25:
        options["constants"] = {"region": {"type": "string", "value": "EU, ü"}}
        if rng.random() < 0.5:
            options["constants"]["number"] = {"type": "int32", "value": "7"}
    if rng.random() < 0.3:
        options["masks"] = _masks(rng, spec, marks)
    elif rng.random() < 0.5:
        options["dead_letters"] = "accept"
        texts = [column.name for column in spec.columns if column.kind == "string"]
        if texts:
            quoted = rng.choice(texts).replace('"', '""')
            options["derive"] = {"marked text": f"coalesce('<' || \"{quoted}\" || '>', 'none')"}
    elif has_keys and kind == "plain" and rng.random() < 0.3:
        options["source_order"] = "enforce"
    if kind == "filter" and (condition := _filter(rng, spec)):
        options["filter"] = condition


def _masks(rng: Random, spec: Spec, columns: Mapping[str, Column]) -> dict[str, Any]:
    masks: dict[str, Any] = {}
    for name, column in columns.items():
        ways: list[dict[str, Any]] = []
        if column.kind == "string":
            ways.append({"method": "hash", "group": rng.choice(("people", "places"))})
            ways += [{"method": "hash"}] * (name not in spec.keys)  # a key must be told in advance
        if name not in spec.keys:
            ways += [{"method": "truncate", "characters": rng.randrange(1, 9)}] if column.kind == "string" else []
            ways += [{"method": "null"}] if column.nullable else []
        if ways and rng.random() < 0.5:
            masks[name] = rng.choice(ways)
    return masks


def _filter(rng: Random, spec: Spec) -> Filter | None:
    masked = spec.options.get("masks", {})
    usable = [column for column in spec.columns if column.name not in masked]
    wanted = [c for c in usable if c.kind in ("int16", "int32", "int64", "string", "timestamp")]

    def compare() -> Filter:
        column = rng.choice(wanted) if wanted else rng.choice(usable)
        if column not in wanted or rng.random() < 0.15:
            return {"column": column.name, "op": rng.choice(("is_null", "is_not_null"))}
        op = rng.choice(("=", "!=", "<", "<=", ">", ">=", "<", ">", "in", "not_in"))
        texts = [_literal(rng, column) for _ in range(2)]
        return {"column": column.name, "op": op} | ({"values": texts} if "in" in op else {"value": texts[0]})

    if not usable:
        return None
    if rng.random() < 0.4:
        return {rng.choice(("all", "any")): [compare(), {rng.choice(("all", "any")): [compare(), compare()]}]}
    return compare()


def _literal(rng: Random, column: Column) -> str:
    plain = Column(column.name, column.kind, ZoneInfo("UTC"), nullable=False)
    value = random_value(rng, plain)
    if column.kind == "timestamp":
        return str(value.replace(tzinfo=None).isoformat(" "))
    return as_text(value, plain, rng)


def added_column(spec: Spec, at: int, kind: str, declared: str) -> Column:
    """Return a column that the table gets later."""
    first = spec.columns[0]
    return Column(NAMES[-2:][at], kind, first.zone, True, first.encoding, first.saturates, declared)


def described(options: Mapping[str, Any]) -> Sequence[str]:
    """Return the options that differ from the defaults of most tables, for messages."""
    usual = ("UTC", "hex", "reject", "off", "insert", "with_marker", "land_null", "apply")
    return [f"{name}={value}" for name, value in options.items() if value not in usual]
