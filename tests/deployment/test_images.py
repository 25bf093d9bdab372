"""The Dockerfile's steps run in Debian root file systems, and their results run as containers of the images do."""

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from deltalake import DeltaTable

from app.local.embedded import PrivatePostgres
from tests.support.http.server import free_port
from tests.support.waiting import wait_until
from tools.images.__main__ import FOLDER, REPOSITORY, TARGETS
from tools.images.dockerfile import ImageConfig, config_of, read_stages
from tools.images.roots import BASE_ENVIRONMENT, Images, Root, container_command, megabytes, missing_programs

STAGES: Final = read_stages((REPOSITORY / "Dockerfile").read_text())
KEY: Final = "mg_0123abcd_0123456789abcdef0123456789abcdef"
PASSWORD: Final = "a@b/c:d %41'\"#é"
MAX_MEGABYTES: Final = {"api": 400, "drain": 1_100, "bridge": 250}
"""Sizes of the images."""
ROWS: Final = '{"id":1,"name":"ann"}\n{"id":2,"name":"bob"}\n{"id":3,"name":"eve"}\n'


def test_the_parser_sees_every_stage_and_what_it_is_made_from() -> None:
    assert [stage.name for stage in STAGES.values() if stage.base == STAGES["wheel"].base] == [
        "wheel", "api-environment", "drain-environment", "bridge-environment", "java",
    ]  # fmt: skip
    assert STAGES["wheel"].base == "build"
    assert {STAGES[target].base for target in TARGETS} == {"runtime"}


def test_the_base_image_is_pinned_to_a_version_and_can_be_replaced() -> None:
    assert STAGES["base"].base.count(".") == 2
    assert STAGES["runtime"].base == "scratch"
    other = read_stages((REPOSITORY / "Dockerfile").read_text(), {"PYTHON_IMAGE": "python@sha256:0"})
    assert {other[name].base for name in ("build", "base")} == {"python@sha256:0"}


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_its_part_as_an_account_without_a_shell(target: str) -> None:
    config = config_of(STAGES, target, BASE_ENVIRONMENT)
    assert (config.user, config.folder) == ("mirrorgate", "/var/lib/mirrorgate")
    assert config.command[:2] == ("mirrorgate", target)
    assert config.environment["PATH"].startswith("/opt/mirrorgate/bin:/usr/local/bin:")
    assert (config.labels or {})["org.opencontainers.image.source"].startswith("https://")


def test_no_environment_of_an_image_has_pip() -> None:
    for target in TARGETS:
        steps = " ".join(step for _, step in STAGES[f"{target}-environment"].instructions)
        assert "venv --without-pip" in steps and "--require-hashes" in steps and "--no-cache-dir" in steps


def test_an_instruction_that_is_not_understood_is_not_skipped() -> None:
    with pytest.raises(ValueError, match="ONBUILD"):
        read_stages("FROM a AS b\nONBUILD RUN true\n")


@dataclass(frozen=True)
class Container:
    """A running container: its process, and the file with what it wrote."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def facts(self) -> dict[str, str]:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def is_healthy_when(self, holds: Callable[[], bool], *, what: str, within: float = 90) -> None:
        def look() -> bool:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            return holds()

        wait_until(look, within=within, what=f"{what}: {self.log.read_text()[-1000:]}")


class Engine:
    """Runs the built images, as a container engine would."""

    def __init__(self, images: Images, folder: Path) -> None:
        self.images = images
        self.folder = folder
        self._count = 0

    def image(self, target: str) -> tuple[Root, ImageConfig]:
        return self.images.build(target), config_of(self.images.stages, target, BASE_ENVIRONMENT)

    def command(self, target: str, arguments: Sequence[str], environment: dict[str, str], folders: Any) -> list[str]:
        self._count += 1
        place = self.folder / f"root-{self._count}"
        place.mkdir()
        root, config = self.image(target)
        return container_command(root, config, place, arguments=arguments, environment=environment, folders=folders)

    def run(self, target: str, *arguments: str, environment: dict[str, str], folders: Any = ()) -> str:
        command = self.command(target, arguments, environment, folders)
        done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def healthy(self, target: str, environment: dict[str, str], folders: Any = ()) -> bool:
        root, config = self.image(target)
        check = ImageConfig(config.environment, config.health_check, config.user, config.folder)
        self._count += 1
        place = self.folder / f"root-{self._count}"
        place.mkdir()
        command = container_command(root, check, place, environment=environment, folders=folders)
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0

    @contextmanager
    def started(
        self, target: str, *arguments: str, environment: dict[str, str], folders: Any = ()
    ) -> Iterator[Container]:
        command = self.command(target, arguments, environment, folders)
        log = self.folder / f"log-{self._count}"
        with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
            try:
                yield Container(process, log)
            finally:
                process.terminate()
                assert process.wait(timeout=60) in (0, 130), log.read_text()[-3000:]


@pytest.fixture(scope="module")
def engine_of_images(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    if lacking := missing_programs():
        pytest.skip(f"the Dockerfile's steps need {', '.join(lacking)}: apt-get install debootstrap, as root")
    images = Images(FOLDER, REPOSITORY, STAGES)
    for target in TARGETS:
        images.build(target)
    folder = tmp_path_factory.mktemp("containers")
    for above in (folder, *folder.parents[:2]):
        above.chmod(0o755)
    return Engine(images, folder)


@pytest.fixture
def password_database(tmp_path: Path) -> Iterator[Path]:
    """Give the socket folder of a Postgres whose role `gateway` needs the password."""
    (tmp_path / "hba").write_text("local all gateway scram-sha-256\nlocal all all trust\n")
    (tmp_path / "hba").chmod(0o644)
    with PrivatePostgres(tmp_path / "postgres", {"hba_file": str(tmp_path / "hba")}) as server:
        with psycopg.connect(server.administration_url, autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("ALTER ROLE gateway PASSWORD {}").format(psycopg.sql.Literal(PASSWORD)))
        folder = (tmp_path / "postgres" / "postgres.socket").readlink()
        folder.chmod(0o755)
        yield folder


def owned(folder: Path) -> Path:
    """Make a folder that the images' account may write."""
    folder.mkdir()
    os.chown(folder, 10001, 10001)
    return folder


