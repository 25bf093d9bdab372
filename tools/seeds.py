"""The requirements of the documents that the product was ordered from: the tables of docs/contribute/seeds.md.

`seeds.yaml` beside this module is the one list. It quotes each requirement and says whether it is met, where it is
described and which test fails if it no longer holds. A test compares the list with the pages and the tests it names.
"""

from collections import Counter
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

_LIST: Final = Path(__file__).with_suffix(".yaml")


class Verdict(StrEnum):
    """The verdict on a requirement."""

    MET = "met"
    OTHERWISE = "met otherwise"
    NOT_OURS = "not ours"
    NOT_BUILT = "not built yet"


class Requirement(BaseModel):
    """One requirement, in the words of its document."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int
    """Number within the document, from 1. It never changes: new requirements follow the others."""
    says: str
    verdict: Verdict = Verdict.MET
    how: str = ""
    """Explanation of how it is met, if its words do not say so; for each other verdict the reason."""
    page: str = ""
    """`page.md#heading` below docs/, where the behavior is described."""
    tests: tuple[str, ...] = ()
    """`tests/path.py::test_name`, with the name of a sample in brackets if the sample is the claim."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.verdict in (Verdict.MET, Verdict.OTHERWISE) and not (self.page and self.tests):
            raise ValueError(f"requirement {self.number} is {self.verdict}, so it needs a page and a test")
        if self.verdict is not Verdict.MET and not self.how:
            raise ValueError(f"requirement {self.number} is {self.verdict}, so it needs a reason in `how`")
        return self


class Document(BaseModel):
    """One source document and its requirements."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str = Field(pattern="[a-z]+")
    """Prefix of the numbers, as in `zone-7`."""
    title: str
    about: str
    requirements: tuple[Requirement, ...]


@cache
def read_documents() -> tuple[Document, ...]:
    """Return the documents in the order of the page. Raise ValidationError if an entry is incomplete."""
    return tuple(Document.model_validate(entry) for entry in yaml.safe_load(_LIST.read_text(encoding="utf-8")))


def seeds_tables() -> str:
    """Return the requirements as Markdown: a summary, then a heading and a table for each document."""
    lines = [
        "| document | requirements |" + "".join(f" {verdict} |" for verdict in Verdict),
        "|---|---|---|---|---|---|",
    ]
    sections = []
    for document in read_documents():
        counts = Counter(requirement.verdict for requirement in document.requirements)
        anchor = document.title.lower().replace(" ", "-")
        numbers = [len(document.requirements), *(counts[verdict] for verdict in Verdict)]
        lines.append(f"| [{document.title}](#{anchor}) | " + " | ".join(map(str, numbers)) + " |")
        sections.append(_section(document))
    return "\n\n".join(["\n".join(lines), *sections]) + "\n"


def _section(document: Document) -> str:
    lines = [f"## {document.title}", "", document.about, ""]
    lines += ["| number | the document says | here | described in | test |", "|---|---|---|---|---|"]
    for one in document.requirements:
        here = f"{one.verdict}: {one.how}" if one.how else str(one.verdict)
        page = f"[{one.page.partition('#')[0]}](../{one.page})" if one.page else ""
        tests = "<br>".join(_test_link(test) for test in one.tests)
        lines.append(f"| {document.key}-{one.number} | {one.says} | {here} | {page} | {tests} |")
    return "\n".join(lines)


def _test_link(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[`{name}`](../../{path})"
