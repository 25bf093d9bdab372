"""How much the partial updates of a transaction may become: one of a hundred bytes becomes a row of any size."""

from dataclasses import dataclass
from typing import Final

from app.errors import Code, RejectedInput

MAX_COMPLETED_BYTES: Final = 2**27
"""Row images that a request is completed from, and that the requests of a transaction leave together."""


class TooMuchTogether(RejectedInput):
    """The requests of a transaction become too many bytes together: stage them apart, until one is too large alone."""


@dataclass(slots=True)
class CompletedBytes:
    """What the requests before have left in this transaction, in all tables."""

    size: int = 0

    def check(self, size: int) -> None:
        """Whether so many bytes more fit. Raises RejectedInput `body_too_large`, or TooMuchTogether."""
        if self.size + size > MAX_COMPLETED_BYTES:
            detail = f"the rows that the request's partial updates become take more than {MAX_COMPLETED_BYTES} bytes"
            rejection = RejectedInput if size > MAX_COMPLETED_BYTES else TooMuchTogether
            raise rejection(Code.BODY_TOO_LARGE, detail)
