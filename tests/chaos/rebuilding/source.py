"""A source of a few rows, whose keys change too: its messages in the shape of Arcion, and the rows that it has."""

import random
from collections.abc import Mapping
from typing import Any, Final

from app.domain.model.table_schema import TableSchema
from tests.support.samples.messages import arcion

MIN_ROWS: Final = 6
MAX_ROWS: Final = 16
"""Rows stay few, so that a round costs the same at the end as at the beginning."""

Row = dict[str, str]


class KeyedSource:
    """Rows of `id`, `code` and `amount`; both `id` and `code` are unique. A new name of a column ends with `_`."""

    def __init__(self, chance: random.Random) -> None:
        self.rows: list[Row] = []
        self._chance, self._last = chance, 0

    def change(self, schema: TableSchema) -> list[dict[str, Any]]:
        """Change some rows; return the messages of one request for a table that has this schema now."""
        [key] = (name.rstrip("_") for name in schema.key_columns)
        action = self._chance.choice(["insert", "update", "other", "key", "swap", "delete"])
        if len(self.rows) < MIN_ROWS or (action == "insert" and len(self.rows) < MAX_ROWS):
            row = {"id": self._fresh(), "code": f"c{self._fresh()}", "amount": f"{self._chance.randrange(999)}.25"}
            self.rows.append(row)
            return [_message(schema, "I", {}, row)]
        row = self._chance.choice(self.rows)
        if action in {"insert", "delete"}:
            self.rows.remove(row)
            return [_message(schema, "D", {key: row[key]}, {})]
        other = "code" if key == "id" else "id"
        if action == "swap":
            two = self._chance.choice([one for one in self.rows if one is not row])
            row[other], two[other] = two[other], row[other]
            return [_message(schema, "U", {key: one[key]}, {key: one[key], other: one[other]}) for one in (row, two)]
        before, changed = {key: row[key]}, {"update": "amount", "other": other, "key": key}[action]
        fresh = self._fresh()
        row[changed] = {"amount": f"{fresh}.5", "id": fresh, "code": f"c{fresh}"}[changed]
        return [_message(schema, "U", before, {key: row[key], changed: row[changed]})]

    def _fresh(self) -> str:
        self._last += 1
        return str(self._last)


def _message(schema: TableSchema, kind: str, before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, Any]:
    names = {name.rstrip("_"): name for name in schema.names}
    old, new = ({names[name]: value for name, value in image.items()} for image in (before, after))
    return arcion("t", old, new) | {"opType": kind}
