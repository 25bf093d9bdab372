"""The remedy of an error that ends a program, where the catalogue's is about requests."""

from typing import Final

from app.errors.codes import Code
from app.errors.exceptions import MirrorgateError

_NO_DATABASE: Final = "Check that Postgres runs and that MIRRORGATE_DATABASE_URL is its address."


def command_remedy(error: MirrorgateError) -> str:
    """Return what the person who started the program can do; for a lost database with the driver's reason."""
    if error.code is not Code.DATABASE_UNAVAILABLE:
        return error.remedy
    reason = str(error.__cause__ or "").strip().splitlines()[:1]
    return " ".join([_NO_DATABASE, *reason])
