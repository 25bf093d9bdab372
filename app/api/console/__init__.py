"""The routes of the console: pages, forms and files below `/console`.

`answers` gives a route its signed-in user, the checked fields of a POST, and the responses. `sign_in` works without a
session, and so do the files that pages load; `pages` has a router for each section. Routes read through `app.staging`
and call the functions of the API's routes, never the API over HTTP. No page is in the contract of the API.
"""

import asyncio
from typing import Final

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

from app.api.console import sign_in
from app.api.console.answers import ConsoleUser
from app.api.console.pages import acts, dead_letters, keys, overview, table, try_message
from app.console.render import MEDIA_TYPES, PREFIX
from app.console.render import asset as find_asset

CONSOLE: Final = APIRouter(include_in_schema=False)

_KEPT: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


@CONSOLE.api_route(PREFIX + "{name:path}", methods=["GET", "HEAD"])
async def asset(name: str) -> Response:
    """Return a style sheet, script or icon, without a session. Its address has the hash, so it never changes."""
    if name not in MEDIA_TYPES:
        raise HTTPException(404)
    found = await asyncio.to_thread(find_asset, name)
    return Response(found.content, headers=_KEPT, media_type=found.media_type)


for _page in (sign_in, overview, table, acts, dead_letters, try_message, keys):
    CONSOLE.include_router(_page.router)


@CONSOLE.get("/console/{path:path}")
async def unknown(user: ConsoleUser, path: str) -> Response:
    """Answer 404 to what no other route answers. A caller without a session learns nothing about which pages exist."""
    raise HTTPException(404)
