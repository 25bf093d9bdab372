"""The example "Arcion on S3" runs as it is printed, and prints what it shows."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import staged
from tests.support.documents import blocks_with_output
from tests.support.processes import REPOSITORY


def test_files_of_arcion_on_s3_land_as_the_example_prints_it(
    gateway: Gateway, s3_service: tuple[int, str], tmp_path: Path
) -> None:
    page = (REPOSITORY / "examples/arcion-on-s3/README.md").read_text()
    page = page.replace("http://127.0.0.1:8480", gateway.address).replace("http://127.0.0.1:5000", s3_service[1])
    page = page.replace("/lake", "/tutorial")
    files = tmp_path / "examples/arcion-on-s3"
    shutil.copytree(REPOSITORY / "examples/arcion-on-s3", files)
    settings = (files / "objects.yaml").read_text().replace("http://127.0.0.1:5000", s3_service[1])
    (files / "objects.yaml").write_text(settings.replace("/lake/", "/tutorial/"))
    (tmp_path / ".mirrorgate").mkdir()
    (tmp_path / ".mirrorgate/admin.key").write_text(ADMIN_KEY)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "120"}
    marker = "@@@"
    steps = blocks_with_output(page)
    script = "".join(f"{commands}\necho {marker}\n" for commands, _ in steps)
    ran = subprocess.run(
        ["bash", "-euc", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    printed = [part.split() for part in ran.stdout.split(marker)]
    shown = [None if output is None else output.split() for _, output in steps]
    assert [part for part, want in zip(printed, shown, strict=False) if want] == [want for want in shown if want]
    assert [(row[0], row[1], str(row[2])) for row in staged(gateway.engine, "bakery.orders")] == [
        (1, "Ada", "12.50"), (1, "Ada", "14.00"), (2, "Grace", "3.00"), (3, "Edsger", "15.00"),
    ]  # fmt: skip
