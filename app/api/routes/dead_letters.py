"""`/v1/tables/{table}/dead-letters`: list rejected messages, read one, replay or discard them."""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response

from app.api.auth.dependencies import Administrator, Reader, visible_name
from app.api.changes.endpoints import read_other_body
from app.api.gateway import GatewayDep
from app.api.openapi.document import problems
from app.api.operations.keys import caller_names
from app.api.operations.table_operations import (
    discard_one,
    discard_through,
    found_table,
    letter_message,
    replay_one,
    replay_waiting,
)
from app.api.routes.table_operations import GenerationParameter
from app.api.routes.tables import TablePath
from app.api.schemas.changes import (
    DeadLetterModel,
    DeadLettersModel,
    DiscardedModel,
    ReplayedLettersModel,
    ReplayedModel,
)
from app.api.schemas.common import MAX_ID, WHOLE_NUMBER, AfterId, PageLimit
from app.domain.model.dead_letter import MAX_LETTER_BYTES, LetterFormat, LetterState
from app.domain.model.table import Generation
from app.staging.batches.dead_letters import StoredLetter, list_letters
from app.staging.connection.database import translated_errors

router = APIRouter(prefix="/v1/tables/{table}/dead-letters", tags=["dead letters"])

LetterPath = Annotated[int, Path(ge=1, le=MAX_ID, description="The id of the dead letter."), WHOLE_NUMBER]
_RESPONSES = problems(400, 401, 403, 404, 409, 413, 415, 422, 503)
_CSV: Final = frozenset({LetterFormat.ARCION_CSV, LetterFormat.ROWS_CSV})
"""The formats whose messages are not JSON."""
_MESSAGE: Final = {"application/json": {"schema": {"type": "object"}}, "text/csv": {"schema": {"type": "string"}}}


@router.get(
    "",
    summary="List the dead letters of a table, without row values",
    responses=problems(400, 401, 403, 404, 422, 503),
)
def list_dead_letters(
    table: TablePath,
    gateway: GatewayDep,
    principal: Reader,
    state: Annotated[LetterState | None, Query(description="Only dead letters in this state.")] = None,
    after: AfterId = 0,
    limit: PageLimit = 100,
) -> DeadLettersModel:
    """Return the dead letters of every table that has or had this name, in order of arrival."""
    name = visible_name(table, principal)
    with translated_errors(), gateway.engine.begin() as connection:
        letters = list_letters(connection, name, state=state, after=after, limit=limit)
        if not letters:
            name = found_table(connection, name).name
        callers = (caller for letter in letters for caller in (letter.principal, letter.settled_by))
        names = caller_names(gateway, connection, callers)
    next_after = letters[-1].letter_id if len(letters) == limit else None
    return DeadLettersModel(
        table=str(name), letters=[_letter_model(letter, names) for letter in letters], next_after=next_after
    )


@router.get(
    "/{letter_id:digits}",
    summary="Download the message of a dead letter",
    response_class=Response,
    responses={200: {"description": "The message", "content": _MESSAGE}, **problems(400, 401, 403, 404, 422, 503)},
)
def get_dead_letter(table: TablePath, letter_id: LetterPath, gateway: GatewayDep, principal: Administrator) -> Response:
    """Return the message byte for byte as it was sent. It contains row values, so it requires the right `admin`."""
    written = letter_message(gateway, table, letter_id, principal)
    return Response(written.content, media_type="text/csv" if written.format in _CSV else "application/json")


@router.post(
    "/replay",
    status_code=202,
    summary="Replay the waiting dead letters of a table in order",
    responses=_RESPONSES,
)
async def replay_dead_letters(
    table: TablePath,
    gateway: GatewayDep,
    principal: Administrator,
    after: AfterId = 0,
    limit: PageLimit = 100,
) -> ReplayedLettersModel:
    """Send each message through ingestion again, in its own transaction.

    A message that is rejected again remains a dead letter and does not block the others.
    """
    done = await replay_waiting(gateway, table, principal, after=after, limit=limit)
    return ReplayedLettersModel(replayed=done.replayed, rejected=done.rejected, next_after=done.next_after)


@router.post(
    "/{letter_id:digits}/replay",
    status_code=202,
    summary="Replay a dead letter, optionally with a corrected message",
    response_model=ReplayedModel,
    responses=_RESPONSES,
    openapi_extra={
        "requestBody": {"description": "A corrected message in the format of the original.", "content": _MESSAGE}
    },
)
async def replay_dead_letter(
    table: TablePath, letter_id: LetterPath, request: Request, gateway: GatewayDep, principal: Administrator
) -> Response:
    """Accept the change now, after everything that was accepted since.

    If the message is rejected again, it remains a dead letter.
    """
    visible_name(table, principal)  # an unknown table is rejected before the body is read
    correction = await read_other_body(request, gateway.settings, MAX_LETTER_BYTES)
    receipt = await replay_one(gateway, table, letter_id, principal, correction or None)
    content = msgspec.json.encode({"id": letter_id, "receipt": receipt})
    return Response(content, 202, media_type="application/json")


@router.delete(
    "",
    summary="Discard the waiting dead letters up to an id",
    responses=_RESPONSES,
)
def discard_dead_letters(
    table: TablePath,
    gateway: GatewayDep,
    principal: Administrator,
    generation: GenerationParameter,
    through: Annotated[int, Query(ge=1, le=MAX_ID, description="The last dead letter to discard."), WHOLE_NUMBER],
) -> DiscardedModel:
    """Discard the dead letters and record one event. They remain readable until retention purges them."""
    return DiscardedModel(discarded=discard_through(gateway, table, Generation(generation), through, principal))


@router.delete(
    "/{letter_id:digits}",
    summary="Discard a dead letter",
    responses=_RESPONSES,
)
def discard_dead_letter(
    table: TablePath, letter_id: LetterPath, gateway: GatewayDep, principal: Administrator
) -> DiscardedModel:
    """Discard the dead letter; a repeat changes nothing. It remains readable until retention purges it."""
    return DiscardedModel(discarded=discard_one(gateway, table, letter_id, principal))


def _letter_model(letter: StoredLetter, names: Mapping[str, str]) -> DeadLetterModel:
    return DeadLetterModel.of(
        letter,
        id=letter.letter_id,
        bytes=letter.message_bytes,
        index=letter.message_index,
        key_id=letter.principal,
        key_name=names.get(letter.principal),
        request=letter.request_name,
        settled_by_name=names.get(letter.settled_by or ""),
    )
