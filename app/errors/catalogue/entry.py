"""One entry of the error catalogue: the kind, the meaning and the remedy of a code.

A meaning says what is wrong, in one sentence that holds for every occurrence; the `detail` of an error says what is
wrong this time. A remedy says what to do next, in the second person. No text ever contains a value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from app.errors.codes import Kind


@dataclass(frozen=True, slots=True)
class Entry:
    """What the catalogue says about one code."""

    kind: Kind
    meaning: str
    remedy: str
    of_format: Mapping[str, str] = field(default_factory=dict)
    """Remedies for one format, by the last part of the path of its endpoint, where the general one is about others."""


ROWS_FORMAT: Final = "rows"
"""Plain rows, in JSON, in CSV or in an Arrow stream, for `of_format`."""

RETRY: Final = "Wait for the time in Retry-After, then send the same request again."
"""The remedy of every temporary error whose request was not staged."""
