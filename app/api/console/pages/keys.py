"""`/console/keys`: all API keys without their secrets; operations on them are those of the API.

A secret is in one answer, which is not stored: no address and no later page has it.
"""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Response
from pydantic import ValidationError

from app.api.console.answers import ConsoleForm, ConsoleUser, FormFields, SignedIn, see_other
from app.api.operations import keys as operations
from app.api.schemas.access import MAX_OVERLAP_SECONDS, CreateKey, UpdateKey
from app.console.render import Notice, key_path
from app.domain.access.rights import Right
from app.staging.access.api_keys import StoredKey, find_key, list_keys
from app.staging.connection.database import translated_errors
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.text import digits

router = APIRouter()

PATH: Final = "/console/keys"

RIGHTS: Final[Mapping[Right, str]] = {
    Right.INGEST: "send changes",
    Right.READ: "see tables, files and dead letters",
    Right.REGISTER: "register tables and change their schema",
    Right.ADMIN: "all of these, and operate tables; with * also keys and the audit",
}
"""The rights with what they allow."""

OVERLAPS: Final = ((0, "none"), (3_600, "1 hour"), (86_400, "1 day"), (7 * 86_400, "7 days"), (30 * 86_400, "30 days"))
"""Seconds for which the present secret can remain valid after a rotation, and the same in words."""

_NEW: Final = {"name": "", "tables": "*", "expires": "", "requests_per_second": "", "bytes_per_second": ""}
"""The text fields of a new key as the form begins; an empty limit means that of the settings."""

_PROBLEMS: Final = {
    "name": "A name has at most 100 characters, and no control characters.",
    "rights": "Choose at least one right.",
    "tables": "Name at least one table or pattern, each on its own line and of at most 300 characters.",
    "expires_at": "The day of expiry must be a date, such as 2030-12-31.",
    "requests_per_second": "Requests per second must be a number from 0.001 to 1,000,000.",
    "bytes_per_second": "Bytes per second must be a whole number above 0.",
}
"""Strings about fields that the model rejects."""

_CHANGED: Final = Notice("good", "The key is changed.", "Its limits apply within five seconds.")


@router.get(PATH)
def all_keys(user: ConsoleUser) -> Response:
    """List all keys."""
    user.require(Right.ADMIN, every_table=True)
    with translated_errors(), user.gateway.engine.begin() as connection:
        found = list_keys(connection)
    settings_key_id = user.gateway.authenticator.settings_key_id
    return user.page("keys.html", "keys", keys=found[::-1], settings_key_id=settings_key_id)


@router.get(PATH + "/new")
def new_key(user: ConsoleUser) -> Response:
    """Show the form of a new key."""
    user.require(Right.ADMIN, every_table=True)
    return _new_key(user, _NEW)


@router.post(PATH + "/new")
def create(user: ConsoleUser, form: ConsoleForm) -> Response:
    """Create a key and show its secret, or the form again with what is wrong."""
    principal = user.require(Right.ADMIN, every_table=True)
    try:
        made = operations.create(user.gateway, principal, CreateKey.model_validate(_wanted(form)))
    except ValidationError as error:
        return _new_key_again(user, form, _wrong_fields(error), _problems_of(error))
    except RejectedInput as error:
        if error.code is not Code.BAD_REQUEST:
            raise
        return _new_key_again(user, form, error, (f"{error.detail}.",))
    return user.page("key_secret.html", "keys", title="The key is created", made=made)


@router.get(PATH + "/{key_id}")
def one_key(key_id: str, user: ConsoleUser, done: str = "") -> Response:
    """Show a key, and the forms that change, rotate and delete it."""
    key = _seen_key(key_id, user)
    fields = {
        "name": key.name or "",
        "requests_per_second": digits(key.limits.requests_per_second),
        "bytes_per_second": digits(key.limits.bytes_per_second),
    }
    return _key(user, key, fields, notice=_CHANGED if done == "change" else None)


@router.post(PATH + "/{key_id}/change")
def change(key_id: str, user: ConsoleUser, form: ConsoleForm) -> Response:
    """Replace the name and both rate limits of a key, or show the page again with what is wrong."""
    principal = user.require(Right.ADMIN, every_table=True)
    try:
        operations.update(user.gateway, principal, key_id, UpdateKey.model_validate(_changed(form)))
    except ValidationError as error:
        key, status = _seen_key(key_id, user), user.rejected(_wrong_fields(error)).status
        return _key(user, key, _typed(form), problems=_problems_of(error), status=status)
    return see_other(f"{key_path(key_id)}?done=change")


