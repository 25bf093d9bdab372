"""The pages of one table: `/console/tables/{table}` and what is below it.

`seen_table` finds the table for the user and makes the head of the page; `status`, `files`, `schema`, `rows`,
`events`, `operations`, `backfill`, `rebuild` and `loads` have a router each. `submission` reads forms about a table.
All need the right `read` for the table; the events, the operations, the backfill and the rebuild need `admin`, aborting
a load needs `ingest`.
"""

from typing import Final

from fastapi import APIRouter

from app.api.console.pages.table import backfill, events, files, loads, operations, rebuild, rows, schema, status

router: Final = APIRouter()
for _part in (status, files, schema, rows, events, operations, backfill, rebuild, loads):
    router.include_router(_part.router)
