"""The rules of a table as changes and row images are read, and the cache of what was worked out from rules."""

from dataclasses import replace

import pytest

from app.domain.access.mask_secret import SALT_BYTES, MaskSecret
from app.domain.model.names import TableName
from app.domain.model.table import Generation, Table, TableId, TableState
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import SchemaVersion
from app.domain.rows.row_rules import KeptByTable, Masking, RowRules
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "name": "string"}, ["id"])
PLACE = (TableId(1), TableName.parse("t"), Generation(1), TableState.ACTIVE, SchemaVersion(1), SCHEMA)
MASKED = TableOptions.parse({"masks": {"name": {"method": "hash"}}})


def test_the_rules_of_a_table_are_those_that_it_has_now() -> None:
    options, left = TableOptions(), frozenset({"name"})
    table = Table(*PLACE, options, left_columns=left, cdc_started=True, images_complete=True)
    assert RowRules.of(table) == RowRules(SCHEMA, options, left, cdc_started=True, images_complete=True)
    assert RowRules.of(table, in_load=True) == replace(RowRules.of(table), in_load=True)
    young = replace(table, cdc_started=False, images_complete=False)
    assert RowRules.of(young) == RowRules(SCHEMA, options, left)
    assert RowRules.of(young).after_start() == RowRules(SCHEMA, options, left, cdc_started=True)


def test_only_values_of_the_source_are_masked_because_row_images_have_masked_ones() -> None:
    secret = MaskSecret(b"secret")
    table = Table(*PLACE, MASKED, mask_fingerprint=secret.fingerprint(bytes(SALT_BYTES)))
    assert RowRules.of(table).masking is None
    assert RowRules.of_source(Table(*PLACE), secret) == RowRules.of(Table(*PLACE))
    for in_load in (False, True):
        rules = RowRules.of_source(table, secret, in_load=in_load)
        assert rules.masking == Masking(table, secret)
        assert replace(rules, masking=None) == RowRules.of(table, in_load=in_load)


def test_what_is_kept_for_rules_is_found_under_the_same_schema_options_and_key_only() -> None:
    kept = KeptByTable[str]()
    rules = RowRules(SCHEMA, TableOptions())
    assert kept.get(rules) is None
    assert kept.keep(rules, None, "whole") == "whole"
    assert kept.keep(rules, "k", "of k") == "of k"
    assert (kept.get(rules), kept.get(rules, "k"), kept.get(rules, "other")) == ("whole", "of k", None)
    assert kept.get(rules.after_start()) == "whole"
    assert kept.get(replace(rules, options=TableOptions())) is None
    assert kept.get(replace(rules, schema=replace(SCHEMA))) is None


def test_a_cache_that_would_have_too_many_columns_is_emptied_and_filled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.domain.rows.row_rules.MAX_KEPT_COLUMNS", 3 * len(SCHEMA.columns))
    kept = KeptByTable[int]()
    rules = RowRules(SCHEMA)

    def found() -> list[int]:
        return [key for key in range(10) if kept.get(rules, key) is not None]

    for first in (0, 3, 6):
        for key in range(first, first + 3):
            kept.keep(rules, key, key + 1)
        assert found() == [first, first + 1, first + 2]
