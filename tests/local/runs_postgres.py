"""Program for tests: start a private Postgres, print its server's pid, and wait to be ended."""

import signal
import sys
from pathlib import Path

import psycopg
import structlog

from app.local.embedded.postgres import PrivatePostgres


def main() -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    postgres = PrivatePostgres(Path(sys.argv[1]), {"fsync": "off"})
    postgres.start()
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (value int)")
        connection.execute("INSERT INTO kept VALUES (1)")
    sys.stdout.write(f"{postgres.process.pid}\n")
    sys.stdout.flush()
    if "--stop" in sys.argv:
        postgres.stop()
    else:
        signal.pause()


if __name__ == "__main__":
    main()
