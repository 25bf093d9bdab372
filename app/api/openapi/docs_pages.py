"""Pages that show the contract: Swagger UI at `/docs`, Redoc at `/redoc`, and `/` leads to the first.

Everything they load is served from this package, so they work in a network without internet, and nobody else's server
hands a script to the page into which a key is typed. `app/api/openapi/static/README.md` says where the files are from.
"""

import asyncio
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException

router = APIRouter(include_in_schema=False)

STATIC: Final = Path(__file__).parent / "static"
MEDIA_TYPES: Final[Mapping[str, str]] = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "swagger-start.js": "text/javascript",
    "redoc.standalone.js": "text/javascript",
    "redoc-start.js": "text/javascript",
    "docs.css": "text/css",
    "favicon.svg": "image/svg+xml",
}
"""The files that are served, by name."""

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # both pages style what they draw by elements and attributes of their own
        "img-src 'self' data:",
        "connect-src 'self'",
        "worker-src blob:",  # Redoc's search
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_OF_PAGES: Final = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
_METHODS: Final = ["GET", "HEAD"]


@router.api_route("/", methods=_METHODS)
async def root() -> Response:
    return RedirectResponse("docs", 307)


@router.api_route("/docs", methods=_METHODS)
async def swagger() -> Response:
    return _page("Swagger UI", ["swagger-ui.css"], ["swagger-ui-bundle.js", "swagger-start.js"])


@router.api_route("/redoc", methods=_METHODS)
async def redoc() -> Response:
    return _page("Redoc", [], ["redoc.standalone.js", "redoc-start.js"])


@router.api_route("/openapi.json", methods=_METHODS)
async def contract(request: Request) -> Response:
    return Response(msgspec.json.encode(request.app.openapi()), media_type="application/json")


@router.api_route("/docs/assets/{name}", methods=_METHODS)
async def asset(name: str) -> Response:
    if name not in MEDIA_TYPES:
        raise HTTPException(404)
    content = await asyncio.to_thread(_content, name)
    return Response(content, headers={"Cache-Control": "max-age=3600"}, media_type=MEDIA_TYPES[name])


@router.api_route("/favicon.ico", methods=_METHODS)
async def favicon() -> Response:
    return await asset("favicon.svg")


@cache
def _content(name: str) -> bytes:
    return (STATIC / name).read_bytes()


def _page(title: str, styles: list[str], scripts: list[str]) -> HTMLResponse:
    links = "".join(f'<link rel="stylesheet" href="docs/assets/{name}">' for name in ["docs.css", *styles])
    loaded = "".join(f'<script src="docs/assets/{name}"></script>' for name in scripts)
    content = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Mirrorgate - {title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="docs/assets/favicon.svg">{links}</head>'
        f'<body><div id="docs"></div>{loaded}</body></html>'
    )
    return HTMLResponse(content, headers=_OF_PAGES)
