"""The example "Arcion on S3" runs as it is printed, and prints what it shows."""

import shutil
from pathlib import Path

from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import staged
from tests.support.documents import follow_page
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
    follow_page(page, tmp_path)
    assert [(row[0], row[1], str(row[2])) for row in staged(gateway.engine, "bakery.orders")] == [
        (1, "Ada", "12.50"), (1, "Ada", "14.00"), (2, "Grace", "3.00"), (3, "Edsger", "15.00"),
    ]  # fmt: skip
