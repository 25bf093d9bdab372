"""How a process says why it cannot start."""

import json

import pytest

from app.local.child_process import run_process
from mirrorgate.errors import Code, TemporarilyUnavailable


def without_postgres() -> None:
    try:
        raise OSError("connection refused\nIs the server running?")
    except OSError as error:
        raise TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres does not answer") from error


@pytest.mark.parametrize("is_child", [False, True])
def test_a_process_without_its_database_says_what_an_operator_can_do(
    capsys: pytest.CaptureFixture[str], is_child: bool
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_process(without_postgres, is_child=is_child)
    assert ended.value.code == 1
    written = capsys.readouterr().err
    remedy = json.loads(written)["remedy"] if is_child else written.partition("remedy: ")[2].strip()
    assert remedy == ("Check that Postgres runs and that MIRRORGATE_DATABASE_URL is its address. connection refused")
