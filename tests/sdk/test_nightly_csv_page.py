"""The tutorial on a nightly CSV runs as it is printed, and prints what it shows."""

from pathlib import Path

import sqlalchemy as sa

from tests.api.calls import ADMIN_KEY, own_gateway
from tests.api.commands import staged
from tests.support.documents import follow_page
from tests.support.processes import REPOSITORY

PAGE = (REPOSITORY / "docs/tutorials/nightly-csv.md").read_text(encoding="utf-8")


def test_each_night_the_table_gets_the_rows_of_the_file(database_url: str, engine: sa.Engine, tmp_path: Path) -> None:
    (tmp_path / ".mirrorgate").mkdir()
    (tmp_path / ".mirrorgate/admin.key").write_text(ADMIN_KEY)
    with own_gateway(database_url) as gateway:
        follow_page(PAGE.replace("http://127.0.0.1:8480", gateway.address), tmp_path)
    assert [row[0] for row in staged(engine, "pricing.articles")] == [1, 2, 3, 1, 3, 4, 2, 1, 3, 4]
