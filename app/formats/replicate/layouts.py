"""Layouts: where messages of a custom format have what Replicate's messages have, and how they are read.

Replicate lets a task rename, flatten or delete the sections of its messages ("Message Format" in Qlik's help), and
pipelines between it and the gateway do the same. A layout is stored by name and maps such a message back. A part that a
layout does not name is not read.

A place is written as a JSON Pointer (`/message/headers/op`) or with dots (`message.headers.op`). One that ends in `*`
is spread: the keys of an object that begin with what precedes the star, which is not part of their names. So
`headers_*` has the key `headers_operation` as `operation`, as Qlik writes a section whose name has no slash.

Data messages do not name their table. Users add a column with its name, by a global transformation rule (Qlik's article
"How to add tables name in Kafka"), or a value elsewhere in the message, which the parameter `table_from` places.

Invariant: a layout that was accepted reads every message or rejects it; it never fails otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from app.domain.model.names import SourceName
from app.formats.replicate.standard_form import KEY_AT, DataParts, HeaderPointers, Headers, as_headers
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

MAX_STEPS: Final = 8
MAX_STEP_CHARACTERS: Final = 255
_SPREAD: Final = "*"


class Place(NamedTuple):
    """Keys from the message inwards. With a prefix, the part is the keys there that begin with it."""

    steps: tuple[str, ...]
    prefix: str | None = None

    @classmethod
    def parse(cls, written: str) -> "Place":
        """Read a JSON Pointer or names with dots. Raises ValueError with the reason."""
        if written.startswith("/"):
            steps = [step.replace("~1", "/").replace("~0", "~") for step in written[1:].split("/")]
        else:
            steps = written.split(".")
        spread = steps[-1].endswith(_SPREAD)
        prefix = steps.pop().removesuffix(_SPREAD) if spread else None
        if not all(steps):
            raise ValueError("a step is empty")
        if len(steps) > MAX_STEPS:
            raise ValueError(f"there are more than {MAX_STEPS} steps")
        if any(len(step) > MAX_STEP_CHARACTERS or not step.isprintable() for step in (*steps, prefix or "")):
            raise ValueError(f"a step is longer than {MAX_STEP_CHARACTERS} characters, or not printable")
        return cls(tuple(steps), prefix)

    @property
    def pointer(self) -> str:
        """The JSON Pointer of the object or value; of keys with a prefix, that of the prefix, with a `*` behind it."""
        pointer = ""
        for step in self.steps:
            pointer = pointer_to(pointer, step)
        return pointer_to(pointer, self.prefix) + _SPREAD if self.prefix else pointer

    def inner(self, name: str) -> "Place":
        """Return the place of a key of this part."""
        return Place((*self.steps, name)) if self.prefix is None else Place((*self.steps, self.prefix + name))

    def is_in(self, outer: "Place") -> bool:
        """Return True if this place is inside the object whose keys `outer` is spread over."""
        count = len(outer.steps)
        return self.steps[:count] == outer.steps and (len(self.steps) > count or self.prefix is not None)

    def find(self, message: Mapping[str, Any], index: int, at: str) -> Any:
        """Return what a message whose JSON Pointer is `at` has there, of a spread part the object; UNSET if nothing.

        Raises RejectedInput `malformed_message` where a step is neither an object nor null.
        """
        value: Any = message
        for count, step in enumerate(self.steps):
            if not isinstance(value, dict):
                raise RejectedInput.at(
                    Code.MALFORMED_MESSAGE, "expected an object", index, at + Place(self.steps[:count]).pointer
                )
            value = value.get(step, UNSET)
            if value is UNSET or value is None:
                return UNSET if count + 1 < len(self.steps) else value
        return value


_COLUMN: Final = "data."


class TableFrom(NamedTuple):
    """Location of the table's name in messages: a column of the row, or a place of the message."""

    written: str
    column: str | None
    place: Place | None

    @classmethod
    def parse(cls, written: str) -> "TableFrom":
        """Read `data.<column>`, a JSON Pointer or names with dots. Raises RejectedInput `bad_request`."""
        if written.startswith(_COLUMN) and len(written) > len(_COLUMN):
            return cls(written, written.removeprefix(_COLUMN), None)
        try:
            place = Place.parse(written)
        except ValueError as reason:
            raise RejectedInput(Code.BAD_REQUEST, f"table_from is not a location in a message: {reason}") from None
        if place.prefix is not None or not place.steps:
            raise RejectedInput(Code.BAD_REQUEST, "table_from must be data.<column> or a location without *")
        return cls(written, None, place)

    @property
    def columns(self) -> frozenset[str]:
        """The column that is data only if the table has it."""
        return frozenset() if self.column is None else frozenset({self.column})

    def source(
        self, message: Mapping[str, Any], row: Mapping[str, Any], row_at: str, index: int, at: str
    ) -> SourceName:
        """Return the table of a message: `name` or `schema.name`. `row` is its image and `row_at` its JSON Pointer.

        Raises RejectedInput `malformed_message` if it has no text there, or `bad_name`.
        """
        if self.place is None:
            found, pointer = row.get(self.column or "", UNSET), pointer_to(row_at, self.column or "")
        else:
            found, pointer = self.place.find(message, index, at), at + self.place.pointer
        if not isinstance(found, str) or not found:
            detail = "table_from names this location for the table of the message, and it has no string there"
            raise RejectedInput.at(Code.MALFORMED_MESSAGE, detail, index, pointer)
        schema, dot, name = found.partition(".")
        try:
            if dot and schema and name and "." not in name:
                return SourceName.of(None, schema, name)
            return SourceName.of(None, None, found)
        except RejectedInput as error:
            raise RejectedInput.at(error.code, error.detail, index, pointer) from None


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
"""Strings that identify the table."""

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
    """A problem of a layout: its detail, and the JSON Pointer of the part."""

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
            problems.append(LayoutProblem(pointer, "a location must be a string"))
        else:
            try:
                places[name] = Place.parse(written)
            except ValueError as reason:
                problems.append(LayoutProblem(pointer, f"not a location: {reason}"))
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
            problems.append(LayoutProblem(f"/{name}", f"{known[place]} has the same location"))
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


