"""Write a CycloneDX bill of materials for each image from its lock file: `make sbom`.

A bill has every Python package of the image with its version and the SHA-256 of its files. Packages of the base image
and of Debian, such as Java, are not in it: only the built image knows them. Invariant: the same lock files give the
same bytes.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement

REPOSITORY: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = REPOSITORY / "build" / "sbom"
TARGETS: Final = ("api", "drain", "bridge")
_IMAGE: Final = {
    "implementation_name": "cpython", "os_name": "posix", "platform_machine": "x86_64", "platform_system": "Linux",
    "platform_python_implementation": "CPython", "python_full_version": "3.11.14", "python_version": "3.11",
    "sys_platform": "linux",
}  # fmt: skip
"""The markers of the images: a lock file also has packages for other systems."""


def installed_lines(lock: str) -> Iterator[str]:
    """Yield the requirements of a lock file that an image installs, without their markers."""
    for entry in lock.replace("\\\n", " ").splitlines():
        text, *hashes = entry.split(" --hash=")
        if text and not text.startswith("#"):
            requirement = Requirement(text.strip())
            if requirement.marker is None or requirement.marker.evaluate(_IMAGE):
                requirement.marker = None
                yield " ".join([str(requirement), *(f"--hash={digest.strip()}" for digest in hashes)])


def bill(target: str) -> str:
    """Return the bill of an image as JSON. Raises CalledProcessError if cyclonedx-py fails."""
    lock = (REPOSITORY / "requirements" / f"{target}.lock").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text("\n".join(installed_lines(lock)) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "cyclonedx_py", "requirements", str(requirements), "--output-reproducible"]
        command += ["--pyproject", str(REPOSITORY / "pyproject.toml"), "--sv", "1.6", "--of", "JSON", "--no-validate"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.dumps(_of_image(json.loads(done.stdout), target), indent=2, sort_keys=True) + "\n"


def _of_image(document: dict[str, Any], target: str) -> dict[str, Any]:
    """Name the image as the subject, and each package by its package URL instead of its line in the lock file."""
    subject = document["metadata"]["component"]
    subject |= {"name": f"mirrorgate-{target}", "type": "container"}
    for component in document["components"]:
        component["bom-ref"] = component["purl"]
        del component["description"]
    references = sorted(component["purl"] for component in document["components"])
    document["dependencies"] = [{"ref": subject["bom-ref"], "dependsOn": references}]
    return document


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in TARGETS:
        path = FOLDER / f"mirrorgate-{name}.cdx.json"
        path.write_text(bill(name), encoding="utf-8")
        print(path)
