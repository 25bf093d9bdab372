"""Parts that only `mirrorgate up` has: a private Postgres, and a Java for Spark.

`PrivatePostgres` runs the programs that `postgres_programs` finds, under the account that `postgres_account` chooses,
in a socket folder from `socket_folder`; `postgres_database` creates roles and database, and `leftover_postgres` stops
the server of a killed gateway. Nothing here reads settings: everything is given as an argument.
"""

from app.local.embedded.java import find_java, require_java
from app.local.embedded.postgres import PrivatePostgres, running_url
from app.local.embedded.postgres_account import find_programs

__all__ = [
    "PrivatePostgres",
    "find_java",
    "find_programs",
    "require_java",
    "running_url",
]
