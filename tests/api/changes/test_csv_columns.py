"""Query parameters with several names: `columns` of CSV bodies, and those of Debezium's events."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from app.api.changes.parameters import CsvParameters, csv_query, debezium_query
from mirrorgate.errors import Code
from tests.support.rejections import rejected


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        ("id,name", ("id", "name")),
        (" id , name ", ("id", "name")),
        ('id,"a,b"', ("id", "a,b")),
        ('id, "a,b", "say ""x"""', ("id", "a,b", 'say "x"')),
        (None, ()),
    ],
)
def test_columns_are_names_between_commas_one_with_a_comma_in_quotes(
    given: str | None, columns: tuple[str, ...]
) -> None:
    parameters = CsvParameters.model_validate({"mode": "snapshot", "columns": given})
    assert parameters.layout.columns == columns


@pytest.mark.parametrize("names", ["a\rb", "a\nb", "x" * 140_000])
@pytest.mark.parametrize(
    ("read", "others", "parameter"),
    [
        (csv_query, "table=t&mode=snapshot&", "columns"),
        (debezium_query, "", "key_columns"),
        (debezium_query, "", "unavailable"),
    ],
)
def test_names_that_cannot_be_read_are_rejected(
    read: Callable[[bytes], Any], others: str, parameter: str, names: str
) -> None:
    with rejected(Code.BAD_REQUEST) as rejection:
        read(f"{others}{parameter}={quote(names)}".encode())
    assert parameter in rejection.detail