@router.post(PATH + "/{key_id}/rotate")
def rotate(key_id: str, user: ConsoleUser, form: ConsoleForm) -> Response:
    """Give a key a new secret and show it."""
    principal, overlap = user.require(Right.ADMIN, every_table=True), form.number("overlap")
    if overlap > MAX_OVERLAP_SECONDS:
        raise RejectedInput(Code.BAD_REQUEST, f"the overlap is longer than {MAX_OVERLAP_SECONDS} seconds")
    made = operations.rotate(user.gateway, principal, key_id, overlap)
    return user.page("key_secret.html", "keys", title="The key has a new secret", made=made)


@router.post(PATH + "/{key_id}/delete")
def delete(key_id: str, user: ConsoleUser, form: ConsoleForm) -> Response:
    """Delete a key after its id was typed in."""
    principal = user.require(Right.ADMIN, every_table=True)
    if form.text("key_id") != key_id:
        raise RejectedInput(
            Code.BAD_REQUEST, "the typed id is not that of the key", remedy="Go back, and type the id of the key."
        )
    operations.delete(user.gateway, principal, key_id)
    return see_other(PATH)


def _wanted(form: FormFields) -> dict[str, Any]:
    """Return the fields of a new key as the model of the API takes them; it judges what cannot be read."""
    expires = form.optional("expires")
    return {
        "rights": [str(right) for right in RIGHTS if form.optional(f"right-{right}")],
        "tables": [line.strip() for line in form.raw("tables").splitlines() if line.strip()],
        "expires_at": None if expires is None else f"{expires}T00:00:00Z",
        "hmac": form.optional("hmac") is not None,
        **_changed(form),
    }


def _changed(form: FormFields) -> dict[str, Any]:
    """Return name and limits as the models of the API take them; null means no name, or the limit of the settings."""
    rate, size = form.optional("requests_per_second"), form.optional("bytes_per_second")
    return {
        "name": form.optional("name"),
        "requests_per_second": None if rate is None else _number(rate, float),
        "bytes_per_second": None if size is None else _number(size, int),
    }


def _typed(form: FormFields) -> dict[str, str]:
    """Return the text fields as they were typed in."""
    return {name: form.raw(name) for name in _NEW}


def _number(text: str, kind: type[float] | type[int]) -> float | str:
    try:
        return kind(text)
    except ValueError:
        return text


def _wrong_names(error: ValidationError) -> list[str]:
    return [*dict.fromkeys(str(issue["loc"][0]) for issue in error.errors())]


def _wrong_fields(error: ValidationError) -> RejectedInput:
    return RejectedInput(Code.BAD_REQUEST, f"wrong fields of a key: {', '.join(_wrong_names(error))}")


def _problems_of(error: ValidationError) -> tuple[str, ...]:
    return tuple(_PROBLEMS[name] for name in _wrong_names(error))


def _seen_key(key_id: str, user: SignedIn) -> StoredKey:
    """Return the key of a page. Raises RejectedInput `forbidden` or `unknown_key`."""
    user.require(Right.ADMIN, every_table=True)
    with translated_errors(), user.gateway.engine.begin() as connection:
        key = find_key(connection, key_id)
    if key is None:
        raise RejectedInput(Code.UNKNOWN_KEY, "no such key")
    return key


def _key(
    user: SignedIn,
    key: StoredKey,
    fields: Mapping[str, str],
    *,
    notice: Notice | None = None,
    problems: tuple[str, ...] = (),
    status: int = 200,
) -> Response:
    """Return the page of a key, with the fields of the form that changes it, and what is wrong with them."""
    return user.page(
        "key.html", "keys", status=status, key=key, fields=fields, notice=notice, problems=problems, overlaps=OVERLAPS
    )


def _new_key(
    user: SignedIn,
    fields: Mapping[str, str],
    *,
    chosen: frozenset[str] = frozenset(),
    signs: bool = False,
    problems: tuple[str, ...] = (),
    status: int = 200,
) -> Response:
    """Return the form of a new key, with what was typed in and what was wrong with it."""
    return user.page(
        "key_new.html",
        "keys",
        status=status,
        fields=fields,
        rights=RIGHTS,
        chosen=chosen,
        signs=signs,
        can_sign=user.gateway.settings.signing_key is not None,
        problems=problems,
    )


def _new_key_again(user: SignedIn, form: FormFields, error: RejectedInput, problems: tuple[str, ...]) -> Response:
    return _new_key(
        user,
        _typed(form),
        chosen=frozenset(str(right) for right in RIGHTS if form.optional(f"right-{right}")),
        signs=form.optional("hmac") is not None,
        problems=problems,
        status=user.rejected(error).status,
    )
