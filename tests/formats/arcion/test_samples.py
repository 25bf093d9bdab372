"""One file of tests/samples/arcion for each rule of the format: messages, and their rows or errors."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.domain.model.change import Change
from app.domain.rows.landing_rows import landing_rows
from app.formats.arcion.csv import decode_arcion_csv
from app.formats.arcion.messages import decode_arcion
from mirrorgate.parameters import CsvLayout, CsvMode
from tests.support.rejections import rejected
from tests.support.samples.schemas import schema_of

SAMPLES = sorted((Path(__file__).parents[2] / "samples" / "arcion").glob("*.json"))


def changes(sample: dict[str, Any], numbers: frozenset[str]) -> list[Change]:
    if "csv" in sample:
        layout = sample["csv"]
        columns = tuple(layout.get("columns", ()))
        declared = CsvLayout(CsvMode(layout["mode"]), columns, layout.get("header", False))
        return decode_arcion_csv("\n".join(sample["lines"]).encode(), declared, numbers).changes
    return [entry.change for entry in decode_arcion(json.dumps(sample["messages"]).encode())]


def landed(sample: dict[str, Any]) -> list[list[Any]]:
    declared = sample["table"]
    schema = schema_of(declared["columns"], declared["keys"])
    numbers = frozenset(name for name, declared_type in declared["columns"].items() if declared_type != "string")
    return [list(row.values()) for row in landing_rows(changes(sample, numbers), schema).batch.to_pylist()]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_makes_its_rows_or_errors(path: Path) -> None:
    sample = json.loads(path.read_bytes())
    if "rows" in sample:
        assert landed(sample) == sample["rows"]
        return
    with rejected() as rejection:
        landed(sample)
    places = rejection.places or [(rejection.code, None, None, None)]
    assert [list(place) for place in places][: len(sample["errors"])] == sample["errors"]
