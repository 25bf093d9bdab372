"""The parameter `columns` of CSV bodies."""

import pytest

from app.api.changes.parameters import CsvParameters


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
