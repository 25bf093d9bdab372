"""`/console/keys`: all API keys without their secrets; operations on them are those of the API.

A secret is in one answer, which is not stored: no address and no later page has it.
"""

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from app.api.console.answers import page, see_other
from app.api.console.forms import ConsoleForm, Form
from app.api.console.rejections import rejected
from app.api.console.sessions import ConsoleUser, SignedIn
from app.api.gateway import Gateway, GatewayDep
from app.api.operations import keys as operations
from app.api.schemas.keys import MAX_OVERLAP_SECONDS, CreateKey, UpdateKey
from app.console.views.keys import (
    PATH,
    RIGHTS,
    KeyView,
    LimitFields,
    NewKeyView,
    SecretView,
    key_row,
    keys_view,
    path_of,
)
from app.console.views.notice import NoticeView
from app.domain.access.rights import Right
from app.errors import Code, RejectedInput
from app.staging.access.api_keys import StoredKey, find_key, list_keys
from app.staging.connection.database import translated_errors

router = APIRouter()

_PROBLEMS: Final = {
    "name": "A name has at most 100 characters, and no control characters.",
    "rights": "Choose at least one right.",
    "tables": "Name at least one table or pattern, each on its own line and of at most 300 characters.",
    "expires_at": "The day of expiry must be a date, such as 2030-12-31.",
    "requests_per_second": "Requests per second must be a number from 0.001 to 1,000,000.",
    "bytes_per_second": "Bytes per second must be a whole number above 0.",
}
"""What to say of a field that the model rejects."""

_CHANGED: Final = NoticeView("good", "The key is changed.", "Its limits apply within five seconds.")


@router.get(PATH)
def all_keys(request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """List all keys."""
    user.require(Right.ADMIN, every_table=True)
    with translated_errors(), gateway.engine.begin() as connection:
        found = list_keys(connection)
    view = keys_view(found, user.credential.subject, gateway.authenticator.settings_key_id)
    return page(request, "keys.html", view, user.chrome("keys"))


@router.get(PATH + "/new")
def new_key(request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Show the form of a new key."""
    user.require(Right.ADMIN, every_table=True)
    return page(request, "key_new.html", NewKeyView(_can_sign(gateway)), user.chrome("keys"))


@router.post(PATH + "/new")
def create(request: Request, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Create a key and show its secret, or the form again with what is wrong."""
    principal = user.require(Right.ADMIN, every_table=True)
    try:
        made = operations.create(gateway, principal, CreateKey.model_validate(_wanted(form)))
    except ValidationError as error:
        return _form_again(request, user, gateway, form, _wrong_fields(error), _problems_of(error))
    except RejectedInput as error:
        if error.code is not Code.BAD_REQUEST:
            raise
        return _form_again(request, user, gateway, form, error, (f"{error.detail}.",))
    view = SecretView(made.id, path_of(made.id), "The key is created", made.key, made.signing_secret, None)
    return page(request, "key_secret.html", view, user.chrome("keys"))


@router.get(PATH + "/{key_id}")
def one_key(request: Request, key_id: str, user: ConsoleUser, gateway: GatewayDep, done: str = "") -> Response:
    """Show a key, and the forms that change, rotate and delete it."""
    key = _seen_key(key_id, user, gateway)
    row = key_row(key, user.credential.subject)
    view = KeyView(row, key.name or "", LimitFields.of(key.limits), notice=_CHANGED if done == "change" else None)
    return page(request, "key.html", view, user.chrome("keys"))


@router.post(PATH + "/{key_id}/change")
def change(request: Request, key_id: str, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Replace the name and both rate limits of a key, or show the page again with what is wrong."""
    principal = user.require(Right.ADMIN, every_table=True)
    try:
        operations.update(gateway, principal, key_id, UpdateKey.model_validate(_changed(form)))
    except ValidationError as error:
        row = key_row(_seen_key(key_id, user, gateway), user.credential.subject)
        view = KeyView(row, form.raw("name"), _limit_fields(form), _problems_of(error))
        status = rejected(request, _wrong_fields(error)).status
        return page(request, "key.html", view, user.chrome("keys"), status=status)
    return see_other(f"{path_of(key_id)}?done=change")


@router.post(PATH + "/{key_id}/rotate")
def rotate(request: Request, key_id: str, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Give a key a new secret and show it."""
    principal, overlap = user.require(Right.ADMIN, every_table=True), form.number("overlap")
    if overlap > MAX_OVERLAP_SECONDS:
        raise RejectedInput(Code.BAD_REQUEST, f"the overlap is longer than {MAX_OVERLAP_SECONDS} seconds")
    made = operations.rotate(gateway, principal, key_id, overlap)
    view = SecretView(made.id, path_of(made.id), "The key has a new secret", made.key, None, made.former_secret_until)
    return page(request, "key_secret.html", view, user.chrome("keys"))


@router.post(PATH + "/{key_id}/delete")
def delete(key_id: str, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Delete a key after its id was typed in."""
    principal = user.require(Right.ADMIN, every_table=True)
    if form.text("key_id") != key_id:
        raise RejectedInput(
            Code.BAD_REQUEST, "the typed id is not that of the key", remedy="Go back, and type the id of the key."
        )
    operations.delete(gateway, principal, key_id)
    return see_other(PATH)


def _wanted(form: Form) -> dict[str, Any]:
    """Return the fields of a new key as the model of the API takes them; it judges what cannot be read."""
    expires = form.optional("expires")
    return {
        "rights": [str(right) for right in RIGHTS if form.optional(f"right-{right}")],
        "tables": [line.strip() for line in form.raw("tables").splitlines() if line.strip()],
        "expires_at": None if expires is None else f"{expires}T00:00:00Z",
        "hmac": form.optional("hmac") is not None,
        **_changed(form),
    }


def _changed(form: Form) -> dict[str, Any]:
    """Return name and limits as the models of the API take them; null means no name, or the limit of the settings."""
    rate, size = form.optional("requests_per_second"), form.optional("bytes_per_second")
    return {
        "name": form.optional("name"),
        "requests_per_second": None if rate is None else _number(rate, float),
        "bytes_per_second": None if size is None else _number(size, int),
    }


def _limit_fields(form: Form) -> LimitFields:
    """Return the rate limits as they were typed in."""
    return LimitFields(form.raw("requests_per_second"), form.raw("bytes_per_second"))


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


def _seen_key(key_id: str, user: SignedIn, gateway: Gateway) -> StoredKey:
    """Return the key of a page. Raises RejectedInput `forbidden` or `unknown_key`."""
    user.require(Right.ADMIN, every_table=True)
    with translated_errors(), gateway.engine.begin() as connection:
        key = find_key(connection, key_id)
    if key is None:
        raise RejectedInput(Code.UNKNOWN_KEY, "no such key")
    return key


def _form_again(
    request: Request,
    user: ConsoleUser,
    gateway: Gateway,
    form: Form,
    error: RejectedInput,
    problems: tuple[str, ...],
) -> Response:
    view = NewKeyView(
        can_sign=_can_sign(gateway),
        name=form.raw("name"),
        chosen=frozenset(str(right) for right in RIGHTS if form.optional(f"right-{right}")),
        tables=form.raw("tables"),
        expires=form.raw("expires"),
        hmac=form.optional("hmac") is not None,
        limits=_limit_fields(form),
        problems=problems,
    )
    return page(request, "key_new.html", view, user.chrome("keys"), status=rejected(request, error).status)


def _can_sign(gateway: Gateway) -> bool:
    return gateway.settings.signing_key is not None
