"""Every error that Mirrorgate raises on purpose, and what each one means.

`codes` holds the stable codes and their kinds. `catalogue` holds the meaning and the remedy of each code, one module
per subject, and is the only source of docs/errors.md. `exceptions` holds the exception tree, grouped by who has to act.
`json_pointer` builds the pointers that errors give. Other packages import from here: `from app.errors import Code,
RejectedInput`. To add an error, add its code in `codes`, then its entry in the catalogue module of its subject, and run
`make docs`.
"""

from app.errors.codes import Code, Kind
from app.errors.exceptions import (
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
