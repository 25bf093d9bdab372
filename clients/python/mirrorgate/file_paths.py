"""Paths of the files that a tool writes: the table that a path names, the order of files, and unfinished names.

`mirrorgate send` and the bridge of object storage share these rules, so that a folder and a bucket with the same paths
are read alike. Paths are relative to the folder or prefix and use `/`. Nothing here reads a file.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final, Self

from mirrorgate.errors import Code, Misconfigured

UNFINISHED_NAMES: Final = (".*", "_*", "*~", "*.tmp", "*.temp", "*.part", "*.partial", "*.inprogress", "*.crdownload")
"""Name patterns that many tools use for files they are still writing, and for files without changes."""

_PACKED: Final = (".gz", ".gzip", ".zst", ".zstd")
_TOKEN: Final = re.compile(r"\{(?P<name>[^{}]*)\}|(?P<any>\*)|(?P<literal>[^{}*]+)|(?P<bad>.)", re.DOTALL)
_PLACEHOLDER: Final = re.compile(r"[a-z][a-z0-9_]*")
_VALUES: Final = {"mode": "snapshot|realtime", "op": "upsert|insert|delete"}
"""Values that a placeholder which becomes a parameter of the request can have."""
_UTF_8: Final = r"[^/\ud800-\udfff]+?"
"""Text of a segment that is UTF-8, as the name of a table has to be."""
_ANY_DEPTH: Final = ("**", "…", "...")
_EXAMPLE: Final = "Give a template such as '{schema}/{table}/…' or 'exports/{table}_*.csv'."


class FileOrder(StrEnum):
    """The order in which the files of a table are read."""

    NAME = "name"
    MODIFIED = "modified"
    LOAD_FIRST = "load-first"
    """By name, but names that start with LOAD first: Replicate's full load before its changes."""


def sort_key(order: FileOrder, path: str, modified: int) -> tuple[int, str]:
    """Return the key that sorts files into an order. Names compare as UTF-8 bytes do, as object stores list them."""
    match order:
        case FileOrder.NAME:
            return 0, path
        case FileOrder.MODIFIED:
            return modified, path
        case FileOrder.LOAD_FIRST:
            return int(not name_of(path).startswith("LOAD")), path


def name_of(path: str) -> str:
    """Return the last segment of a path."""
    return path.rpartition("/")[2]


def plain_name(path: str) -> str:
    """Return the last segment of a path in small letters, without the suffix of a compressed file."""
    name = name_of(path).lower()
    for suffix in _PACKED:
        name = name.removesuffix(suffix)
    return name


@dataclass(frozen=True, slots=True)
class FileNames:
    """The paths that hold changes. A pattern with a `/` is compared with the whole path, otherwise with the name."""

    only: Collection[str] = ("*",)
    ignored: Collection[str] = ()
    done_marker: str | None = None
    """Suffix of the marker files, which hold no changes."""

    def holds_changes(self, path: str) -> bool:
        """Return whether a file holds changes, going by its path."""
        if self.done_marker is not None and path.endswith(self.done_marker):
            return False
        if not all(self.is_open(folder) for folder in path.split("/")[:-1]):
            return False
        if _matches(path, UNFINISHED_NAMES) or _matches(path, self.ignored):
            return False
        return _matches(path, self.only)

    def is_open(self, folder: str) -> bool:
        """Return whether the files below a folder of this name can hold changes."""
        return bool(folder) and not folder.startswith((".", "_"))


def _matches(path: str, patterns: Collection[str]) -> bool:
    name = name_of(path)
    return any(fnmatchcase(path if "/" in pattern else name, pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class TablePath:
    """The facts of a file in its path: the table, and parameters of the request such as `mode`."""

    table: str | None
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A template of paths, such as `{schema}/{table}/…`.

    `{schema}` and `{table}` name the table. `{mode}` and `{op}` are parameters of the request, and any other name is
    matched and ignored. A placeholder takes as little as possible within one segment. `*` is any text within a
    segment, `**` any number of segments, and `…` or a `/` at the end everything below.
    """

    text: str
    pattern: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Compile a template. Raises Misconfigured `bad_setting`."""
        *folders, last = text.removeprefix("./").strip("/").split("/") + ([".."] if text.endswith("/") else [])
        names: list[str] = []
        pattern = ""
        for segment in folders:
            pattern += "(?:[^/]+/)*" if segment in _ANY_DEPTH else _segment(text, segment, names) + "/"
        pattern += ".+" if last in (*_ANY_DEPTH, "..") else _segment(text, last, names)
        if "table" not in names:
            raise _bad(text, "has no {table}")
        if last == "{table}":
            raise _bad(text, "ends with {table}, which would match the whole file name")
        return cls(text, re.compile(pattern))

    def match(self, path: str) -> TablePath | None:
        """Return what a path says, None if it does not match."""
        found = self.pattern.fullmatch(path)
        if found is None:
            return None
        values = found.groupdict()
        schema = values.get("schema")
        table = f"{schema}.{values['table']}" if schema else values["table"]
        return TablePath(table, {name: values[name] for name in _VALUES if name in values})


def first_match(templates: Collection[PathTemplate], path: str) -> TablePath | None:
    """Return what the first template that matches says about a path."""
    return next((found for template in templates if (found := template.match(path)) is not None), None)


def _segment(text: str, segment: str, names: list[str]) -> str:
    """Return the pattern of one segment, and note the placeholders in it."""
    if not segment or segment in (".", ".."):
        raise _bad(text, "has an empty segment")
    made, follows_placeholder = "", False
    for token in _TOKEN.finditer(segment):
        name = token["name"]
        if token["bad"] is not None or (name is not None and not _PLACEHOLDER.fullmatch(name)):
            raise _bad(text, f"cannot be read at {token[0]!r}")
        if name is not None and follows_placeholder:
            raise _bad(text, f"has nothing between two placeholders before {token[0]}")
        follows_placeholder = name is not None
        if name is None:
            made += "[^/]*" if token["any"] else re.escape(token[0])
        elif name in names:
            made += f"(?P={name})"
        else:
            names.append(name)
            made += f"(?P<{name}>{_VALUES.get(name, _UTF_8)})"
    return made


def _bad(text: str, what: str) -> Misconfigured:
    return Misconfigured(Code.BAD_SETTING, f"the path template {text!r} {what}", remedy=_EXAMPLE)
