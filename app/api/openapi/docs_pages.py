"""Pages that show the contract: Swagger UI at `/docs`, Redoc at `/redoc`.

All scripts are served from this package, so the pages work without internet access, and no other server supplies a
script to a page into which a user types a key. `app/api/openapi/static/README.md` lists the origin of the files.
`/` redirects to the console, or to `/docs` if the console is off.
"""

import asyncio
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

import msgspec
from fastapi import APIRouter, FastAPI, Request, Response
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
"""The media types of the files that are served, by file name."""

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # both pages set inline styles
        "img-src 'self' data:",
        "connect-src 'self'",
        "worker-src blob:",  # Redoc's search
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_REDOC_LOGO: Final = b"https://cdn.redoc.ly/redoc/logo-mini.svg"
"""A picture that Redoc would load from another server, which the policy forbids; the page shows our icon there."""

_PAGE_HEADERS: Final = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
_METHODS: Final = ["GET", "HEAD"]


@router.api_route("/", methods=_METHODS)
async def root(request: Request) -> Response:
    """Redirect to the console, or to Swagger UI if it is off."""
    return RedirectResponse("console" if request.app.gateway.settings.console else "docs", 307)


@router.api_route("/docs", methods=_METHODS)
async def swagger() -> Response:
    """Return the page of Swagger UI."""
    return _page("Swagger UI", ["swagger-ui.css"], ["swagger-ui-bundle.js", "swagger-start.js"])


@router.api_route("/redoc", methods=_METHODS)
async def redoc() -> Response:
    """Return the page of Redoc."""
    return _page("Redoc", [], ["redoc.standalone.js", "redoc-start.js"])


@router.api_route("/openapi.json", methods=_METHODS)
async def contract(request: Request) -> Response:
    """Return the contract as JSON."""
    return Response(encoded_contract(request.app), media_type="application/json")


@router.api_route("/docs/assets/{name}", methods=_METHODS)
async def asset(name: str) -> Response:
    """Return a script, style sheet or icon of the pages."""
    if name not in MEDIA_TYPES:
        raise HTTPException(404)
    content = await asyncio.to_thread(_content, name)
    return Response(content, headers={"Cache-Control": "max-age=3600"}, media_type=MEDIA_TYPES[name])


@router.api_route("/favicon.ico", methods=_METHODS)
async def favicon() -> Response:
    """Return the icon, for browsers that ask for it at the root."""
    return await asset("favicon.svg")


@lru_cache(1)
def encoded_contract(app: FastAPI) -> bytes:
    """Return the contract as JSON, the same object each time: callers without a key may read it slowly."""
    return msgspec.json.encode(app.openapi())


@cache
def _content(name: str) -> bytes:
    return (STATIC / name).read_bytes().replace(_REDOC_LOGO, b"docs/assets/favicon.svg")


def _page(title: str, styles: list[str], scripts: list[str]) -> HTMLResponse:
    links = "".join(f'<link rel="stylesheet" href="docs/assets/{name}">' for name in ["docs.css", *styles])
    loaded = "".join(f'<script src="docs/assets/{name}"></script>' for name in scripts)
    content = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Mirrorgate - {title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="docs/assets/favicon.svg">{links}</head>'
        f'<body><div id="docs"></div>{loaded}</body></html>'
    )
    return HTMLResponse(content, headers=_PAGE_HEADERS)
