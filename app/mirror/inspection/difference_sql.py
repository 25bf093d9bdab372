"""The SQL that compares two sets of rows by key, in DuckDB.

Columns have positions for names inside the SQL (`c0`, `c1`, …), keys first, so that a column name of a user never
meets a name of this module.
"""

from dataclasses import dataclass

import pyarrow as pa

from app.mirror.inspection.sql_engine import identifier, text_literal


@dataclass(frozen=True, slots=True)
class ComparedColumns:
    """The columns of two versions together. A column that one version lacks is NULL there."""

    keys: tuple[str, ...]
    others: tuple[str, ...]
    before: frozenset[str]
    after: frozenset[str]
    as_text: frozenset[str]
    """Columns whose type differs between the versions. They are compared as texts."""

    @classmethod
    def of(cls, before: pa.Schema, after: pa.Schema, key_columns: tuple[str, ...]) -> "ComparedColumns":
        """Join the columns of two schemas. Key columns that neither version has are left out."""
        names = [*after.names, *(name for name in before.names if name not in after.names)]
        folded = {name.casefold(): name for name in names}
        keys = tuple(folded[name.casefold()] for name in key_columns if name.casefold() in folded)
        both = [name for name in after.names if name in before.names]
        return cls(
            keys,
            tuple(name for name in names if name not in keys),
            frozenset(before.names),
            frozenset(after.names),
            frozenset(name for name in both if before.field(name).type != after.field(name).type),
        )

    @property
    def all(self) -> tuple[str, ...]:
        """Return the keys, then the other columns."""
        return (*self.keys, *self.others)

    def select(self, source: str, present: frozenset[str], side: int) -> str:
        """Return the SELECT of one side's rows, with `side` -1 or 1."""
        shown = []
        for place, name in enumerate(self.all):
            value = identifier(name) if name in present else "NULL"
            shown.append(f"{f'CAST({value} AS VARCHAR)' if name in self.as_text else value} AS c{place}")
        return f"SELECT {', '.join([*shown, f'{side} AS side'])} FROM {source}"  # noqa: S608  # quoted names


def change_columns(columns: ComparedColumns, before: str | None, after: str) -> str:
    """Return the statement that makes the table `changes` of two registered row sets. None is no rows.

    `changes` has the kind, the list of columns that differ, and for each column the value before (`b0`, …) and after
    (`a0`, …).
    """
    every = [f"c{place}" for place in range(len(columns.all))]
    keys = every[: len(columns.keys)]
    sides = [columns.select(after, columns.after, 1)]
    if before is not None:
        sides.append(columns.select(before, columns.before, -1))
    row, partition = ", ".join(every), ", ".join([*(keys or every), "n > 0"])
    same_key = " AND ".join(f"b.{key} IS NOT DISTINCT FROM a.{key}" for key in keys) or "false"
    differing = ", ".join(
        f"CASE WHEN b.c{place} IS DISTINCT FROM a.c{place} THEN {text_literal(name)} END"
        for place, name in enumerate(columns.all)
        if name not in columns.keys
    )
    changed = f"list_filter([{differing}], lambda name: name IS NOT NULL)" if differing else "[]"
    values = ", ".join(
        [*(f"b.{name} AS b{name[1:]}" for name in every), *(f"a.{name} AS a{name[1:]}" for name in every)]
    )
    return f"""
        CREATE TEMP TABLE changes AS
        WITH net AS (
            SELECT {row}, sum(side)::BIGINT AS n FROM ({" UNION ALL ".join(sides)}) GROUP BY {row} HAVING sum(side) <> 0
        ), numbered AS (
            SELECT {row}, n > 0 AS added, row_number() OVER (PARTITION BY {partition} ORDER BY {row}) AS place
            FROM (SELECT {row}, n, unnest(range(abs(n))) FROM net)
        )
        SELECT
            CASE WHEN b.place IS NULL THEN 'insert' WHEN a.place IS NULL THEN 'delete' ELSE 'update' END AS change,
            CASE WHEN b.place IS NULL OR a.place IS NULL THEN []::VARCHAR[] ELSE {changed} END AS changed,
            {values}
        FROM (SELECT * FROM numbered WHERE NOT added) AS b
        FULL JOIN (SELECT * FROM numbered WHERE added) AS a ON {same_key} AND b.place = a.place
    """  # noqa: S608  # quoted names


def changes_of(columns: ComparedColumns, limit: int | None) -> str:
    """Return the SELECT of kind, differing columns, key values, then values before and after of the other columns."""
    keys, count = range(len(columns.keys)), len(columns.all)
    shown = [f"CASE WHEN change = 'insert' THEN a{place} ELSE b{place} END" for place in keys]
    shown += [f"b{place}" for place in range(len(keys), count)] + [f"a{place}" for place in range(len(keys), count)]
    order = ", ".join(str(place + 3) for place in (keys or range(len(shown))))
    values = ", ".join(f"{one} AS v{place}" for place, one in enumerate(shown))
    end = "" if limit is None else f" LIMIT {limit}"
    return f"SELECT change, changed, {values} FROM changes ORDER BY {order}, change{end}"  # noqa: S608  # quoted names
