"""API keys: create, list, delete."""

import secrets
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Response

from app.api.auth import Administrator
from app.api.gateway import GatewayOf
from app.api.key_models import CreatedKeyModel, CreateKey, KeyModel, KeysModel
from app.api.openapi import problems
from app.domain.access import Right
from app.domain.api_key import format_key, hash_secret
from app.errors import Code, Problem, RejectedInput
from app.staging.api_keys import delete_key, insert_key, list_keys
from app.staging.database import translated_errors

router = APIRouter(prefix="/v1/keys", tags=["keys"])


@router.post(
    "",
    status_code=201,
    operation_id="create_key",
    summary="Create an API key; its secret is shown this once",
    response_model=CreatedKeyModel,
    responses=problems(400, 401, 403, 503),
)
def post_key(wanted: CreateKey, gateway: GatewayOf, principal: Administrator) -> CreatedKeyModel:
    expires_at = wanted.expires_at
    if expires_at is not None and not _is_future(expires_at):
        problem = Problem(Code.BAD_REQUEST, "expires_at must be a future time with an offset", pointer="/expires_at")
        raise RejectedInput.of((problem,))
    key_id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    rights = tuple(Right(right) for right in wanted.rights)
    with translated_errors(), gateway.engine.begin() as connection:
        insert_key(connection, key_id, hash_secret(secret), rights, tuple(wanted.tables), expires_at)
    return CreatedKeyModel(
        id=key_id, key=format_key(key_id, secret), rights=wanted.rights, tables=wanted.tables, expires_at=expires_at
    )


@router.get(
    "",
    operation_id="list_keys",
    summary="All keys, without their secrets",
    response_model=KeysModel,
    responses=problems(401, 403, 503),
)
def get_keys(gateway: GatewayOf, principal: Administrator) -> KeysModel:
    with translated_errors(), gateway.engine.begin() as connection:
        keys = list_keys(connection)
    return KeysModel(
        keys=[
            KeyModel(
                id=key.key_id,
                rights=list(key.rights),
                tables=list(key.table_patterns),
                created_at=key.created_at,
                expires_at=key.expires_at,
            )
            for key in keys
        ]
    )


@router.delete(
    "/{key_id}",
    status_code=204,
    operation_id="delete_key",
    summary="Delete a key; it stops working within five seconds",
    responses=problems(401, 403, 404, 503),
)
def delete(
    key_id: Annotated[str, Path(description="The `id` of the key.", examples=["1a2b3c4d"])],
    gateway: GatewayOf,
    principal: Administrator,
) -> Response:
    with translated_errors(), gateway.engine.begin() as connection:
        if not (key_id.isascii() and key_id.isalnum() and delete_key(connection, key_id)):
            raise RejectedInput(Code.UNKNOWN_KEY, "no such key")
    return Response(status_code=204)


def _is_future(moment: datetime) -> bool:
    """Whether a time with an offset lies ahead; one that UTC cannot express does not."""
    try:
        return moment.tzinfo is not None and moment.astimezone(UTC) > datetime.now(UTC)
    except OverflowError:
        return False
