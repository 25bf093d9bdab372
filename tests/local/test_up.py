"""`mirrorgate up` before it serves: rejections, the key that it creates, and how it keeps Postgres."""

import io
import json
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr
from rich.console import Console

from app.domain.access.rights import ApiKey
from app.landing.open_zone import ZoneAddress
from app.local import supervisor, up
from app.local.child_process import CANNOT_START
from app.local.data_directory import DataDirectory
from app.local.embedded import PrivatePostgres
from app.local.log_files import ChildLog, Rotation
from app.local.supervisor import Child
from app.local.up import UpPlan
from app.settings import Settings, start_checks
from mirrorgate.errors import Code, Misconfigured
from tests.support.processes import finished, is_alive, succeeded
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

CHOSEN = "mg_0a0b0c0d_" + "s" * 43


def reject(settings: Settings, data_dir: Path) -> Misconfigured:
    with pytest.raises(Misconfigured) as rejection:
        up.up(settings, data_dir, None, Console(file=io.StringIO()), environment={})
    return rejection.value


def test_a_taken_port_is_rejected_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        error = reject(Settings(port=port), tmp_path / "data")
    assert error.code == Code.BAD_SETTING
    assert str(port) in error.detail
    assert not (tmp_path / "data").exists()


def test_listening_beyond_the_machine_without_tls_is_rejected_before_anything_starts(tmp_path: Path) -> None:
    assert reject(Settings(host="0.0.0.0", port=0), tmp_path / "data").code == Code.PUBLIC_WITHOUT_TLS
    assert not (tmp_path / "data").exists()


def test_a_data_directory_in_use_is_rejected(tmp_path: Path) -> None:
    with DataDirectory(tmp_path):
        assert reject(Settings(port=0), tmp_path).code == Code.ALREADY_RUNNING


def test_port_zero_takes_a_free_one() -> None:
    port = start_checks.free_port("127.0.0.1", 0)
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_the_admin_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    file = tmp_path / "admin.key"
    key = up.admin_key(Settings(), file)
    assert ApiKey.parse(key)
    assert file.stat().st_mode & 0o777 == 0o600
    assert up.admin_key(Settings(), file) == key


def test_a_set_admin_key_wins_and_makes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "admin.key"
    assert up.admin_key(Settings(admin_key=SecretStr(CHOSEN)), file) == CHOSEN
    assert not file.exists()


@pytest.mark.parametrize("key", [up.admin_key, up.signing_key])
def test_a_damaged_key_is_rejected_with_its_file_and_without_being_shown(
    key: Callable[[Settings, Path], str], tmp_path: Path
) -> None:
    file = tmp_path / "a.key"
    file.write_text("mg_half")
    with pytest.raises(Misconfigured, match=str(file)) as rejection:
        key(Settings(), file)
    assert "mg_half" not in str(rejection.value)


@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(b"\xff"), Path.mkdir])
@pytest.mark.parametrize("key", [up.admin_key, up.signing_key])
def test_a_key_that_cannot_be_read_is_rejected(
    key: Callable[[Settings, Path], str], damage: Callable[[Path], object], tmp_path: Path
) -> None:
    file = tmp_path / "a.key"
    damage(file)
    with pytest.raises(Misconfigured, match=str(file)) as rejection:
        key(Settings(), file)
    assert rejection.value.code is Code.BAD_SETTING


def test_client_commands_find_the_gateway_as_long_as_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "gateway.json"
    with up.gateway_file(file, "http://127.0.0.1:8480"):
        assert json.loads(file.read_text()) == {"url": "http://127.0.0.1:8480", "pid": os.getpid()}
    assert not file.exists()
    with up.gateway_file(file, "https://127.0.0.1:8480", Path("/etc/tls.pem")):
        assert json.loads(file.read_text())["certificate"] == "/etc/tls.pem"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_postgres_that_was_killed_or_asked_to_end_comes_back_under_the_same_url_with_its_data(
    tmp_path: Path, number: signal.Signals
) -> None:
    with PrivatePostgres(tmp_path, {"fsync": "off"}) as postgres:
        url, first = postgres.url, postgres.process.pid
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept (value int)")
        outcome: list[str] = []

        def kill_and_look() -> None:
            try:
                with psycopg.connect(url):  # after SIGTERM alone, Postgres would wait for this client to leave
                    os.kill(first, number)
                    wait_until(lambda: not is_alive(first), within=60, what="Postgres ended")
                wait_until(lambda: answers(url), within=60, what="Postgres answers again")
                outcome.append("answers again")
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=kill_and_look)
        supervisor.run([up.postgres_child(postgres)], on_ready=thread.start)
        thread.join()
        assert outcome == ["answers again"]
        assert not (tmp_path / "postgres" / "postmaster.pid").exists()


