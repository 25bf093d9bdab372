"""Advisory locks: one number per purpose, all listed in one module."""

import re
from collections import Counter
from pathlib import Path

import sqlalchemy as sa

import app
from app.staging.connection.database import AdvisoryLock, lock_for_transaction, session_lock


def test_no_two_purposes_share_a_number() -> None:
    numbers = Counter(lock.value for lock in AdvisoryLock.__members__.values())
    assert set(numbers.values()) == {1}


def test_no_other_module_takes_a_lock_by_a_number_of_its_own() -> None:
    folder = Path(app.__file__).parent
    written = re.compile(r"pg_(try_)?advisory_\w+")
    users = {str(path.relative_to(folder)) for path in folder.rglob("*.py") if written.search(path.read_text("utf-8"))}
    assert users == {"staging/connection/database.py", "staging/batches/idempotency.py"}


def test_a_lock_of_one_session_is_not_given_to_another_until_it_is_released(engine: sa.Engine) -> None:
    with session_lock(engine, AdvisoryLock.RETENTION) as one, session_lock(engine, AdvisoryLock.RETENTION) as other:
        assert one is not None
        assert other is None
        with session_lock(engine, AdvisoryLock.ROUTING) as third:
            assert third is not None
    with session_lock(engine, AdvisoryLock.RETENTION) as other:
        assert other is not None


def test_the_lock_of_a_transaction_ends_with_it(engine: sa.Engine) -> None:
    with engine.begin() as one:
        lock_for_transaction(one, AdvisoryLock.ROUTING)
        with session_lock(engine, AdvisoryLock.ROUTING) as other:
            assert other is None
    with session_lock(engine, AdvisoryLock.ROUTING) as other:
        assert other is not None
