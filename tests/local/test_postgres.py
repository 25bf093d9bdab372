"""The private Postgres starts, keeps its data and cleans up after a killed gateway, as root and as another user."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from app.local.embedded import postgres as postgres_account
from app.local.embedded.postgres import PrivatePostgres
from mirrorgate.errors import Code, Misconfigured
from tests.support.processes import REPOSITORY, finished, is_alive, read_line, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

FAST = {"fsync": "off"}
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def rows(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM kept").fetchone()
    assert found is not None
    return int(found[0])


def write_row(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (value int)")
        connection.execute("INSERT INTO kept VALUES (1)")


def socket_folder(data_dir: Path) -> Path:
    return (data_dir / "postgres.socket").readlink()


def run_as_nobody(command: list[str]) -> "subprocess.CompletedProcess[str]":
    search = os.pathsep.join([str(REPOSITORY), sysconfig.get_path("purelib")])
    environment = {"PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"}
    return finished(*command, environment=environment, cwd="/", user=NOBODY, group=NOBODY, extra_groups=[])


@pytest.fixture
def python_of_nobody() -> list[str]:
    """Give a Python of this version that another account can run; skip if there is none."""
    for interpreter in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        try:
            trial = run_as_nobody([interpreter, "-c", "import app.local.embedded, psycopg"])
        except OSError:
            continue
        if trial.returncode == 0:
            return [interpreter]
    pytest.skip("no Python that another account may run")


def test_a_fresh_data_directory_gets_an_empty_utf8_database(tmp_path: Path) -> None:
    with PrivatePostgres(tmp_path / "data", FAST) as postgres, psycopg.connect(postgres.url) as connection:
        answer = connection.execute(
            "SELECT current_database(), current_user, current_setting('server_encoding'),"
            " current_setting('TimeZone'), current_setting('server_version_num')::int / 10000"
        ).fetchone()
    assert answer == ("mirrorgate", "gateway", "UTF8", "UTC", 18)


def test_the_role_of_the_gateway_is_no_superuser_and_cannot_read_files_of_the_machine(tmp_path: Path) -> None:
    with PrivatePostgres(tmp_path, FAST) as postgres, psycopg.connect(postgres.url, autocommit=True) as connection:
        [is_super] = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() or ()
        assert is_super is False
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT pg_read_file('/etc/passwd')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("COPY (SELECT 1) TO PROGRAM 'true'")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SET ROLE mirrorgate")


def test_the_defaults_promise_durability(tmp_path: Path) -> None:
    with PrivatePostgres(tmp_path) as postgres, psycopg.connect(postgres.url) as connection:
        values = connection.execute(
            "SELECT name, setting FROM pg_settings"
            " WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'listen_addresses') ORDER BY name"
        ).fetchall()
    assert values == [
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("listen_addresses", ""),
        ("synchronous_commit", "on"),
    ]


@pytest.mark.parametrize("name", ['my data\'s "folder"', "long" * 30], ids=["spaces and quotes", "long"])
def test_a_path_with_spaces_and_quotes_or_longer_than_a_socket_path_may_be_works(tmp_path: Path, name: str) -> None:
    with PrivatePostgres(tmp_path / name, FAST) as postgres:
        write_row(postgres.url)
        assert rows(postgres.url) == 1


def test_the_socket_lies_in_a_folder_closed_to_others_and_is_removed_on_stop(tmp_path: Path) -> None:
    with PrivatePostgres(tmp_path, FAST) as postgres:
        outer = socket_folder(tmp_path).parent
        assert outer.stat().st_mode & 0o777 == 0o700
        assert outer.stat().st_uid == os.geteuid()
        assert str(outer) in postgres.url
    assert not outer.exists()
    assert not (tmp_path / "postgres.socket").is_symlink()


def test_no_variable_of_the_caller_changes_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "6000")
    monkeypatch.setenv("PGDATA", "/nowhere")
    with PrivatePostgres(tmp_path, FAST) as postgres:
        write_row(postgres.url)


def test_no_row_value_reaches_the_log(tmp_path: Path) -> None:
    with PrivatePostgres(tmp_path, FAST) as postgres, psycopg.connect(postgres.url) as connection:
        connection.execute("CREATE TABLE secret (value text PRIMARY KEY)")
        connection.execute("INSERT INTO secret VALUES ('classified')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO secret VALUES ('classified')")
    log = (tmp_path / "postgres.log").read_text()
    assert "duplicate key" in log
    assert "classified" not in log


def test_an_unfinished_initialisation_is_thrown_away(tmp_path: Path) -> None:
    half = tmp_path / "postgres.new"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    with PrivatePostgres(tmp_path, FAST) as postgres:
        write_row(postgres.url)
    assert not half.exists()


def test_an_initialization_is_not_harmed_by_the_end_of_one_whose_starter_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_beside_a_late_end(command: list[str], *, timeout: float, given: str = "") -> None:
        run_program(command, timeout=timeout, given=given)
        shutil.rmtree(half, ignore_errors=True)  # as initdb does when it is interrupted

    run_program = postgres_account.run_program
    half = tmp_path / "postgres.new"
    half.mkdir()
    monkeypatch.setattr(postgres_account, "run_program", run_beside_a_late_end)
    with PrivatePostgres(tmp_path, FAST) as postgres:
        write_row(postgres.url)
    assert [*tmp_path.glob("postgres.new*")] == []


def test_the_server_ends_with_its_killed_starter_and_the_next_removes_its_socket_folder(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux tells a process that its parent died")
    with started("tests.local.runs_postgres", tmp_path) as starter:
        server = int(read_line(starter))
        starter.kill()
    wait_until(lambda: not is_alive(server), within=30, what="the server ended")
    old_socket = socket_folder(tmp_path)
    with PrivatePostgres(tmp_path, FAST) as postgres:
        assert rows(postgres.url) == 1
    assert not old_socket.parent.exists()


@pytest.fixture
def leftover(tmp_path: Path) -> Iterator[int]:
    """Give the pid of a Postgres on `tmp_path` that survived the kill of its starter."""
    with started("tests.local.runs_postgres", tmp_path) as starter:
        server = int(read_line(starter))
        # Stopped, it cannot act on the signal it gets when its parent dies.
        os.kill(server, signal.SIGSTOP)
        starter.kill()
    yield server
    if is_alive(server):
        os.kill(server, signal.SIGKILL)


def test_a_server_left_by_a_killed_gateway_is_stopped_and_its_socket_removed(tmp_path: Path, leftover: int) -> None:
    old_socket = socket_folder(tmp_path)
    os.kill(leftover, signal.SIGCONT)
    with PrivatePostgres(tmp_path, FAST) as postgres:
        assert not is_alive(leftover)
        assert rows(postgres.url) == 1
        assert socket_folder(tmp_path) != old_socket
    assert not old_socket.parent.exists()


def test_a_server_left_by_a_killed_gateway_that_hangs_is_killed(
    tmp_path: Path, leftover: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.local.embedded.postgres._STOP_WITHIN", 0.5)
    with PrivatePostgres(tmp_path, FAST) as postgres:
        assert not is_alive(leftover)
        assert rows(postgres.url) == 1


def test_a_killed_server_recovers_on_the_next_start(tmp_path: Path) -> None:
    with PrivatePostgres(tmp_path, FAST) as postgres:
        write_row(postgres.url)
        postgres.process.kill()
    with PrivatePostgres(tmp_path, FAST) as postgres:
        assert rows(postgres.url) == 1


def test_a_stale_lock_file_naming_a_foreign_process_does_not_stop_the_start(tmp_path: Path) -> None:
    with PrivatePostgres(tmp_path, FAST) as postgres:
        write_row(postgres.url)
        lock_file = (tmp_path / "postgres" / "postmaster.pid").read_text()
    account = (tmp_path / "postgres").stat()
    user, group = (account.st_uid, account.st_gid) if os.geteuid() == 0 else (None, None)
    with subprocess.Popen(["sleep", "600"], user=user, group=group) as foreign:
        try:
            stale = tmp_path / "postgres" / "postmaster.pid"
            stale.write_text(f"{foreign.pid}\n" + lock_file.partition("\n")[2])
            os.chown(stale, account.st_uid, account.st_gid)
            with PrivatePostgres(tmp_path, FAST) as postgres:
                assert rows(postgres.url) == 1
            assert is_alive(foreign.pid)
        finally:
            foreign.kill()


def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=Code.POSTGRES_FAILED) as rejection:
        PrivatePostgres(tmp_path, FAST | {"max_connections": "many"}).start()
    assert "max_connections" in rejection.value.detail
    assert not (tmp_path / "postgres.socket").is_symlink()


def test_a_foreign_postgres_folder_is_rejected_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "precious").write_text("kept")
    with pytest.raises(Misconfigured, match=Code.POSTGRES_FAILED):
        PrivatePostgres(tmp_path, FAST).start()
    assert (tmp_path / "postgres" / "precious").read_text() == "kept"


def test_a_missing_wheel_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_account, "_WHEEL", "no_such_package_of_postgres")
    with pytest.raises(Misconfigured, match=Code.POSTGRES_MISSING) as rejection:
        PrivatePostgres(tmp_path).start()
    assert "mirrorgate-gateway[embedded]" in rejection.value.remedy


@as_root
def test_root_needs_no_folder_opened_to_others(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with PrivatePostgres(closed / "data", FAST) as postgres:
        write_row(postgres.url)
        status = Path(f"/proc/{postgres.process.pid}/status").read_text()
    assert f"Uid:\t{NOBODY}\t" in status
    assert closed.stat().st_mode & 0o777 == 0o700
    assert (closed / "data").stat().st_mode & 0o777 == 0o700


@as_root
def test_the_server_of_root_has_one_capability_left(tmp_path: Path) -> None:
    with PrivatePostgres(tmp_path, FAST) as postgres:
        status = Path(f"/proc/{postgres.process.pid}/status").read_text()
    permitted = next(line for line in status.splitlines() if line.startswith("CapPrm"))
    assert int(permitted.split()[1], 16).bit_count() == 1


@as_root
def test_an_ordinary_user_starts_one(python_of_nobody: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="mirrorgate-test-") as folder:
        os.chown(folder, NOBODY, NOBODY)
        data = Path(folder) / "data"
        done = run_as_nobody([*python_of_nobody, "-m", "tests.local.runs_postgres", str(data), "--stop"])
        assert done.returncode == 0, done.stderr
        assert (data / "postgres").stat().st_uid == NOBODY


@as_root
def test_root_keeps_the_owner_of_data_that_an_ordinary_user_made() -> None:
    with tempfile.TemporaryDirectory(prefix="mirrorgate-test-") as folder:
        with PrivatePostgres(Path(folder), FAST) as postgres:
            write_row(postgres.url)
        data = Path(folder) / "postgres"
        for path in [data, *data.rglob("*")]:
            os.chown(path, 1234, 1234, follow_symlinks=False)
        with PrivatePostgres(Path(folder), FAST) as postgres:
            assert rows(postgres.url) == 1
            assert "Uid:\t1234\t" in Path(f"/proc/{postgres.process.pid}/status").read_text()