def answers(url: str) -> bool:
    try:
        with psycopg.connect(url) as connection:
            return connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    except psycopg.OperationalError:
        return False


def test_a_child_that_cannot_start_ends_up_with_its_reason(tmp_path: Path) -> None:
    reason = {"event": "start_failed", "code": "landing_zone_taken", "detail": "whose", "remedy": "do this"}
    command = [sys.executable, "-c", f"print({json.dumps(reason)!r}); raise SystemExit({CANNOT_START})"]
    with ChildLog(tmp_path / "drain.log", Rotation()) as log, pytest.raises(Misconfigured) as rejection:
        child = Child("drain", command, dict(os.environ), log=log)
        with up._start_failures_explained():
            supervisor.run([child], is_ready=lambda: False)
    assert (rejection.value.code, rejection.value.detail) == (Code.LANDING_ZONE_TAKEN, "whose")


def test_on_a_terminal_nobody_sees_raw_log_lines(tmp_path: Path) -> None:
    program = (
        "import io, structlog; from pathlib import Path; from rich.console import Console;"
        "from app.settings import Settings; from app.local.log_files import configure_up_logging;"
        "out = io.StringIO(); console = Console(file=out, force_terminal=True, color_system=None, width=80);"
        f"configure_up_logging(Settings(), Path({str(tmp_path)!r}), console); log = structlog.get_logger();"
        "log.info('postgres_started', pid=1);"
        "log.warning('start_check', detail='0.5 GiB are free', remedy='Make room.');"
        "log.warning('child_ended', child='api', reason='exit code 3'); print(out.getvalue(), end='')"
    )
    ran = finished(sys.executable, "-c", program)
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        "warning: 0.5 GiB are free. Make room.",
        "warning: child ended, child api, reason exit code 3",
    ]
    logged = [json.loads(line)["event"] for line in (tmp_path / "up.log").read_text().splitlines()]
    assert logged == ["postgres_started", "start_check", "child_ended"]


@pytest.mark.parametrize(
    ("location", "mode"), [("data/landing-zone", 0o600), ("data", 0o600), ("linked", 0o600), ("outside", 0o640)]
)
def test_files_inside_the_data_directory_are_private_and_those_outside_have_the_operators_modes(
    tmp_path: Path, location: str, mode: int
) -> None:
    zone, made = tmp_path / location, tmp_path / "made"
    (tmp_path / "data" / "other").mkdir(parents=True)
    (tmp_path / "linked").symlink_to(tmp_path / "data" / "other")
    plan = UpPlan(Settings(), tmp_path / "data", ZoneAddress(str(zone)), 0)
    command = [sys.executable, "-c", f"open({str(made)!r}, 'x'); raise SystemExit({CANNOT_START})"]
    child = Child("drain", command, dict(os.environ), umask=up._umask_for(plan, zone))
    before = os.umask(0o027)
    try:
        with pytest.raises(supervisor.ChildCannotStart):
            supervisor.run([child], is_ready=lambda: False)
    finally:
        os.umask(before)
    assert made.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_another_account_reads_nothing_in_the_data_directory() -> None:
    look = "import os, sys; print([*os.walk(sys.argv[1])])"
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        (data_dir / "landing-zone").mkdir()
        (data_dir / "lock").touch()
        data_dir.chmod(0o755)

        def seen() -> str:
            command = ["/usr/bin/env", "-i", "python3", "-c", look, folder]
            return succeeded(*command, user=65534, group=65534, extra_groups=[], cwd="/").strip()

        assert "landing-zone" in seen()
        with DataDirectory(data_dir) as directory:
            directory.close_to_others()
        assert seen() == "[]"