_IMAGES: Final = ("data", "before_data", "key")


class CustomForm:
    """Reader of messages under one layout."""

    def __init__(self, layout: Layout) -> None:
        self._places = layout.places
        self._operations = layout.operations
        self._headers = {own: layout.places[name] for name, own in HEADERS.items() if name in layout.places}
        self._others = {name: self._claimed(name) for name in _IMAGES if name in layout.places}
        self._pointers = {at: self._header_pointers(at) for at in ("", "/value")}

    def source(self, message: Mapping[str, Any], index: int, at: str) -> SourceName | None:
        """Return the table that a message names. Raises RejectedInput `bad_name` or `malformed_message`."""
        schema, table = (self._text(name, message, index, at) for name in ("schema", "table"))
        return SourceName.of(None, schema or None, table) if table else None

    def schema_id(self, message: Mapping[str, Any], index: int, at: str) -> str | None:
        """Return the schema id of a message. Raises RejectedInput `malformed_message`."""
        return self._text("schema_id", message, index, at)

    def parts(self, message: Mapping[str, Any], index: int, at: str, key: Any) -> DataParts:
        """Return the parts of a message that was sent with this key. Raises RejectedInput `malformed_message`."""
        own_key = self._own_key(message, index, at)
        return DataParts(
            self._image("data", message, index, at),
            self._image("before_data", message, index, at),
            self._read_headers(message, index, at),
            self._pointer("data", at),
            self._pointer("before_data", at),
            self._pointers[at],
            *((key, KEY_AT) if own_key is UNSET else (own_key, self._pointer("key", at))),
        )

    def _own_key(self, message: Mapping[str, Any], index: int, at: str) -> Any:
        """Return the key that a message has beside its images, UNSET if it has none."""
        if "key" not in self._places:
            return UNSET
        place = self._places["key"]
        if place.prefix is None:
            return place.find(message, index, at)
        return self._image("key", message, index, at) or UNSET

    def _read_headers(self, message: Mapping[str, Any], index: int, at: str) -> Headers:
        found = {name: place.find(message, index, at) for name, place in self._headers.items()}
        given = {name: value for name, value in found.items() if value is not UNSET}
        operation = given.get("operation")
        if isinstance(operation, int) and not isinstance(operation, bool):
            given["operation"] = operation = str(operation)
        if isinstance(operation, str):
            given["operation"] = self._operations.get(operation.casefold(), operation)
        return as_headers(index, given, self._pointers[at])

    def _image(self, name: str, message: Mapping[str, Any], index: int, at: str) -> dict[str, Any] | list[Any] | None:
        place = self._places.get(name)
        if place is None:
            return None
        found = place.find(message, index, at)
        if found is UNSET or found is None:
            return None
        if place.prefix is None and isinstance(found, list):
            return found
        if not isinstance(found, dict):
            raise RejectedInput.at(Code.MALFORMED_MESSAGE, "expected an object or null", index, self._pointer(name, at))
        if place.prefix is None:
            return found
        others, prefixes = self._others[name]
        start = len(place.prefix)
        image = {
            key[start:]: value
            for key, value in found.items()
            if key.startswith(place.prefix) and key not in others and not key.startswith(prefixes)
        }
        return image or None

    def _claimed(self, name: str) -> tuple[frozenset[str], tuple[str, ...]]:
        """Return the keys beside the columns of a spread image that belong to other parts, and prefixes of such keys.

        A longer prefix wins over a shorter one.
        """
        image = self._places[name]
        if image.prefix is None:
            return frozenset(), ()
        keys, prefixes, count = set(), [], len(image.steps)
        for other, place in self._places.items():
            if other == name or not place.is_in(image):
                continue
            if len(place.steps) > count:
                keys.add(place.steps[count])
            elif place.prefix is not None and len(place.prefix) > len(image.prefix):
                prefixes.append(place.prefix)
        headers = self._places.get("headers")
        if headers is not None and headers.prefix is not None and headers.steps == image.steps:
            keys |= {headers.prefix + header for header in Headers.__struct_fields__}
        return frozenset(keys), tuple(prefixes)

    def _text(self, name: str, message: Mapping[str, Any], index: int, at: str) -> str | None:
        place = self._places.get(name)
        found = place.find(message, index, at) if place else None
        if found is None or found is UNSET:
            return None
        if not isinstance(found, str):
            raise RejectedInput.at(Code.MALFORMED_MESSAGE, "expected a string or null", index, self._pointer(name, at))
        return found

    def _pointer(self, name: str, at: str) -> str:
        """Return the JSON Pointer of a part, in a message whose own pointer is `at`."""
        place = self._places.get(name)
        return f"{at}/{PARTS.get(name, name)}" if place is None else at + place.pointer

    def _header_pointers(self, at: str) -> HeaderPointers:
        named = {name: at + place.pointer for name, place in self._headers.items()}
        return HeaderPointers(f"{at}/headers/", named)


@dataclass(frozen=True, slots=True)
class MessageForm:
    """The form of a request's messages, by its parameters."""

    keyed: bool | None = None
    """True if elements are `{"key": …, "value": …}`; None: recognize them."""
    layout: Layout | None = None
    """The layout of data messages; None for the forms that Replicate writes by default."""
    table_from: TableFrom | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the form as it is stored with a dead letter; a layout as a whole, because it can change."""
        return {
            "keyed": self.keyed,
            "layout": self.layout and dict(self.layout.document),
            "table_from": self.table_from and self.table_from.written,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "MessageForm":
        """Read a stored form."""
        layout, table_from = stored.get("layout"), stored.get("table_from")
        return cls(
            stored.get("keyed"), layout and read_layout(layout), TableFrom.parse(table_from) if table_from else None
        )


STANDARD: Final = MessageForm()
