"""Run the queries of `mirrorgate tables check` in a source: connect by its SQLAlchemy address, and write nothing."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from app.domain.source_checks import GRAMMARS, Dialect, Digest, SourceQueries, bucket_of
from app.staging.connection.database import disposed
from mirrorgate.errors import Code, Misconfigured

_DRIVERS: Final = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
"""The driver that Mirrorgate has anyway, for an address that names none."""

_READ_ONLY: Final = {Dialect.POSTGRESQL: "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"}
"""Statements that forbid a session to write, in databases that have one."""


class SourceDatabase:
    """An open connection to a source."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self.dialect = _dialect_of(connection.dialect.name)
        for statement in (GRAMMARS[self.dialect].session, _READ_ONLY.get(self.dialect)):
            if statement is not None:
                connection.execute(_text(statement))
        connection.commit()  # a rollback would undo them

    def buckets(self, queries: SourceQueries, digits: int) -> dict[str, Digest]:
        """Return the count and checksum of every bucket. Raises Misconfigured `source_away`."""
        with _faults():
            found = self._connection.execute(_text(queries.buckets(digits)))
            return {str(bucket): Digest(int(rows), int(checksum)) for bucket, rows, checksum in found}

    def rows(self, queries: SourceQueries, buckets: Collection[str]) -> dict[str, dict[str, int]]:
        """Return the key text and checksum of the rows in some buckets.

        Raises Misconfigured `source_away` or `source_ambiguous`.
        """
        digits = len(next(iter(buckets)))
        grouped: defaultdict[str, dict[str, int]] = defaultdict(dict)
        with _faults():
            for key, checksum in self._connection.execute(_text(queries.rows(buckets))):
                of_bucket = grouped[bucket_of(str(key), digits)]
                if str(key) in of_bucket:
                    raise Misconfigured(
                        Code.SOURCE_AMBIGUOUS,
                        "the source has two rows with the same key",
                        remedy="Give a --relation in which the key columns of the table identify each row.",
                    )
                of_bucket[str(key)] = int(checksum)
        return {bucket: grouped.get(bucket, {}) for bucket in sorted(buckets)}

    def start_again(self) -> None:
        """End the transaction, so that the next query sees what the source has committed since."""
        self._connection.rollback()


@contextmanager
def open_source(url: str) -> Iterator[SourceDatabase]:
    """Connect to a source for the block. Raises Misconfigured `source_away`, or `bad_setting` for a wrong address."""
    try:
        address = sa.make_url(url)
        driver = _DRIVERS.get(address.drivername, address.drivername)
        query = {"client_encoding": "UTF8"} if driver == "postgresql+psycopg" else {}  # whatever the role has
        engine = sa.create_engine(address.set(drivername=driver).update_query_dict(query), poolclass=sa.NullPool)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        missing = f": {error.name} is not installed" if isinstance(error, ModuleNotFoundError) else ""
        raise Misconfigured(
            Code.BAD_SETTING,
            f"the address of the source cannot be used{missing}",
            remedy="Give an SQLAlchemy address such as postgresql://user:password@host/database, and install the "
            "driver of other databases, such as `pip install pymysql` for mysql+pymysql://…",
        ) from None
    with disposed(engine), _faults(), engine.connect() as connection:
        yield SourceDatabase(connection)


def _dialect_of(name: str) -> Dialect:
    try:
        return Dialect("mysql" if name == "mariadb" else name)
    except ValueError:
        known = ", ".join(Dialect)
        raise Misconfigured(Code.BAD_SETTING, f"queries for {name} are not known; there are {known}") from None


@contextmanager
def _faults() -> Iterator[None]:
    """Translate faults of the source. Its own text can have a value of a row, so only its class is named."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = type(error.orig).__name__ if isinstance(error, DBAPIError) else type(error).__name__
        raise Misconfigured(
            Code.SOURCE_AWAY,
            f"the source could not be read ({cause})",
            remedy="Check the address of the source, the rights of its account, and the names of the table and its "
            "columns. `--show-sql` prints the queries, which you can run yourself.",
        ) from error


def _text(query: str) -> sa.TextClause:
    """Return a query without parameters: SQLAlchemy would take `:name` as one."""
    return sa.text(query.replace(":", "\\:"))
