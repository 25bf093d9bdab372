"""Layouts: where messages of a custom format have what Replicate's messages have.

Replicate lets a task rename, flatten or delete the sections of its messages ("Message Format" in Qlik's help), and
pipelines between it and the gateway do the same. A layout is stored by name and maps such a message back: each of its
texts is a place, see `places`. A part that a layout does not name is not read.

Invariant: a layout that was accepted reads every message or rejects it; it never fails otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from app.errors.json_pointer import pointer_to
from app.formats.replicate.forms.places import Place

MAX_OPERATIONS: Final = 64
MAX_OPERATION_CHARACTERS: Final = 64

PARTS: Final = {"data": "data", "before_data": "beforeData", "key": "key", "headers": "headers"}
"""Parts that have columns or headers inside, by what Replicate calls them."""

HEADERS: Final = {
    "operation": "operation",
    "change_sequence": "changeSequence",
    "change_mask": "changeMask",
    "column_mask": "columnMask",
    "external_schema_id": "externalSchemaId",
    "transaction_last_event": "transactionLastEvent",
}
"""The headers that rows depend on, by what Replicate calls them."""

NAMES: Final = ("schema_id", "schema", "table")
"""Texts that identify the table."""

OPERATIONS: Final = ("insert", "update", "delete", "refresh")


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout that was checked. `places` has each part and each header by its name in the layout."""

    places: Mapping[str, Place]
    operations: Mapping[str, str]
    """By what messages call them, casefolded: Replicate's names in capitals."""
    document: Mapping[str, Any]
    """The layout as it is stored."""


class LayoutProblem(NamedTuple):
    """What is wrong with a layout, and where: the JSON Pointer of the part."""

    pointer: str
    detail: str


class WrongLayout(ValueError):
    """A layout that is not valid, with everything that is wrong with it."""

    def __init__(self, problems: Sequence[LayoutProblem]) -> None:
        super().__init__("not a valid layout")
        self.problems = tuple(problems)


def read_layout(document: Any) -> Layout:
    """Check a layout as JSON. Raises WrongLayout."""
    if not isinstance(document, dict):
        raise WrongLayout([LayoutProblem("", "a layout must be an object")])
    problems: list[LayoutProblem] = []
    places: dict[str, Place] = {}
    operations: dict[str, str] = {}
    for name, written in document.items():
        pointer = pointer_to("", name)
        if name == "operations":
            operations = _operations(written, problems)
        elif name not in {*PARTS, *HEADERS, *NAMES}:
            known = ", ".join((*PARTS, *HEADERS, *NAMES, "operations"))
            problems.append(LayoutProblem(pointer, f"a layout has no such part; its parts are {known}"))
        elif not isinstance(written, str):
            problems.append(LayoutProblem(pointer, "a place must be a text"))
        else:
            try:
                places[name] = Place.parse(written)
            except ValueError as reason:
                problems.append(LayoutProblem(pointer, f"not a place: {reason}"))
    if not problems:
        problems = _contradictions(places)
    if problems:
        raise WrongLayout(problems)
    headers = places.get("headers")
    if headers is not None:
        places |= {name: headers.inner(own) for name, own in HEADERS.items() if name not in places}
    return Layout(places, operations, dict(document))


def _contradictions(places: Mapping[str, Place]) -> list[LayoutProblem]:
    problems = []
    if not places.keys() & {"operation", "headers"}:
        problems.append(LayoutProblem("", "a layout needs `operation`, or `headers` with all headers in it"))
    if not places.keys() & {"data", "before_data"}:
        problems.append(LayoutProblem("", "a layout needs `data` or `before_data`"))
    known: dict[Place, str] = {}
    for name, place in places.items():
        if name not in PARTS and place.prefix is not None:
            problems.append(LayoutProblem(f"/{name}", "only data, before_data, key and headers can end in *"))
        elif place in known and not (name == "headers" and place.prefix is not None):  # headers are known by name
            problems.append(LayoutProblem(f"/{name}", f"{known[place]} has the same place"))
        known[place] = name
    return problems


def _operations(written: Any, problems: list[LayoutProblem]) -> dict[str, str]:
    """Return the names of operations; adds what is wrong to the problems."""
    if not isinstance(written, dict) or len(written) > MAX_OPERATIONS:
        detail = f'must be an object of at most {MAX_OPERATIONS} names, such as {{"I": "insert"}}'
        problems.append(LayoutProblem("/operations", detail))
        return {}
    found: dict[str, str] = {}
    for name, operation in written.items():
        pointer = pointer_to("/operations", name)
        if not name or len(name) > MAX_OPERATION_CHARACTERS or not name.isprintable():
            problems.append(
                LayoutProblem(pointer, f"a name must be 1 to {MAX_OPERATION_CHARACTERS} printable characters")
            )
        elif not isinstance(operation, str) or operation not in OPERATIONS:
            problems.append(LayoutProblem(pointer, f"must be one of {', '.join(OPERATIONS)}"))
        elif name.casefold() in found:
            problems.append(LayoutProblem(pointer, "the name is given twice, in different letter case"))
        else:
            found[name.casefold()] = operation.upper()
    return found
