"""Parts that only `mirrorgate up` has: a private Postgres, and a Java for Spark.

`PrivatePostgres` finds the programs, chooses the account, creates roles and database, and stops the server of a killed
gateway. Nothing here reads settings: everything is given as an argument.
"""

from app.local.embedded.java import find_java, require_java
from app.local.embedded.postgres import PrivatePostgres, find_programs, running_url

__all__ = [
    "PrivatePostgres",
    "find_java",
    "find_programs",
    "require_java",
    "running_url",
]
