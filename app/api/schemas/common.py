"""Shapes of our own JSON that every route shares. Change messages never pass here."""

import re
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict

from app.errors import Code
from app.errors.catalogue import CATALOGUE

_NUMBER: Final = re.compile(r"\s*[-+]?[0-9.]+(e[-+]?[0-9]+)?\s*", re.IGNORECASE)
_PROBLEM: Final[dict[str, Any]] = {
    "type": "urn:mirrorgate:error:bad_value",
    "title": CATALOGUE[Code.BAD_VALUE].meaning,
    "status": 422,
    "code": "bad_value",
    "detail": "n_nationkey: not an int32",
    "remedy": CATALOGUE[Code.BAD_VALUE].remedy,
    "request_id": "af850e3693274f559803e979a149d07a",
    "errors": [
        {
            "index": 3,
            "pointer": "/after/n_nationkey",
            "code": "bad_value",
            "column": "n_nationkey",
            "detail": "n_nationkey: not an int32",
        }
    ],
    "errors_total": 1,
}


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", use_enum_values=True, use_attribute_docstrings=True)


def _as_text(value: Any) -> Any:
    """Raises ValueError for a number, which pydantic would take for seconds since 1970, or for milliseconds."""
    if isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        raise ValueError("a time is a text as 2027-01-31T08:00:00Z")
    return value


Moment = Annotated[datetime, BeforeValidator(_as_text)]
"""A time that a caller gives, in ISO 8601."""


def _as_integer(value: Any) -> Any:
    """Return 1.0 as 1: to JSON Schema both are integers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE_NUMBER: Final = BeforeValidator(_as_integer)
"""For a strict integer that a caller gives. It belongs behind the bounds, or the contract loses them."""

AwareMoment = Annotated[AwareDatetime, BeforeValidator(_as_text)]
"""Such a time with an offset."""


class ProblemItemModel(Model):
    """One thing wrong with one message of the request."""

    code: str
    """As for the whole; each message may have another."""

    detail: str
    """What is wrong, without any value."""

    index: int | None = None
    """The message's place in the request, from 0."""

    pointer: str | None = None
    """A JSON Pointer into the message."""

    table: str | None = None
    """The table that the message is for."""

    column: str | None = None
    """The column that is at fault."""


class ProblemModel(Model):
    """Problem details (RFC 9457) of a rejected request. docs/errors.md has every code with its meaning and remedy."""

    model_config = ConfigDict(json_schema_extra={"examples": [_PROBLEM]})

    type: str
    """`urn:mirrorgate:error:` and the code: a name, not an address."""

    title: str
    """What the code means."""

    status: int
    """The status of the answer."""

    code: str
    """What programs look at: it never changes its meaning. New ones may come."""

    detail: str
    """What is wrong this time, without any value of a row."""

    remedy: str
    """What to do about it."""

    request_id: str | None = None
    """As `X-Request-Id`: it names the request in the gateway's log."""

    errors: list[ProblemItemModel] | None = None
    """The messages that are wrong, the first 100 of them."""

    errors_total: int | None = None
    """How many there are."""
