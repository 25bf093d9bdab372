"""Answers the paths of the console that no other route has: sign in first, then the page says that nothing is there."""

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

from app.api.console.sessions import ConsoleUser

router = APIRouter()


@router.get("/console/{path:path}")
async def unknown(user: ConsoleUser, path: str) -> Response:
    """Answer 404. A caller without a session learns nothing about which pages exist."""
    raise HTTPException(404)
