"""Read YAML without implicit types: every value is text as written, and knows its line.

So `no`, `1.10` and `2026-01-01` are ordinary names. Tags, multiple documents and duplicate keys are rejected.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

import yaml

from mirrorgate.errors import Code, MirrorgateError, RejectedInput

_TEXT, _LIST, _MAPPING = (f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))
_TAGS: Final = frozenset({_TEXT, _LIST, _MAPPING})
_UNQUOTED: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


class BadFile(MirrorgateError):
    """A file with errors. `errors` has all of them, each with its line."""

    def __init__(self, findings: list["Misplaced"]) -> None:
        self.found, first = findings, findings[0]
        super().__init__(first.code, first.detail, remedy=first.remedy)
        self.errors: list[dict[str, Any]] = [
            {"code": one.code, "detail": f"{one.detail} ({one.remedy})"} for one in findings[1:]
        ]


class Misplaced(RejectedInput):
    """One error in a file, with its line."""


@dataclass
class Findings:
    """Errors of a file, collected so that all of them are reported at once."""

    file: str
    found: list[Misplaced] = field(default_factory=list)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Record an error of the block and continue after it."""
        try:
            yield
        except Misplaced as error:
            self.found.append(error)

    def check(self) -> None:
        """Raise BadFile if any error was found."""
        if self.found:
            raise BadFile(self.found)


@dataclass(frozen=True)
class YamlValue:
    """A value of the file with its line, and methods to read it as a certain type."""

    node: yaml.Node
    path: str
    findings: Findings
    line: int
    """The line, from 1; for a value with a key, that of the key."""

    def wrong(self, code: Code, detail: str, remedy: str | None = None) -> Misplaced:
        """Return an error about this value."""
        where = f"{self.findings.file}, line {self.line}"
        return Misplaced(code, f"{where}: {self.path}: {detail}" if self.path else f"{where}: {detail}", remedy=remedy)

    def text(self) -> str:
        """Return the value as text."""
        if not isinstance(self.node, yaml.ScalarNode):
            raise self._is_no("one value", "Write a single value here.")
        self._check_tag()
        value = str(self.node.value)
        if not value and self.node.style is None:
            raise self.wrong(
                Code.BAD_REQUEST, "has no value", 'Add a value or remove the key; write "" for an empty string.'
            )
        return value

    def content(self, text: "Callable[[YamlValue], str] | None" = None) -> Any:
        """Return the value as mappings, lists and strings, each string as `text` reads it.

        What cannot be read is noted, and left out.
        """
        try:
            return self._content(text or YamlValue.text)
        except RecursionError:  # an alias inside its own anchor
            raise self.wrong(Code.BAD_REQUEST, "is nested too deeply", "Write it without an alias of itself.") from None

    def _content(self, text: "Callable[[YamlValue], str]") -> Any:
        if isinstance(self.node, yaml.SequenceNode):
            return [item._content(text) for item in self.items()]
        if not isinstance(self.node, yaml.MappingNode):
            return text(self)
        found = {}
        for name, member in self.members().items():
            with self.findings.noted():
                found[name] = member._content(text)
        return found

    def items(self) -> list["YamlValue"]:
        """Return the elements of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self._is_no("a list", "Write a list: [a, b], or one `- ` line for each.")
        self._check_tag()
        return [
            YamlValue(node, f"{self.path}[{number}]", self.findings, _line(node))
            for number, node in enumerate(self.node.value)
        ]

    def members(self, known: Collection[str] | None = None, required: Collection[str] = ()) -> dict[str, "YamlValue"]:
        """Return the values of a mapping by key. With `known`, any other key is an error."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self._is_no("a mapping", "Write `key: value`, one per line.")
        self._check_tag()
        members: dict[str, YamlValue] = {}
        for key, node in self.node.value:
            name = YamlValue(key, self.path, self.findings, _line(key)).text()
            member = YamlValue(node, _below(self.path, name), self.findings, _line(key))
            with self.findings.noted():
                if name in members:
                    first = members[name].line
                    raise member.wrong(Code.DUPLICATE_MEMBER, f"is already on line {first}", "Write it once.")
                members[name] = member
                if known is not None and name not in known:
                    raise member.wrong(Code.BAD_REQUEST, "unknown key", did_you_mean(name, known))
        for name in required:
            if name not in members:
                raise self.wrong(Code.BAD_REQUEST, f"{name!r} is missing", f"Add `{name}:`.")
        return {name: member for name, member in members.items() if known is None or name in known}

    def below(self, path: list[str]) -> "YamlValue":
        """Return the value at a path below this one, or the last one that exists on the way."""
        if not path:
            return self
        if isinstance(self.node, yaml.MappingNode):
            found = self.members().get(path[0])
        else:
            found = self.items()[int(path[0])] if isinstance(self.node, yaml.SequenceNode) else None
        return self if found is None else found.below(path[1:])

    def _is_no(self, wanted: str, remedy: str) -> Misplaced:
        return self.wrong(Code.BAD_REQUEST, f"is not {wanted}", remedy)

    def _check_tag(self) -> None:
        if self.node.tag not in _TAGS:
            raise self.wrong(Code.BAD_REQUEST, "has a tag", "Remove the word that starts with !.")


def read_yaml(text: str, findings: Findings, *, if_empty: str = "Write `tables:` and a list of tables.") -> YamlValue:
    """Return the only document of a string. Raises BadFile for a string that is not exactly one YAML document.

    `if_empty` is the remedy for an empty string.
    """
    try:
        node = yaml.compose(text, yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        detail = f"{findings.file}, line {line}: not a single YAML document: {error.problem or error.context}"
        remedy = "Correct the line. A file holds one document, without `---` inside."
        raise BadFile([Misplaced(Code.BAD_REQUEST, detail, remedy=remedy)]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        detail = f"{findings.file}, line {line}: a character that YAML does not allow"
        raise BadFile([Misplaced(Code.BAD_REQUEST, detail, remedy="Remove it, or write it as an escape.")]) from None
    except RecursionError:
        detail = f"{findings.file}: nested too deeply"
        raise BadFile(
            [Misplaced(Code.BAD_REQUEST, detail, remedy="Compare it with an example of the documentation.")]
        ) from None
    if node is None:
        detail = f"{findings.file}: the file is empty"
        raise BadFile([Misplaced(Code.BAD_REQUEST, detail, remedy=if_empty)])
    return YamlValue(node, "", findings, _line(node))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _below(path: str, name: str) -> str:
    shown = name if name and _UNQUOTED.issuperset(name) else repr(name)
    return f"{path}.{shown}" if path else shown


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return the remedy for a name that is none of `known`."""
    close = get_close_matches(name, known, 1, 0.6) or get_close_matches(name.lower(), known, 1, 0.6)
    choices = f"Known are {', '.join(known)}."
    return f"Did you mean {close[0]}? {choices}" if close else choices
