"""Build everything that a release publishes, and try it as a user would: `make release ARGS=--dry-run`.

The wheels and source archives of all distributions, a bill of materials for each image, the site, whose links into the
repository lead to the version's tag, and, where buildah or Docker is there, the images. Then the wheels are installed
in an empty environment, a gateway starts from it in an empty folder, and five lines of Python send rows, which must be
in its landing zone.

Without `--dry-run` the checkout must be clean and at the version's tag, and the packages are uploaded at the end.
Nothing is uploaded after a failed step.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from rich.console import Console

from demo.gateway import GatewayDidNotStart, running_gateway
from tools import sbom, site

REPOSITORY: Final = Path(__file__).resolve().parents[1]
DIST: Final = REPOSITORY / "dist"
PROJECTS: Final = ("clients/python", ".", "packages/bridge", "packages/zone")
"""The folder of each distribution, what it depends on first."""
FOLDER: Final = REPOSITORY / "build" / "release"
VERSION: Final = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
BUILDERS: Final = {
    "docker": ("docker", "build"),
    "buildah": ("buildah", "bud", "--isolation", "chroot", "--format", "docker", "--layers"),
}
"""Commands that build an image, by program. OCI's own format has no health checks."""
QUICK_START: Final = """\
import mirrorgate

rows = [{"id": 7, "who": "Ada"}, {"id": 8, "who": "Grace"}]
receipts = mirrorgate.mirror(rows, "shop.orders", key="id", wait="published")
print(sum(receipt.changes for receipt in receipts), "rows in the landing zone")
"""
_READ: Final = """\
from pathlib import Path
import pyarrow.parquet as pq
found = [row for file in sorted(Path(".mirrorgate/landing-zone").rglob("orders/0*.parquet"))
         for row in pq.read_table(file).to_pylist()]
assert [(row["id"], row["who"]) for row in found] == [(7, "Ada"), (8, "Grace")], found
"""

console: Final = Console(highlight=False, soft_wrap=True)


class ReleaseFailed(Exception):
    """A step failed; the message names it and what to do."""


def check_tag(*, dry_run: bool) -> None:
    """Raise ReleaseFailed unless the checkout is clean and at the tag of the version; a dry run needs neither."""
    if dry_run:
        return
    if _run("git", "status", "--porcelain").strip():
        raise ReleaseFailed("the checkout has changes that are not committed; release from a clean clone of the tag")
    tags = _run("git", "tag", "--points-at", "HEAD").split()
    if f"v{VERSION}" not in tags:
        raise ReleaseFailed(f"HEAD does not have the tag v{VERSION}; `--dry-run` builds and tries without it")


def build_packages(folder: Path = DIST) -> None:
    """Build a wheel and a source archive of each distribution into a folder, and nothing else remains there."""
    shutil.rmtree(folder, ignore_errors=True)
    for project in PROJECTS:
        _python("-m", "uv", "build", "--no-build-isolation", "--quiet", "--out-dir", str(folder), project)


def write_bills() -> None:
    """Write the bills of materials of the images into build/sbom."""
    sbom.FOLDER.mkdir(parents=True, exist_ok=True)
    for target in sbom.TARGETS:
        (sbom.FOLDER / f"mirrorgate-{target}.cdx.json").write_text(sbom.bill(target), encoding="utf-8")


def build_images(builder: str) -> None:
    """Build the images of the Dockerfile under the tag of the version."""
    revision = _run("git", "rev-parse", "HEAD").strip()
    for target in sbom.TARGETS:
        arguments = ("--build-arg", f"VERSION={VERSION}", "--build-arg", f"REVISION={revision}")
        _run(*BUILDERS[builder], "--target", target, *arguments, "--tag", f"mirrorgate-{target}:{VERSION}", ".")


def install() -> Path:
    """Install the wheels with the embedded gateway in an empty environment; return its folder of programs."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    environment = FOLDER / "environment"
    _python("-m", "uv", "venv", "--quiet", "--python", sys.executable, str(environment))
    extras = {"mirrorgate": "[dataframes]", "mirrorgate_gateway": "[embedded]", "mirrorgate_bridge": "[kafka,objects]"}
    wheels = [f"{wheel}{extras.get(wheel.name.partition('-')[0], '')}" for wheel in DIST.glob("*.whl")]
    python = str(environment / "bin" / "python")
    _python("-m", "uv", "pip", "install", "--quiet", "--python", python, *wheels)
    return environment / "bin"


def try_quick_start(programs: Path) -> None:
    """Send rows with the installed packages to a gateway that they start, and read the landing zone."""
    place = FOLDER / "quick-start"
    place.mkdir(parents=True)
    with running_gateway(place / ".mirrorgate", program=[str(programs / "mirrorgate")]):
        _run(programs / "python", "-c", QUICK_START, cwd=place)
    _run(programs / "python", "-c", _READ, cwd=place)


def publish() -> None:
    """Upload the packages to the registry of UV_PUBLISH_URL."""
    _python("-m", "uv", "publish", *map(str, sorted(DIST.iterdir())))


def _python(*arguments: str) -> str:
    return _run(sys.executable, *arguments)


def _run(*command: str | Path, cwd: Path = REPOSITORY) -> str:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MIRRORGATE_")}
    done = subprocess.run(command, cwd=cwd, env=outside, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        told = " ".join(map(str, command[:6]))
        raise ReleaseFailed(f"`{told} …` ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def builder_of_images() -> str | None:
    """Return the program that builds images here, None without one."""
    found = (name for name in BUILDERS if shutil.which(name))
    return next((name for name in found if _answers(name)), None)


def _answers(builder: str) -> bool:
    return subprocess.run([builder, "info"], capture_output=True, check=False).returncode == 0


def show_files() -> None:
    """Print what was built, with sizes and SHA-256."""
    for path in sorted([*DIST.iterdir(), *sbom.FOLDER.glob("*.json")]):
        content = path.read_bytes()
        console.print(f"{sha256(content).hexdigest()}  {len(content) / 1e6:7.2f} MB  {path.relative_to(REPOSITORY)}")
    console.print(f"site: {site.BUILT.relative_to(REPOSITORY)}/index.html")


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the steps in order; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="build and try everything, and upload nothing")
    parser.add_argument("--no-images", action="store_true", help="leave out the images")
    chosen = parser.parse_args(arguments)
    builder = None if chosen.no_images else builder_of_images()
    steps: list[tuple[str, Callable[[], object]]] = [
        ("the version's tag", partial(check_tag, dry_run=chosen.dry_run)),
        ("wheels and source archives", build_packages),
        ("bills of materials", write_bills),
        ("site", partial(site.build, revision=f"v{VERSION}")),
        ("quick start from an empty environment", lambda: try_quick_start(install())),
    ]
    if builder:
        steps.append((f"images, with {builder}", partial(build_images, builder)))
    if not chosen.dry_run:
        steps.append(("upload of the packages", publish))
    try:
        for title, step in steps:
            began = time.monotonic()
            with console.status(f"{title} …"):
                step()
            console.print(f"{title}: done in {time.monotonic() - began:.0f} s")
    except (ReleaseFailed, GatewayDidNotStart, subprocess.CalledProcessError) as failed:
        console.print(f"error: {title}: {failed}", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print(f"interrupted: {title}", markup=False)
        return 130
    if builder is None:
        console.print(
            "images: not built" + ("" if chosen.no_images else ", because neither docker nor buildah answers")
        )
    show_files()
    return 0


if __name__ == "__main__":
    sys.exit(main())
