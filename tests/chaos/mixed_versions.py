"""Programs of two versions on one database and landing zone: nothing is lost, and neither blinds the other.

The older version is the last release, and the newer one is this checkout. Before the first release the older one is
this checkout, and the newer one a copy of it with the next revision and one more table option.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from app.local.embedded import PrivatePostgres
from demo.landing_reader import all_rows, table_folder
from tests.chaos.checks.oracle import Result, Violation
from tests.chaos.client import require
from tests.chaos.parts.processes import ADMIN_KEY
from tests.support.http.server import free_port
from tests.support.processes import REPOSITORY, environment_with, start_program
from tests.support.waiting import wait_until

NEXT_REVISION: Final = '''"""Add a column that the older programs do not name.

Kind: expand. Programs of the revision before continue to work.
"""

from alembic import op

revision = "r9001"
down_revision = "{head}"


def upgrade() -> None:
    """Apply the revision."""
    op.execute("ALTER TABLE mirrorgate.staged_blocks ADD COLUMN later text")
    op.execute("COMMENT ON COLUMN mirrorgate.staged_blocks.later IS 'A column of the next version.'")
'''

DRAIN: Final = """
import sys, time
from pathlib import Path
from app.staging.ledger.leases import give_up_lease, renew_lease
from tests.support.small_drain import publish_pending, small_drain
with small_drain(sys.argv[1], Path(sys.argv[2])) as cycle:
    while True:
        with cycle.context.engine.begin() as connection:
            renew_lease(connection, cycle.context.worker_id, 3)
        publish_pending(cycle)
        time.sleep(0.05)
"""
"""A drain of one version, which builds its files itself; it ends by SIGKILL."""

LATER: Final = "only_newer"
"""The table with an option that the older version does not know."""

_COPIED: Final = ("app", "clients", "spark_jobs", "migrations", "demo", "tests", "pyproject.toml")


@contextmanager
def two_versions(place: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the trees of the older and of the newer version."""
    found = subprocess.run(
        ["git", "describe", "--tags", "--match", "v*", "--abbrev=0"], cwd=REPOSITORY, capture_output=True, text=True
    )
    if found.returncode == 0:
        yield _archived(found.stdout.strip(), place / "older"), REPOSITORY
    else:
        yield REPOSITORY, _next_version(place / "newer")


def _archived(revision: str, folder: Path) -> Path:
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", revision], cwd=REPOSITORY, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def _next_version(folder: Path) -> Path:
    """Copy this checkout, and give the copy a revision and a table option more."""
    folder.mkdir(parents=True)
    for name in _COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    versions = folder / "migrations" / "versions"
    head = max(file.stem for file in versions.glob("r*.py"))[:5]
    (versions / "r9001_next.py").write_text(NEXT_REVISION.format(head=head), encoding="utf-8")
    _insert(
        folder / "app/domain/model/table_options.py", "    filter: RowFilter | None = None\n", "    later: int = 0\n"
    )
    return folder


def _insert(file: Path, beside: str, text: str) -> None:
    source = file.read_text(encoding="utf-8")
    assert source.count(beside) == 1, (file, beside)
    file.write_text(source.replace(beside, beside + text), encoding="utf-8")


