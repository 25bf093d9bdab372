"""The files that pages load, which need no session. Their addresses have the content hash, so they never change."""

import asyncio
from typing import Final

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

from app.console.assets import MEDIA_TYPES, PREFIX
from app.console.assets import asset as find_asset

router = APIRouter()

_KEPT: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


@router.api_route(PREFIX + "{name:path}", methods=["GET", "HEAD"])
async def asset(name: str) -> Response:
    """Return a style sheet, script or icon."""
    if name not in MEDIA_TYPES:
        raise HTTPException(404)
    found = await asyncio.to_thread(find_asset, name)
    return Response(found.content, headers=_KEPT, media_type=found.media_type)
