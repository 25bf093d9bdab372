"""Bounds the rows that a transaction's partial updates are completed to.

An update of a hundred bytes can become a row of any size, so the size of a request does not bound it.
"""

from dataclasses import dataclass
from typing import Final

from app.errors import Code, RejectedInput

MAX_COMPLETED_BYTES: Final = 2**27
"""Bytes of the row images that a request is completed from, and that a transaction's requests leave together."""


class TooMuchTogether(RejectedInput):
    """The requests of a transaction take too many bytes together; each one may still fit alone."""


@dataclass(slots=True)
class CompletedBytes:
    """The bytes that the earlier requests of this transaction left, in all tables."""

    size: int = 0

    def check(self, size: int) -> None:
        """Check that this many more bytes fit. Raises RejectedInput `body_too_large`, or TooMuchTogether."""
        if self.size + size > MAX_COMPLETED_BYTES:
            detail = f"the rows completed from the request's partial updates take more than {MAX_COMPLETED_BYTES} bytes"
            rejection = RejectedInput if size > MAX_COMPLETED_BYTES else TooMuchTogether
            raise rejection(Code.BODY_TOO_LARGE, detail)
