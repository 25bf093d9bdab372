"""An exception that carries an error of the product through the framework's reading of a body."""

from starlette.exceptions import HTTPException

from app.errors import MirrorgateError


class BodyRejected(HTTPException):
    """Carries the error with which the middleware stops a body.

    It is an HTTPException because FastAPI turns every other exception, raised while it reads a body, into a plain 400.
    """

    def __init__(self, error: MirrorgateError) -> None:
        super().__init__(400)
        self.error = error