def ask(port: int, path: str, body: object = None, method: str | None = None) -> tuple[int, Any]:
    """Call the API; return status and JSON, or 0 while it does not answer."""
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


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("target", TARGETS)
def test_an_image_is_small_and_its_files_belong_to_root(engine_of_images: Engine, target: str) -> None:
    root, config = engine_of_images.image(target)
    assert sum(megabytes(layer) for layer in root.layers) <= MAX_MEGABYTES[target]
    assert root.user_id(config.user) == 10001
    folder = root.layers[0] / "opt/mirrorgate"
    assert not list(folder.glob("lib/python*/site-packages/pip"))
    found = subprocess.run(["find", folder, "!", "-uid", "0"], capture_output=True, text=True, check=True)
    assert found.stdout == ""


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_the_images_carry_rows_from_a_bridge_to_the_landing_zone_and_the_mirror(
    engine_of_images: Engine, password_database: Path, tmp_path: Path
) -> None:
    engine = engine_of_images
    zone, mirror, source = (owned(engine.folder / name) for name in ("zone", "mirror", "source"))
    (source / "orders").mkdir()
    (source / "orders" / "1.ndjson").write_text(ROWS)
    api_port, drain_port, bridge_port = (free_port() for _ in range(3))
    socket = [(password_database, "/tmp/postgres")]
    database = {
        "MIRRORGATE_DATABASE_URL": "postgresql://gateway@/mirrorgate?host=/tmp/postgres",
        "PGPASSWORD": PASSWORD,
    }
    api = {
        **database,
        "MIRRORGATE_PORT": str(api_port),
        "MIRRORGATE_BEHIND_TLS_PROXY": "true",
        "MIRRORGATE_ADMIN_KEY": KEY,
    }
    drain = {**database, "MIRRORGATE_DRAIN_METRICS_PORT": str(drain_port)}
    (engine.folder / "config").mkdir()
    (engine.folder / "config" / "bridge.yaml").write_text(
        f"name: lake\ngateway: {{url: 'http://127.0.0.1:{api_port}', key: '{KEY}'}}\n"
        f"sources: [{{url: /tmp/source, name: files, format: rows, table: sales.orders}}]\n"
        f"poll: 1 s\nhealth: {{port: {bridge_port}}}\n"
    )
    assert "created" in engine.run("api", "migrate", environment=database, folders=socket)
    with ExitStack() as stack:
        running_api = stack.enter_context(engine.started("api", environment=api, folders=socket))
        running_api.is_healthy_when(lambda: ask(api_port, "/readyz")[0] == 200, what="the API is ready")
        assert engine.healthy("api", api, socket)
        running_drain = stack.enter_context(
            engine.started("drain", environment=drain, folders=[*socket, (zone, "/landing-zone")])
        )
        running_drain.is_healthy_when(lambda: ask(drain_port, "/metrics")[0] == 200, what="the drain works")
        assert engine.healthy("drain", drain, socket)
        table = {
            "key_columns": ["id"],
            "columns": [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}],
        }
        assert ask(api_port, "/v1/tables/sales.orders", table, "PUT")[0] in (200, 201)
        bridge = ["bridge", "objects", "--config", "/tmp/config/bridge.yaml"]
        running_bridge = stack.enter_context(
            engine.started(
                "bridge",
                *bridge,
                environment={},
                folders=[(engine.folder / "config", "/tmp/config"), (source, "/tmp/source")],
            )
        )
        running_bridge.is_healthy_when(lambda: ask(bridge_port, "/healthz")[0] == 200, what="the bridge works")
        for container in (running_api, running_drain, running_bridge):
            facts = container.facts()
            assert set(facts["Uid"].split()) == {"10001"} == set(facts["Gid"].split())
            assert (int(facts["CapEff"], 16), int(facts["CapBnd"], 16), facts["NoNewPrivs"]) == (0, 0, "1")
            mounts = Path(f"/proc/{container.process.pid}/mountinfo").read_text().splitlines()
            [root] = [line.split() for line in mounts if line.split()[4] == "/"][-1:]
            assert root[5].split(",")[0] == "ro"
        running_drain.is_healthy_when(lambda: bool(list(zone.rglob("0*1.parquet"))), what="a file is published")
        folders = [(zone, "/landing-zone"), (mirror, "/tmp/mirror")]
        engine.run("drain", "mirror", "run", "--once", "--to", "/tmp/mirror", environment={}, folders=folders)
        [delta_log] = mirror.rglob("_delta_log")
        rows = DeltaTable(delta_log.parent).to_pyarrow_table().to_pylist()
        assert sorted(row["name"] for row in rows) == ["ann", "bob", "eve"]
