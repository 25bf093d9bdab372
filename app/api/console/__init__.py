"""The routes of the console: pages, forms and files below `/console`.

`sessions` gives a route its signed-in user, `forms` the checked fields of a POST, `answers` the responses, `rejections`
an error for the page of its action. `sign_in`,
`oidc_sign_in` and `assets` work without a session; `pages` has one router for each section. Routes read through
`app.staging` and call the functions of the API's routes, never the API over HTTP. No page is in the contract of the
API.
"""

from typing import Final

from fastapi import FastAPI

from app.api.console import assets, oidc_sign_in, sign_in
from app.api.console.pages import (
    audit,
    dead_letters,
    doctor,
    keys,
    overview,
    producers,
    table,
    tables,
    try_message,
    unknown,
)
from app.api.console.sessions import SignInRequired, answer_sign_in

_ROUTES: Final = (
    assets,
    sign_in,
    oidc_sign_in,
    overview,
    tables,
    table,
    dead_letters,
    producers,
    try_message,
    doctor,
    keys,
    audit,
    unknown,
)
"""Modules with a router each; `unknown` answers what no other does."""


def install_console(app: FastAPI) -> None:
    """Add the routes of the console to the application, and the redirect to the sign-in page."""
    for module in _ROUTES:
        app.include_router(module.router, include_in_schema=False)
    app.add_exception_handler(SignInRequired, answer_sign_in)
