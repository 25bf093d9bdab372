"""Places in a message: where a layout finds a part, and where a routed message names its table.

A place is written as a JSON Pointer (`/message/headers/op`) or with dots (`message.headers.op`). One that ends in `*`
is spread: the keys of an object that begin with what precedes the star, which is not part of their names. So
`headers_*` has the key `headers_operation` as `operation`. Qlik's message format writes such keys for a section whose
name has no slash ("Message Format" in Qlik's help).
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from app.errors import Code
from app.errors.json_pointer import pointer_to
from app.formats.replicate.forms.standard_form import rejection

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
        """Tell whether this place is inside the object whose keys `outer` is spread over."""
        count = len(outer.steps)
        return self.steps[:count] == outer.steps and (len(self.steps) > count or self.prefix is not None)

    def find(self, message: Mapping[str, Any], index: int, at: str) -> Any:
        """Return what a message whose JSON Pointer is `at` has there, of a spread part the object; UNSET if nothing.

        Raises RejectedInput `malformed_message` where a step is neither an object nor null.
        """
        value: Any = message
        for count, step in enumerate(self.steps):
            if not isinstance(value, dict):
                raise rejection(
                    Code.MALFORMED_MESSAGE, "expected an object", index, at + Place(self.steps[:count]).pointer
                )
            value = value.get(step, UNSET)
            if value is UNSET or value is None:
                return UNSET if count + 1 < len(self.steps) else value
        return value
