"""Read the forms of the console, and reject those that another site made the browser send.

A form of a session carries the session's token, which no other site can read. In addition the headers in which
browsers name the origin of a request must name this server; they also protect the sign-in form, which has no session.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlsplit

from fastapi import Depends, Request

from app.api.console.sessions import ConsoleUser
from mirrorgate.errors import Code, RejectedInput

MAX_FIELDS: Final = 100
_TYPE: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form; of a field that is sent twice, the last one counts."""

    fields: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return a field without the blanks around it. Raises RejectedInput `bad_request` if it is missing."""
        if name not in self.fields:
            raise RejectedInput(Code.BAD_REQUEST, f"the form lacks the field `{name}`")
        return self.fields[name].strip()

    def raw(self, name: str) -> str:
        """Return a field exactly as typed, an empty string if it is missing."""
        return self.fields.get(name, "")

    def optional(self, name: str) -> str | None:
        """Return a field without the blanks around it, None if it is missing or empty."""
        return self.fields.get(name, "").strip() or None

    def number(self, name: str) -> int:
        """Return a whole number of at most 18 digits. Raises RejectedInput `bad_request` for anything else."""
        text = self.text(name)
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise RejectedInput(Code.BAD_REQUEST, f"the field `{name}` must be a whole number")
        return int(text)


async def _console_form(request: Request, user: ConsoleUser) -> Form:
    """Return the fields of a form of this session. Raises RejectedInput `forbidden` if it lacks the session's token."""
    check_origin(request)
    form = await read_form(request)
    if not user.token.is_csrf(form.raw("csrf")):
        raise RejectedInput(
            Code.FORBIDDEN,
            "the form does not belong to your session",
            remedy="Load the page again and repeat the action. You may have signed in again since it was loaded.",
        )
    return form


ConsoleForm = Annotated[Form, Depends(_console_form)]
"""A route's parameter of this type holds the fields of a POST of the signed-in user."""


async def read_form(request: Request) -> Form:
    """Return the fields of the body, for any session or none. Raises RejectedInput for a body that is not a form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, "the body is not a form", remedy="Use the form of the page.")
    try:
        pairs = parse_qsl(
            (await request.body()).decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError:
        raise RejectedInput(Code.BAD_REQUEST, "the form cannot be read", remedy="Use the form of the page.") from None
    return Form({name: value.replace("\r\n", "\n") for name, value in pairs if "\0" not in name + value})


def check_origin(request: Request) -> None:
    """Raise RejectedInput `forbidden` if the browser says that another site sent the request."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_own = site in ("same-origin", "none")
    else:
        is_own = origin is None or _host_of(origin) == request.headers.get("host", "").lower()
    if not is_own:
        raise RejectedInput(
            Code.FORBIDDEN,
            "another site sent this form",
            remedy="Open the console in its own tab and repeat the action there.",
        )


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
