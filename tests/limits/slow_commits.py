"""Commits that wait for the test, to hold a request between its last byte and its receipt."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from tests.support.postgres import sql
from tests.support.waiting import wait_until

_LOCK = 7246999
INSTALL = f"""
    CREATE OR REPLACE FUNCTION public.wait_for_the_test() RETURNS trigger LANGUAGE plpgsql
    SET lock_timeout = 0 AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared({_LOCK}); RETURN NEW; END $$;
    CREATE OR REPLACE TRIGGER wait_for_the_test BEFORE INSERT ON mirrorgate.staged_blocks
    FOR EACH ROW EXECUTE FUNCTION public.wait_for_the_test()"""


@contextmanager
def held_commits(engine: sa.Engine) -> Iterator[None]:
    """Hold back every insertion of a block until this context ends."""
    sql.run(engine, INSTALL)
    with sql.locked(engine, f"SELECT pg_advisory_xact_lock({_LOCK})"):
        yield


def commit_freely(engine: sa.Engine) -> None:
    """Undo what `held_commits` leaves in the database, once all connections are closed."""
    sql.run(engine, "DROP FUNCTION IF EXISTS public.wait_for_the_test() CASCADE")


def wait_for_a_held_commit(engine: sa.Engine) -> None:
    waiting = f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {_LOCK} AND NOT granted"
    wait_until(lambda: sql.value(engine, waiting) > 0, within=30, what="a request is about to be committed")
