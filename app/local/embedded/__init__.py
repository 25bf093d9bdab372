"""Parts that only `mirrorgate up` has: a locked data directory, a private Postgres, and a Java for Spark.

`PrivatePostgres` runs the programs that `postgres_programs` finds, under the account that `postgres_account` chooses,
in a socket folder from `socket_folder`; `postgres_database` creates roles and database, and `leftover_postgres` stops
the server of a killed gateway. Nothing here reads settings: everything is given as an argument, the file of variables
in the data directory too.
"""

from app.local.embedded.data_directory import (
    SETTINGS_FILE,
    DataDirectory,
    apply_settings_file,
    read_settings_file,
    write_private,
    write_settings_file,
)
from app.local.embedded.java import find_java, require_java
from app.local.embedded.postgres import PrivatePostgres, running_url
from app.local.embedded.postgres_account import find_programs

__all__ = [
    "SETTINGS_FILE",
    "DataDirectory",
    "PrivatePostgres",
    "apply_settings_file",
    "find_java",
    "find_programs",
    "read_settings_file",
    "require_java",
    "running_url",
    "write_private",
    "write_settings_file",
]
