"""`make fuzz`: search for bytes that make a decoder fail or hang, starting from the samples and the kept corpus."""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from tests.fuzz.decoders import DECODERS
from tests.fuzz.seeds import CORPUS, seeds, store

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PLACE: Final = REPOSITORY / ".fuzz"
ENGINE: Final = PLACE / "atheris-{}.{}".format(*sys.version_info)
HANGS_AFTER: Final = 10
MAX_KEPT_BYTES: Final = 2_048

console = Console(highlight=False, markup=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("decoder", nargs="*", help=f"one of {', '.join(DECODERS)} (default: all)")
    parser.add_argument("--seconds", type=int, default=60, help="time for all decoders together (default: 60)")
    parser.add_argument("--keep", action="store_true", help="add inputs that reach new code to tests/fuzz/corpus")
    arguments = parser.parse_args()
    decoders = arguments.decoder or list(DECODERS)
    if unknown := set(decoders) - DECODERS.keys():
        parser.error(f"unknown decoder: {', '.join(unknown)}")
    if not install_engine():
        return 1
    sound = [fuzz(decoder, max(1, arguments.seconds // len(decoders))) for decoder in decoders]
    if arguments.keep:
        for decoder in decoders:
            keep(decoder)
    return 0 if all(sound) else 1


def install_engine() -> bool:
    """Install Atheris into a separate folder: some platforms have no wheel, and only the fuzzer needs it."""
    if ENGINE.exists():
        return True
    command = ["uv", "pip", "install", "--quiet", "--python", sys.executable, "--target", str(ENGINE), "atheris>=3,<4"]
    if subprocess.run([sys.executable, "-m", *command], cwd=REPOSITORY, check=False).returncode == 0:
        return True
    shutil.rmtree(ENGINE, ignore_errors=True)
    console.print(
        "Atheris could not be installed; it has wheels for Linux on x86-64 only. The tests replay the kept inputs "
        "everywhere, and look further with: make test ARGS='--hypothesis-profile=thorough tests/formats tests/domain'",
    )
    return False


def fuzz(decoder: str, seconds: int) -> bool:
    """Fuzz; return true if nothing was found. Findings are stored and printed."""
    found, new, log = PLACE / "found", PLACE / "corpus" / decoder, PLACE / f"{decoder}.log"
    for folder in (found, new):
        folder.mkdir(parents=True, exist_ok=True)
    for name, content in seeds():
        if name == decoder:
            store(new, content)
    limits = (f"-max_total_time={seconds}", f"-timeout={HANGS_AFTER}", "-rss_limit_mb=2048", "-max_len=16384")
    with log.open("wb") as output:
        prefix = f"-artifact_prefix=.fuzz/found/{decoder}-"
        failed = engine(decoder, output.fileno(), *limits, prefix, new, CORPUS / decoder)
    text = log.read_text(errors="replace")
    if not failed:
        (tries,) = re.findall(r"^Done (\d+) runs", text, re.MULTILINE)
        console.print(f"{decoder}: {int(tries):,} inputs in {seconds} s, none made it fail")
        return True
    console.print("\n".join(line[:300] for line in text.splitlines() if not re.match(r"#|INFO|WARNING|0x", line)))
    console.print(f"{decoder}: FAILED", style="red")
    for path, digest in re.findall(r"Test unit written to (\S+-([0-9a-f]{40}))", text):
        console.print(f"Once it is mended: mv {path} tests/fuzz/corpus/{decoder}/{digest}")
    return False


def keep(decoder: str) -> None:
    """Add those of the new inputs that reach code that no kept one does."""
    before = len(list((CORPUS / decoder).iterdir()))
    with (PLACE / f"{decoder}.merge.log").open("wb") as output:
        folders = (CORPUS / decoder, PLACE / "corpus" / decoder)
        engine(decoder, output.fileno(), "-merge=1", f"-max_len={MAX_KEPT_BYTES}", *folders)
    console.print(f"{decoder}: {len(list((CORPUS / decoder).iterdir())) - before} inputs more are kept")


def engine(decoder: str, output: int, *options: str | Path) -> int:
    """Run the engine in a process of its own, which a decoder can crash; return its exit status.

    It restarts itself without quoting folders, so they are relative to the checkout.
    """
    given = [str(option.relative_to(REPOSITORY) if isinstance(option, Path) else option) for option in options]
    command = [sys.executable, "-m", "tests.fuzz.engine", decoder, *given]
    path = os.pathsep.join(filter(None, [str(ENGINE), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run(
        command, cwd=REPOSITORY, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False
    ).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
