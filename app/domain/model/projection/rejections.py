"""Rejections of table options, which name the option by its JSON Pointer in the registration."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import reduce
from typing import TYPE_CHECKING, Any

from app.errors import Code, Problem, RejectedInput
from app.errors.json_pointer import pointer_to

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def bad_option(detail: str, *path: str) -> RejectedInput:
    """Return the rejection of the option at this path."""
    return rejection(Code.BAD_OPTION, detail, *path)


def rejection(code: Code, detail: str, *path: str) -> RejectedInput:
    """Return a rejection with another code of the option at this path."""
    return RejectedInput.of((Problem(code, detail, pointer=reduce(pointer_to, path, "/options")),))


def check_members(given: Mapping[str, Any], of: "type[DataclassInstance]", *path: str) -> None:
    """Raise RejectedInput `bad_option` for a key of the object at this path that its dataclass does not have."""
    known = [member.name for member in fields(of)]
    unknown = sorted(given.keys() - {*known})
    if unknown:
        raise bad_option(f"there is no {unknown[0]!r} here; choose from {', '.join(known)}", *path)


@contextmanager
def named(*path: str) -> Iterator[None]:
    """Turn a rejection in the block into one of the option at this path."""
    try:
        yield
    except RejectedInput as error:
        raise bad_option(error.detail, *path) from None
