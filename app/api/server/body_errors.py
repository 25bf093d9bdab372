"""A rejection on the way through the framework's own reading of a body."""

from starlette.exceptions import HTTPException

from app.errors import MirrorgateError


class RejectedReading(HTTPException):
    """Carries a deliberate error: where the framework reads a body, it takes any other exception for a bad request."""

    def __init__(self, error: MirrorgateError) -> None:
        super().__init__(400)
        self.error = error
