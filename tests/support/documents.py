"""The commands printed in documents, the answers printed below them, and a shell that runs them."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

ANY: Final = "…"
"""Placeholder of a document for an answer that is not shown."""

PROGRAMS: Final = Path(sys.executable).parent
"""Where the installed programs are; a shell finds them by name only where a document says that they are installed."""

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


def run_shell(
    commands: str,
    folder: Path,
    *,
    programs: Path | None = None,
    expected: int = 0,
    typed: str = "",
    **environment: str,
) -> str:
    """Run commands in one shell, which ends at the first that fails, and return what they print.

    `programs` is a folder whose programs the shell finds by name. Fail for another exit status than `expected`.
    """
    path = os.environ["PATH"] if programs is None else f"{programs}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-euc", commands],
        cwd=folder,
        env=os.environ | {"PATH": path} | environment,
        input=typed,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert ran.returncode == expected, ran.stdout + ran.stderr
    return ran.stdout


def follow_page(page: str, folder: Path) -> None:
    """Run the `sh` blocks of a page in one shell; fail if one prints something else than the page shows below it."""
    marker, steps = "@@@", blocks_with_output(page)
    script = "".join(f"{commands}\necho {marker}\n" for commands, _ in steps)
    *printed, _ = run_shell(script, folder, programs=PROGRAMS, COLUMNS="120").split(marker)
    for part, (_, shown) in zip(printed, steps, strict=True):
        assert shown is None or part.split() == shown.split()


def _answers(text: str) -> list[Answer]:
    return [
        Answer(int(status), None if body.strip() == ANY else json.loads(body)) for status, body in _ANSWER.findall(text)
    ]
