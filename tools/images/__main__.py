"""Build the three images without Docker and print their sizes: `make images`. Needs root and debootstrap."""

import sys
from pathlib import Path
from time import monotonic
from typing import Final

from tools.images.dockerfile import read_stages
from tools.images.roots import Images, StepFailed, megabytes, missing_programs

REPOSITORY: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = REPOSITORY / "build" / "images"
TARGETS: Final = ("api", "drain", "bridge")


def main() -> int:
    """Build every stage; return the exit status."""
    if lacking := missing_programs():
        print(
            f"error: missing: {', '.join(lacking)}\n  Run as root after: apt-get install debootstrap", file=sys.stderr
        )
        return 1
    images = Images(FOLDER, REPOSITORY, read_stages((REPOSITORY / "Dockerfile").read_text()))
    for target in TARGETS:
        began = monotonic()
        try:
            root = images.build(target)
        except StepFailed as failed:
            print(f"error: stage {target}: {failed}", file=sys.stderr)
            return 1
        layers = {layer.name: megabytes(layer) for layer in reversed(root.layers)}
        parts = " + ".join(f"{size} MB {name}" for name, size in layers.items() if size)
        print(f"{target}: {sum(layers.values())} MB = {parts}; {monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
