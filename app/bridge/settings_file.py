"""Read the YAML file of a bridge: values of the environment, sizes and durations, and every problem at once.

The text form of YAML is that of a table manifest: no implicit types, and each value knows its line and its path. So a
file with five mistakes is corrected in one round. Invariant: reading a file connects to nothing, and no error repeats
a key or a password.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import yaml

from app.client.table_manifest.yaml_text import Entry, Findings, Misplaced, read_yaml
from app.errors import Code, RejectedInput

__all__ = ["Entry", "Fields", "bytes_of", "choice_of", "fields_of", "read_file", "seconds_of", "whole_number"]

Value = TypeVar("Value")

_VARIABLE: Final = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SIZE: Final = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?")
_UNITS: Final = {None: 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_SECONDS: Final = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Fields:
    """The values of one mapping. `take` reads a value and notes its error, so that reading continues."""

    entry: Entry
    members: Mapping[str, Entry]

    def take(self, name: str, read: Callable[[Entry], Value], default: Value) -> Value:
        """Return the value under `name`; `default` when it is not given or not valid."""
        member = self.members.get(name)
        if member is None:
            return default
        try:
            return read(member)
        except Misplaced as error:
            member.findings.found.append(error)
            return default

    def check_one_of(self, *names: str) -> None:
        """Note an error unless exactly one of `names` is given."""
        given = [name for name in names if name in self.members]
        if len(given) != 1:
            found = f"{' and '.join(given)} are both given" if given else f"none of {', '.join(names)} is given"
            with self.entry.findings.noted():
                raise self.entry.wrong(Code.BAD_SETTING, found, f"Give exactly one of {', '.join(names)}.")


def read_file(path: Path, environment: Mapping[str, str]) -> Entry:
    """Return the document of a file, with `${NAME}` and `${NAME:-default}` replaced in its values; `$$` is a `$`.

    Unset variables are noted as findings. Raises RejectedInput `bad_request` for a file that cannot be read, and
    BadFile for one that is not YAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise RejectedInput(
            Code.BAD_REQUEST, f"{path} cannot be read: {reason}", remedy="Give the path of the bridge's YAML file."
        ) from None
    findings = Findings(path.name)
    root = read_yaml(text, findings, if_empty="Start from the example in the documentation of the bridge.")
    _replace(root, environment)
    return root


def fields_of(entry: Entry, known: tuple[str, ...], required: tuple[str, ...] = ()) -> Fields:
    """Return the values of a mapping; unknown keys are noted with the nearest known one, missing ones too."""
    members: dict[str, Entry] = {}
    with entry.findings.noted():
        members = entry.members(known)
    for name in required:
        if name not in members:
            with entry.findings.noted():
                raise entry.wrong(Code.BAD_SETTING, f"{name!r} is missing", f"Add `{name}:`.")
    return Fields(entry, members)


def bytes_of(least: int, most: int) -> Callable[[Entry], int]:
    """Return a reader of a size such as `4 MiB`, in bytes."""

    def read(entry: Entry) -> int:
        found = _SIZE.fullmatch(entry.text())
        if found is None:
            raise entry.wrong(Code.BAD_SETTING, f"{entry.text()!r} is not a size", "Write for example 4 MiB or 65536.")
        return _within(entry, int(found[1]) * _UNITS[found[2]], least, most, "bytes")

    return read


def seconds_of(least: float, most: float) -> Callable[[Entry], float]:
    """Return a reader of a duration such as `500 ms`, in seconds."""

    def read(entry: Entry) -> float:
        found = _DURATION.fullmatch(entry.text())
        if found is None:
            raise entry.wrong(
                Code.BAD_SETTING, f"{entry.text()!r} is not a duration", "Write for example 500 ms, 2 s or 5 m."
            )
        return _within(entry, float(found[1]) * _SECONDS[found[2]], least, most, "seconds")

    return read


def whole_number(least: int, most: int) -> Callable[[Entry], int]:
    """Return a reader of a whole number."""

    def read(entry: Entry) -> int:
        text = entry.text()
        if not re.fullmatch(r"\d{1,18}", text):
            raise entry.wrong(Code.BAD_SETTING, f"{text!r} is not a whole number", "Write digits only.")
        return _within(entry, int(text), least, most, "")

    return read


def choice_of(*choices: str) -> Callable[[Entry], str]:
    """Return a reader of one of `choices`."""
    return lambda entry: entry.choice(choices, Code.BAD_SETTING, "value")


_Number = TypeVar("_Number", int, float)


def _within(entry: Entry, value: _Number, least: _Number, most: _Number, unit: str) -> _Number:
    if not least <= value <= most:
        bounds = f"between {least:,} and {most:,} {unit}".strip()
        raise entry.wrong(Code.BAD_SETTING, f"{entry.text()!r} is out of range", f"Write a value {bounds}.")
    return value


def _replace(entry: Entry, environment: Mapping[str, str]) -> None:
    """Replace variables in every value below `entry`; keys stay as written."""
    if isinstance(entry.node, yaml.MappingNode):
        for member in entry.members().values():
            _replace(member, environment)
    elif isinstance(entry.node, yaml.SequenceNode):
        for item in entry.items():
            _replace(item, environment)
    elif isinstance(entry.node, yaml.ScalarNode) and "$" in entry.node.value:

        def value_of(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            if name is None:
                return "$"
            if name in environment:
                return environment[name]
            if default is not None:
                return str(default)
            remedy = f"Set {name}, or write ${{{name}:-default}}."
            unset = entry.wrong(Code.BAD_SETTING, f"the environment variable {name} is not set", remedy)
            entry.findings.found.append(unset)
            return "unset"

        entry.node.value = _VARIABLE.sub(value_of, entry.node.value)