@dataclass
class Version:
    """The programs of one version."""

    tree: Path
    database_url: str
    zone: Path
    log: Path
    address: str = ""

    def migrate(self) -> None:
        command = [sys.executable, "-m", "mirrorgate.cli", "migrate", "--database-url", self.database_url]
        subprocess.run(command, cwd=self.tree, check=True, capture_output=True, timeout=120)

    def start_api(self, stack: ExitStack) -> None:
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        given = {"DATABASE_URL": self.database_url, "ADMIN_KEY": ADMIN_KEY, "PORT": port, "LOG_LEVEL": "error"}
        options = {"environment": environment_with(**given), "ready": self._serves}
        self._start(stack, [sys.executable, "-m", "app.main"], **options)

    def start_drain(self, stack: ExitStack) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", DRAIN, self.database_url, str(self.zone)]
        return self._start(stack, command, environment={**os.environ, "PYTHONPATH": str(self.tree)})

    def call(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {ADMIN_KEY}", **arguments.pop("headers", {})}
        return httpx.request(method, self.address + path, headers=headers, timeout=30, trust_env=False, **arguments)

    def _start(self, stack: ExitStack, command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        process = start_program(self.log, *command, cwd=self.tree, **options)
        stack.callback(process.wait)
        stack.callback(process.kill)
        return process

    def _serves(self) -> bool:
        try:
            return self.call("GET", "/healthz").is_success
        except httpx.TransportError:
            return False


@dataclass
class MixedVersions:
    """One history of two versions, from one seed."""

    older: Version
    newer: Version
    source: random.Random
    events: Counter[str] = field(default_factory=Counter)
    _accepted: dict[str, list[int]] = field(default_factory=dict)
    _next: int = 0

    def run(self, seconds: float) -> None:
        """Serve with both, and change tables through the newer one. Raise Violation."""
        with ExitStack() as stack:
            self.older.migrate()
            self.older.start_api(stack)
            old_drain = self.older.start_drain(stack)
            for name in ("first", "second"):
                self._register(self.older, name)
                self._post(self.older, name)
            self.newer.migrate()
            self.newer.start_api(stack)
            self.newer.start_drain(stack)
            end = time.monotonic() + seconds
            changes = [self._new_table, self._new_column, self._known_option, self._later_option]
            while changes or time.monotonic() < end:
                for _ in range(self.source.randrange(1, 6)):
                    self._post(self.source.choice((self.older, self.newer)), self.source.choice([*self._accepted]))
                if changes:
                    changes.pop(0)()
                self._look()
                if self.source.random() < 0.1:
                    old_drain.kill()
                    old_drain.wait()
                    old_drain = self.older.start_drain(stack)
                    self.events["older drain killed"] += 1
            self._settle()

    def _register(self, version: Version, name: str) -> None:
        columns = [{"name": "id", "type": "int64", "nullable": False}]
        body = {"key_columns": ["id"], "columns": columns, "options": {"seed_file": False}}
        require(version.call("PUT", f"/v1/tables/{name}", json=body), 201)
        self._accepted[name] = []

    def _new_table(self) -> None:
        self._register(self.newer, "third")

    def _new_column(self) -> None:
        columns = [{"name": "id", "type": "int64", "nullable": False}, {"name": "note", "type": "string"}]
        require(self.newer.call("PUT", "/v1/tables/second", json={"key_columns": ["id"], "columns": columns}), 200)

    def _known_option(self) -> None:
        body = {"options": {"insert_marker": "upsert", "dead_letters": "accept"}}
        require(self.newer.call("PUT", "/v1/tables/first", json=body), 200)

    def _later_option(self) -> None:
        self._register(self.newer, LATER)
        if self.newer.tree != REPOSITORY:
            require(self.newer.call("PUT", f"/v1/tables/{LATER}", json={"options": {"later": 1}}), 200)

    def _post(self, version: Version, table: str) -> None:
        """Post one row, and the same request once more at the other version."""
        self._next += 1
        key = self._next
        row = {"id": key, "note": None} if table == "second" and self._has_note() else {"id": key}
        request = {"params": {"table": table}, "json": [row], "headers": {"Idempotency-Key": f"row-{key}"}}
        answer = version.call("POST", "/v1/changes/rows", **request)
        if answer.status_code == 503 and answer.json()["code"] == "table_too_new" and version is self.older:
            self.events["table_too_new"] += 1
            version = self.newer
            answer = version.call("POST", "/v1/changes/rows", **request)
        require(answer, 202)
        self._accepted[table].append(key)
        other = self.newer if version is self.older else self.older
        if other.address and self.source.random() < 0.3 and table != LATER:
            repeated = require(other.call("POST", "/v1/changes/rows", **request), 200)
            if repeated["receipts"] != answer.json()["receipts"]:
                raise Violation(f"the repeated request of row {key} has another receipt")
            self.events["repeated at the other version"] += 1

    def _has_note(self) -> bool:
        found = require(self.newer.call("GET", "/v1/tables/second/schema"), 200) if self.newer.address else {}
        return any(column["name"] == "note" for column in found.get("columns", []))

    def _look(self) -> None:
        """Require that the older version's lists and metrics work, whatever the newer one has written."""
        for path in ("/v1/tables", "/metrics", "/v1/tables/first", "/readyz"):
            answer = self.older.call("GET", path)
            if not answer.is_success:
                raise Violation(f"the older version answers {answer.status_code} to {path}: {answer.text[:300]}")
        self.events["looks"] += 1

    def _settle(self) -> None:
        def landed(table: str) -> list[int]:
            if not (table_folder(self.newer.zone, table) / "_metadata.json").exists():
                return []
            return sorted(int(row[1]) for row in all_rows(self.newer.zone, table))

        def all_landed() -> bool:
            return all(len(landed(table)) >= len(keys) for table, keys in self._accepted.items())

        try:
            wait_until(all_landed, within=60, what="every accepted row lands")
        except AssertionError as error:
            raise Violation(str(error)) from error
        for table, keys in self._accepted.items():
            if landed(table) != sorted(keys):
                raise Violation(f"{table}: {len(keys)} rows accepted, {len(landed(table))} landed")

    @property
    def rows(self) -> int:
        """The number of accepted rows."""
        return sum(map(len, self._accepted.values()))


def run_mixed_versions(place: Path, seed: int, seconds: float) -> Result:
    """Run one history in a database and a folder of its own."""
    place.mkdir(parents=True)
    zone = place / "landing-zone"
    with PrivatePostgres(place / "postgres") as server, two_versions(place) as trees:
        older, newer = (
            Version(tree, server.url, zone, place / f"{name}.log")
            for tree, name in zip(trees, ("older", "newer"), strict=True)
        )
        history = MixedVersions(older, newer, random.Random(seed))
        result = Result(events=history.events)
        try:
            history.run(seconds)
        except Violation as violation:
            result.violation = str(violation)
        result.rows = history.rows
        return result
