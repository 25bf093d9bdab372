"""Query parameters that the lists of the API share."""

from typing import Annotated, Final

from fastapi import Query

MAX_ID: Final = 2**63 - 1
"""The largest id that Postgres stores."""

MAX_PAGE_ENTRIES: Final = 1000

PageLimit = Annotated[int, Query(ge=1, le=MAX_PAGE_ENTRIES, description="Maximum number of entries in the answer.")]
AfterId = Annotated[int, Query(ge=0, le=MAX_ID, description="Only entries with a greater id.")]
