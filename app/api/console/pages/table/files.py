"""The landing files of a table, and one file with its batches."""

from fastapi import APIRouter, Request, Response

from app.api.console.answers import page
from app.api.console.pages.table.seen_table import PATH, SeenTable, number_in, seen_table
from app.api.console.sessions import ConsoleUser
from app.api.gateway import GatewayDep
from app.console.views.notice import NoticeView
from app.console.views.table.files import NEWEST, PAGE_BATCHES, PAGE_FILES, FileView, file_page, files_page
from app.console.views.table.operations import notice_of
from app.domain.model.table import BatchSequence, FileNumber
from app.errors import Code, RejectedInput
from app.staging.connection.database import Connection, translated_errors
from app.staging.ledger.file_pages import batches_of_file, find_file, newest_files

router = APIRouter()


@router.get(PATH + "/files")
def files(table: str, request: Request, user: ConsoleUser, gateway: GatewayDep, before: str = "") -> Response:
    """Show a page of files, the newest first."""
    with translated_errors(), gateway.engine.begin() as connection:
        seen = seen_table(connection, user, table, "Files")
        life = (seen.table.table_id, seen.table.generation)
        found = newest_files(connection, *life, before=FileNumber(number_in(before, NEWEST)), limit=PAGE_FILES)
        newest = newest_files(connection, *life, before=NEWEST, limit=1)
    view = files_page(seen.head, found, newest[0].number if newest else 0)
    return page(request, "table/files.html", view, user.chrome("tables"))


@router.get(PATH + "/files/{number}")
def file(
    table: str,
    number: str,
    request: Request,
    user: ConsoleUser,
    gateway: GatewayDep,
    after: str = "",
    done: str = "",
) -> Response:
    """Show one file with its batches."""
    with translated_errors(), gateway.engine.begin() as connection:
        seen = seen_table(connection, user, table, "Files")
        view = file_view(connection, seen, number_in(number, 0), number_in(after, 0), notice=notice_of(done))
    return page(request, "table/file.html", view, user.chrome("tables"))


def file_view(
    connection: Connection, seen: SeenTable, number: int, after: int = 0, *, notice: NoticeView | None = None
) -> FileView:
    """Return one file with a page of its batches. Raises RejectedInput `unknown_file`."""
    table_id, generation = seen.table.table_id, seen.table.generation
    found = find_file(connection, table_id, generation, FileNumber(number))
    if found is None:
        raise RejectedInput(Code.UNKNOWN_FILE, f"generation {generation} has no file {number}, or no longer")
    batches = batches_of_file(connection, table_id, generation, found, after=BatchSequence(after), limit=PAGE_BATCHES)
    return file_page(seen.head, found, batches, is_admin=seen.is_admin, notice=notice)
