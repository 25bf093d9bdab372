"""Every error that Mirrorgate raises on purpose, and what each one means.

`codes` holds the stable codes and the kinds of rejection; `catalogue` holds the meaning and the remedy of each code,
and is the only source of `docs/errors.md`; `exceptions` holds the exception tree, grouped by whose fault an error is.
Other packages import from here: `from app.errors import Code, RejectedInput`. To add an error, add its code, then its
entry in the catalogue.
"""

from app.errors.codes import Code, Kind
from app.errors.exceptions import (
    InvariantBroken,
    MirrorgateError,
    Misconfigured,
    Problem,
    RejectedInput,
    TemporarilyUnavailable,
)

__all__ = [
    "Code",
    "InvariantBroken",
    "Kind",
    "MirrorgateError",
    "Misconfigured",
    "Problem",
    "RejectedInput",
    "TemporarilyUnavailable",
]
