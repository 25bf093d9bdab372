"""The systemd units run under a real systemd: a machine with the files of all images boots with Postgres."""

import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.deployment.test_images import make_images
from tests.project.facts import REPOSITORY
from tests.support.http.server import free_port
from tests.support.waiting import wait_until

UNITS: Final = REPOSITORY / "deploy" / "systemd"
ENABLED: Final = ("api", "drain", "mirror", "bridge-objects")
KEY: Final = "mg_0123abcd_0123456789abcdef0123456789abcdef"
PASSWORD: Final = 'a@b/c:d %41"x'
ROWS: Final = '{"id":1,"name":"ann"}\n{"id":2,"name":"bob"}\n{"id":3,"name":"eve"}\n'
IMAGE: Final = "localhost/mirrorgate-machine:debian"
MACHINE: Final = """\
FROM localhost/mirrorgate-drain:debian
USER root
COPY --from=localhost/mirrorgate-bridge:debian /opt/mirrorgate /opt/mirrorgate
COPY --from=localhost/mirrorgate-api:debian /opt/mirrorgate /opt/mirrorgate
RUN apt-get update && apt-get install --yes --no-install-recommends systemd systemd-sysv dbus postgresql
"""
SET_UP: Final = """
set -eu
mount -t proc proc /proc && mount -t tmpfs tmpfs /dev/shm
systemd-sysusers
install --directory --mode 0750 --owner mirrorgate --group mirrorgate /srv/mirrorgate
pg() { su postgres -c "/usr/lib/postgresql/15/bin/pg_ctl --pgdata=/var/lib/postgresql/15/main --wait $1" >/dev/null; }
sed -i "s/^port = .*/port = DATABASE_PORT/" /etc/postgresql/15/main/postgresql.conf
pg "start --options=--config_file=/etc/postgresql/15/main/postgresql.conf"
su postgres -c "psql --quiet --port=DATABASE_PORT --file=/srv/role.sql"
pg stop
systemctl enable mirrorgate.target SERVICES
"""


def run(*command: str, given: str | None = None) -> str:
    """Run a command; return its output."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout.strip()


class Machine:
    """A container's file system with the units installed as docs/operate/kubernetes.md says, and what boots it."""

    def __init__(self, place: Path) -> None:
        self.ports = {name: free_port() for name in ("api", "drain", "mirror", "bridge", "database")}
        self.place = place

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file of root."""
        file = self.place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def install(self) -> None:
        """Install the units, their variables and a role in Postgres."""
        for unit in [*UNITS.glob("*.service"), *UNITS.glob("*.target")]:
            self.write(f"etc/systemd/system/{unit.name}", unit.read_text())
        self.write("usr/lib/sysusers.d/mirrorgate.conf", (UNITS / "mirrorgate.sysusers.conf").read_text())
        example = (UNITS / "gateway.env.example").read_text()
        variables = {
            "MIRRORGATE_DATABASE_URL": f"postgresql://mirrorgate@127.0.0.1:{self.ports['database']}/mirrorgate",
            "PGPASSWORD": f"'{PASSWORD}'",
            "JAVA_HOME": "/opt/java",
            "MIRRORGATE_ADMIN_KEY": KEY,
            "MIRRORGATE_PORT": self.ports["api"],
            "MIRRORGATE_DRAIN_METRICS_PORT": self.ports["drain"],
            "MIRRORGATE_MIRROR_TARGET": "/srv/mirrorgate/mirror",
            "MIRRORGATE_MIRROR_METRICS_PORT": self.ports["mirror"],
        }
        given = "".join(f"{name}={value}\n" for name, value in variables.items())
        self.write("etc/mirrorgate/gateway.env", example + given, 0o600)
        self.write(
            "etc/mirrorgate/bridge.env",
            f"MIRRORGATE_URL=http://127.0.0.1:{self.ports['api']}\nMIRRORGATE_API_KEY={KEY}\n",
            0o600,
        )
        self.write(
            "etc/mirrorgate/objects.yaml",
            "name: lake\ngateway: {url: '${MIRRORGATE_URL}', key: '${MIRRORGATE_API_KEY}'}\n"
            "sources: [{url: /srv/source, name: files, format: rows, table: sales.orders}]\n"
            f"poll: 1 s\nhealth: {{port: {self.ports['bridge']}}}\n",
        )
        self.write("srv/source/1.ndjson", ROWS)
        self.write("etc/hostname", "machine\n")
        self.write("etc/hosts", "127.0.0.1 localhost machine\n")
        role = f"CREATE ROLE mirrorgate LOGIN PASSWORD $${PASSWORD}$$;\nCREATE DATABASE mirrorgate OWNER mirrorgate;\n"
        self.write("srv/role.sql", role)
        services = " ".join(f"mirrorgate-{name}.service" for name in ENABLED)
        script = SET_UP.replace("DATABASE_PORT", str(self.ports["database"])).replace("SERVICES", services)
        self.write("srv/set-up.sh", script)
        run("unshare", "--mount", "chroot", str(self.place), "sh", "/srv/set-up.sh")

    @contextmanager
    def booted(self, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
        """Boot the machine; power it off at the end of the block."""
        command = ["systemd-nspawn", "--register=no", "--keep-unit", "--machine=mirrorgate-test", "--boot"]
        command.append(f"--directory={self.place}")
        with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
            try:
                yield process
            finally:
                process.terminate()
                process.wait(timeout=120)


def inside(nspawn: "subprocess.Popen[bytes]", *command: str) -> str:
    """Run a command in the booted machine and return its output."""
    children = Path(f"/proc/{nspawn.pid}/task/{nspawn.pid}/children").read_text().split()
    entered = ["nsenter", "--target", children[0], "--mount", "--pid", "--root", *command]
    return subprocess.run(entered, capture_output=True, text=True, check=False).stdout


def ask(port: int, path: str, body: object = None, method: str | None = None) -> tuple[int, Any]:
    """Call a service; return status and JSON, or 0 while it does not answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer) if path.startswith("/v1") else None
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, None


