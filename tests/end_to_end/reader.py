"""A person who follows the pages in a checkout, with a gateway that `make up` runs there."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from demo.gateway import admin_key, running_gateway
from mirrorgate.http import GatewayClient
from tests.support.documents import blocks, run_shell
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Reader:
    """A person with a terminal in a checkout, whose gateway runs at `url`."""

    checkout: Path
    url: str

    def page(self, name: str) -> str:
        """Return a page with the address of this gateway."""
        return (REPOSITORY / name).read_text(encoding="utf-8").replace("http://127.0.0.1:8480", self.url)

    def run(self, *commands: str, programs: Path | None = None) -> str:
        """Run commands in one shell and return what they print."""
        return run_shell("\n".join(commands), self.checkout, programs=programs)

    def accepted(self, table: str) -> dict[str, int]:
        """Return the counts of accepted batches, changes and rows of a table."""
        with GatewayClient(self.url, admin_key(self.checkout / ".mirrorgate")) as client:
            counts: dict[str, int] = client.get(f"/v1/tables/{table}")["accepted"]
            return counts


@contextmanager
def reading(folder: Path) -> Iterator[Reader]:
    """Make the folder that `git clone` and `make up` leave, and run its gateway."""
    left_out = shutil.ignore_patterns("node_modules", "build")
    shutil.copytree(REPOSITORY / "examples", folder / "examples", ignore=left_out)
    (folder / ".venv").symlink_to(sys.prefix)
    for name in ("app", "demo", "openapi"):
        (folder / name).symlink_to(REPOSITORY / name)
    with running_gateway(folder / ".mirrorgate") as url:
        yield Reader(folder, url)


def follow_the_readme(reader: Reader) -> None:
    """Follow the README, and then the page that it leads to first."""
    starting, short = blocks(reader.page("README.md"), "sh")
    assert "make up" in starting
    sending, looking = short.split("\nfind ")
    said = reader.run(sending)
    assert "accepted: 5 changes in 1 request" in said
    assert "HR.EMPLOYEES" in said
    zone = reader.checkout / ".mirrorgate" / "landing-zone"
    wait_until(lambda: [*zone.rglob("EMPLOYEES/0*2.parquet")], within=30, what="the table has a file of data")
    assert reader.run(f"find {looking}").count(".parquet\n") >= 2

    (commands,) = blocks(reader.page("docs/get-started/try-it-locally.md"), "sh")
    # A person takes longer than the second within which the files are there.
    sending, looking = commands.split("\nfind ")
    said = reader.run(sending)
    answers = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [sorted({"receipts", "code", "generation"} & answer.keys()) for answer in answers] == [
        ["receipts"], ["receipts"], ["code"],
    ], "curl ends each answer with a line break"  # fmt: skip
    assert "shop.orders: generation 1, schema 1" in said
    assert max(map(len, said.splitlines())) < 1_000, "a line is too long to read"
    assert "shop.orders" in said
    wait_until(lambda: [*zone.rglob("orders/0*2.parquet")], within=30, what="the table has a file of data")
    found, *rows = reader.run(f"find {looking}").partition("{")
    assert found.count(".parquet\n") >= 2
    assert "customer" in "".join(rows) and "__rowMarker__" in "".join(rows)
