"""Every error that Mirrorgate raises on purpose, and what each one means.

`codes` declares the stable codes with their kinds, meanings and remedies, and is the only source of
docs/reference/errors.md.
`exceptions` holds the exception tree, grouped by who has to act, and the pointers that errors give.
`store_faults` reads the errors of object stores. Other packages import from here: `from mirrorgate.errors import Code,
RejectedInput`. To add an error, add its code to `codes` and run `make docs`.
"""

from mirrorgate.errors.codes import Code, Kind
from mirrorgate.errors.exceptions import (
    InvariantBroken,
    MirrorgateError,
    Misconfigured,
    Problem,
    RejectedInput,
    StorageError,
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
    "StorageError",
    "TemporarilyUnavailable",
]
