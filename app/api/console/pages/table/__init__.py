"""The pages of one table: `/console/tables/{table}` and what is below it.

`seen_table` finds the table for the user and makes the head of the page; `status`, `files`, `schema`, `rows`,
`events` and `operations` have a router each. All need the right `read` for the table; the events and the operations
need `admin`.
"""

from typing import Final

from fastapi import APIRouter

from app.api.console.pages.table import events, files, operations, rows, schema, status

router: Final = APIRouter()
for _part in (status, files, schema, rows, events, operations):
    router.include_router(_part.router)
