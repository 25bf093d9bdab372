"""One entry of the error catalogue: the kind, the meaning and the remedy of a code.

A meaning says what is wrong, in one sentence that holds for every occurrence; the `detail` of an error says what is
wrong this time. A remedy says what to do next, in the second person. No text ever contains a value.
"""

from dataclasses import dataclass
from typing import Final

from app.errors.codes import Kind


@dataclass(frozen=True, slots=True)
class Entry:
    """What the catalogue says about one code."""

    kind: Kind
    meaning: str
    remedy: str


RETRY: Final = "Wait for the time in Retry-After, then send the same request again."
"""The remedy of every temporary error whose request was not staged."""