@pytest.fixture
def machine() -> Iterator[Machine]:
    if shutil.which("systemd-nspawn") is None:
        pytest.skip("systemd-nspawn is missing: apt-get install --no-install-recommends systemd-container")
    make_images()
    build = ["buildah", "bud", "--isolation", "chroot", "--layers", "--pull-never", "--tag", IMAGE, "--file", "-"]
    run(*build, given=MACHINE)
    container = run("buildah", "from", "--pull-never", IMAGE)
    try:
        yield Machine(Path(run("buildah", "mount", container)))
    finally:
        run("buildah", "rm", container)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_the_units_carry_rows_under_systemd_and_restart_a_killed_drain(machine: Machine, tmp_path: Path) -> None:
    machine.install()
    ports, log = machine.ports, tmp_path / "boot.log"
    with machine.booted(log) as nspawn:

        def is_ready() -> bool:
            assert nspawn.poll() is None, log.read_text()[-2000:]
            status = ask(ports["api"], "/statusz")[0]
            return status == 200 and all(
                ask(ports[name], "/metrics")[0] == 200 for name in ("drain", "mirror", "bridge")
            )

        wait_until(is_ready, within=150, what="all services answer")
        columns = [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}]
        table = {"key_columns": ["id"], "columns": columns}
        assert ask(ports["api"], "/v1/tables/sales.orders", table, "PUT")[0] in (200, 201)

        def rows() -> int:
            status, page = ask(ports["api"], "/v1/tables/sales.orders/rows")
            return len(page["rows"]) if status == 200 else 0

        wait_until(lambda: rows() == 3, within=120, what="the rows are in the Delta table")
        state = inside(nspawn, "systemctl", "show", "mirrorgate-drain", "--property=MainPID,NRestarts,User")
        facts = dict(line.split("=", 1) for line in state.splitlines())
        assert (facts["NRestarts"], facts["User"]) == ("0", "mirrorgate")
        inside(nspawn, "kill", "-KILL", facts["MainPID"])
        restarted = ["systemctl", "show", "mirrorgate-drain", "--property=NRestarts", "--value"]
        wait_until(lambda: inside(nspawn, *restarted).strip() == "1", within=30, what="systemd restarts the drain")
        wait_until(is_ready, within=90, what="the restarted drain answers")
        written = inside(nspawn, "journalctl", "--unit=mirrorgate-api", "--output=cat", "--no-pager").splitlines()
        assert any(json.loads(line)["event"] == "api_started" for line in written if line.startswith("{"))
        denied = inside(nspawn, "journalctl", "--no-pager", "--grep=SECCOMP|seccomp", "--output=cat")
        assert "SECCOMP" not in denied
