"""The columns, options and schema versions of a table."""

from fastapi import APIRouter, Request, Response

from app.api.console import answers
from app.api.console.pages.table.seen_table import PATH, number_in, seen_table
from app.api.console.sessions import ConsoleUser
from app.api.gateway import GatewayDep
from app.console.views.table.schema import MAX_VERSIONS, schema_page
from app.staging.connection.database import translated_errors
from app.staging.tables.schema_versions import newest_versions

router = APIRouter()


@router.get(PATH + "/schema")
def schema(table: str, request: Request, user: ConsoleUser, gateway: GatewayDep, page: str = "") -> Response:
    """Show columns, options and schema versions."""
    with translated_errors(), gateway.engine.begin() as connection:
        seen = seen_table(connection, user, table, "Schema")
        versions = newest_versions(connection, seen.table.table_id, limit=MAX_VERSIONS + 1)
    view = schema_page(seen.head, seen.table, versions, number_in(page, 1))
    return answers.page(request, "table/schema.html", view, user.chrome("tables"))
