"""What a browser loads for the pages of a gateway with 1,000 tables."""

from typing import Final

import pytest
import sqlalchemy as sa
from playwright.sync_api import Response

from app.console.render import SECTIONS
from tests.api.console.browser.visitor import Visitor
from tests.api.console.test_overview import BLOCKS, TABLES
from tests.support.postgres import sql

pytestmark = pytest.mark.slow

MAX_PAGE_BYTES: Final = 200_000


@pytest.mark.usefixtures("gateway")
def test_a_page_with_its_scripts_and_styles_is_small_at_a_thousand_tables(
    visitor: Visitor, api_engine: sa.Engine
) -> None:
    for statement in (TABLES, BLOCKS):
        sql.run(api_engine, statement)
    table = "/console/tables/crm_0001.opportunities_of_region"
    answers: list[Response] = []
    visitor.page.on("response", lambda answer: answers.append(answer))
    for path in (
        *(section.path for section in SECTIONS),
        table,
        *(f"{table}/{page}" for page in ("schema", "events", "rebuild")),
    ):
        # An answer to a script of the page before would have no body any more.
        visitor.page.goto("about:blank")
        answers.clear()
        assert visitor.open(path).ok
        assert 0 < sum(len(answer.body()) for answer in answers) < MAX_PAGE_BYTES, path
    assert visitor.complaints == []
