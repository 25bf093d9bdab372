"""The commands printed in documents, and the answers printed below them."""

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

ANY: Final = "…"
"""Placeholder of a document for an answer that is not shown."""

_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ANSWER: Final = re.compile(r"^(\d{3}) (.*?)(?=^\d{3} |\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Answer:
    """The status of a call, and its body as JSON; None where the document does not show it."""

    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class Example:
    """Commands under a heading, and an answer for each call."""

    heading: str
    commands: str
    answers: list[Answer]

    def __str__(self) -> str:
        return self.heading


def shell_blocks(text: str) -> list[str]:
    """Return the commands of each `sh` block of a document."""
    return blocks(text, "sh")


def blocks(text: str, language: str) -> list[str]:
    """Return the content of each block of a document in one language."""
    return [content for written, content in _BLOCK.findall(text) if written == language]


def blocks_with_output(text: str) -> list[tuple[str, str | None]]:
    """Return the `sh` blocks of a document in order, each with the `text` block that follows it, if one does."""
    found = [block for block in _BLOCK.findall(text) if block[0] in ("sh", "text")]
    return [
        (content, following[1] if following is not None and following[0] == "text" else None)
        for (language, content), following in zip(found, [*found[1:], None], strict=True)
        if language == "sh"
    ]


def examples(document: Path) -> list[Example]:
    """Return the `sh` blocks of a document that are followed by a `text` block of answers, in order."""
    found = []
    for section in re.split(r"^#+ ", document.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        for (language, commands), (after, answers) in pairwise(_BLOCK.findall(section)):
            if language == "sh" and after == "text":
                found.append(Example(section.partition("\n")[0], commands, _answers(answers)))
    return found


def _answers(text: str) -> list[Answer]:
    return [
        Answer(int(status), None if body.strip() == ANY else json.loads(body)) for status, body in _ANSWER.findall(text)
    ]
