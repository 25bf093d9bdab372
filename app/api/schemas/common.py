"""What the schemas of the API share: a strict base of all models, times, whole numbers, and problem details.

`Model` is the base. Change messages are not parsed with these models.

`PageLimit` and `AfterId` are query parameters that the lists of the API share.
"""

import re
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Self

from fastapi import Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, TypeAdapter
from starlette.convertors import StringConvertor, register_url_convertor

from app.domain.model.table_options import TableOptions
from mirrorgate.errors import Code
from mirrorgate.errors.site import page_of_code

MAX_ID: Final = 2**63 - 1
"""The largest id that Postgres stores."""

MAX_PAGE_ENTRIES: Final = 1000

_NUMBER: Final = re.compile(r"\s*[-+]?[0-9.]+(e[-+]?[0-9]+)?\s*", re.IGNORECASE)
_PROBLEM: Final[dict[str, Any]] = {
    "type": page_of_code(Code.BAD_VALUE),
    "title": Code.BAD_VALUE.meaning,
    "status": 422,
    "code": "bad_value",
    "detail": "n_nationkey: not an int32",
    "remedy": Code.BAD_VALUE.remedy,
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
    """Base of all models: unknown keys are rejected, and attribute docstrings are descriptions."""

    model_config = ConfigDict(extra="forbid", from_attributes=True, use_enum_values=True, use_attribute_docstrings=True)

    @classmethod
    def of(cls, record: object, **more: Any) -> Self:
        """Return the model of a record: its attributes by the names of the fields, and `more` for the other fields."""
        if not more:
            return cls.model_validate(record)
        return cls.model_validate({name: getattr(record, name) for name in cls.model_fields.keys() - more} | more)


def _build_options_schema() -> None:
    """Build pydantic's schema of the options once: a start of the API takes 0.3 s less than with one for each model."""
    options: Any = TableOptions
    options.__pydantic_config__ = Model.model_config
    options.__pydantic_core_schema__ = TypeAdapter(options).core_schema


_build_options_schema()


class TableAnswer(Model):
    """Base of answers about one generation of a table."""

    table: str
    """The name of the table, `name` or `schema.name`."""

    generation: int
    """The generation of the table: one lifetime of its landing folder."""


def _as_text(value: Any) -> Any:
    """Raise ValueError for a number, which pydantic would read as seconds or milliseconds since 1970."""
    if isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        raise ValueError("a time must be a string such as 2027-01-31T08:00:00Z")
    return value


Moment = Annotated[datetime, BeforeValidator(_as_text)]
"""A time in ISO 8601, from a caller."""


def _as_integer(value: Any) -> Any:
    """Return 1.0 as 1: both are integers in JSON Schema. Raise ValueError for a text such as 1_0, which int() reads."""
    if isinstance(value, str) and not (value.isascii() and value.removeprefix("-").isdecimal()):
        raise ValueError("must be an integer")
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE_NUMBER: Final = BeforeValidator(_as_integer)
"""Validator of an integer from a caller. Place it after the bounds, or the contract loses them."""


class _DigitsConvertor(StringConvertor):
    """Match digits in a path, and leave them a string: int() rejects thousands of them."""

    regex = "[0-9]+"


register_url_convertor("digits", _DigitsConvertor())

PageLimit = Annotated[int, Query(ge=1, le=MAX_PAGE_ENTRIES, description="Maximum number of entries."), WHOLE_NUMBER]
AfterId = Annotated[int, Query(ge=0, le=MAX_ID, description="Only entries with a greater id."), WHOLE_NUMBER]

AwareMoment = Annotated[AwareDatetime, BeforeValidator(_as_text)]
"""A time in ISO 8601 with a UTC offset, from a caller."""


Seconds = Annotated[float, AfterValidator(partial(round, ndigits=3))]
"""Seconds in an answer, to the millisecond."""


class ProblemItemModel(Model):
    """One thing wrong with one message of the request."""

    code: str
    """The error code of this message; each message can have another."""

    detail: str
    """Explanation of the problem, without row values."""

    index: int | None = None
    """The index of the message in the request, from 0."""

    pointer: str | None = None
    """A JSON Pointer into the message."""

    table: str | None = None
    """The table that the message is for."""

    column: str | None = None
    """The column that is wrong."""


class ProblemModel(Model):
    """Problem details (RFC 9457) of a rejected request. Its `type` is the address of the code's page."""

    model_config = ConfigDict(json_schema_extra={"examples": [_PROBLEM]})

    type: str
    """Address of the page about the code: what it means, and what to do. Compare `code`, not this address."""

    title: str
    """Meaning of the code."""

    status: int
    """The HTTP status of the answer."""

    code: str
    """The error code, for programs. Codes never change their meaning; new ones can be added."""

    detail: str
    """Explanation of the problem in this request, without row values."""

    remedy: str
    """Instruction that resolves the problem."""

    request_id: str | None = None
    """The value of `X-Request-Id`, which identifies the request in the gateway's log."""

    errors: list[ProblemItemModel] | None = None
    """The wrong messages, the first 100 of them."""

    errors_total: int | None = None
    """Number of messages with an error."""
