"""Some rows of the mirrored table, if the gateway knows the target of the mirror."""

import asyncio

import msgspec
from fastapi import APIRouter, Request, Response

from app.api.console.answers import page
from app.api.console.pages.table.seen_table import PATH, SeenTable, number_in, seen_table
from app.api.console.rejections import rejected
from app.api.console.sessions import ConsoleUser, SignedIn
from app.api.gateway import Gateway, GatewayDep
from app.console.views.table.rows import RowsView, row_limit, rows_page
from app.errors import RejectedInput, TemporarilyUnavailable
from app.staging.connection.database import translated_errors

router = APIRouter()


@router.get(PATH + "/rows")
async def rows(table: str, request: Request, user: ConsoleUser, gateway: GatewayDep, version: str = "") -> Response:
    """Show some rows of the newest version, or of the one that is asked for."""
    seen, status = await asyncio.to_thread(_seen, gateway, user, table), 200
    asked = version.strip()[:20]
    if gateway.mirror_rows is None:
        view = RowsView(seen.head, is_possible=False)
    else:
        wanted = number_in(asked, -1)
        try:
            found = await gateway.mirror_rows.read(
                seen.table.name, None if wanted < 0 else wanted, row_limit(len(seen.table.schema.columns))
            )
        except (RejectedInput, TemporarilyUnavailable) as error:
            answer = rejected(request, error)
            view, status = RowsView(seen.head, is_possible=True, asked=asked, notice=answer.notice), answer.status
        else:
            names = [name for name, _ in found.columns]
            values = [msgspec.json.decode(row) for row in found.rows]
            view = rows_page(seen.head, asked, found.version, names, values, has_more=found.has_more)
    return page(request, "table/rows.html", view, user.chrome("tables"), status=status)


def _seen(gateway: Gateway, user: SignedIn, table: str) -> SeenTable:
    with translated_errors(), gateway.engine.begin() as connection:
        return seen_table(connection, user, table, "Rows")
