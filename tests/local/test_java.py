"""Finding a Java for Spark: the machine's if it is new enough, otherwise the wheel's through a launcher."""

import subprocess
from pathlib import Path

import pytest

from app.local.embedded import find_java
from app.local.embedded import java as java_module
from mirrorgate.errors import Code, Misconfigured
from tests.support.processes import finished, succeeded

VECTOR = "jdk.incubator.vector"
NO_JAVA = {"PATH": "/nonexistent"}


def fake_java(home: Path, version: str) -> Path:
    """Create a JAVA_HOME whose java only prints `version`."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {home}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
        f"""echo 'openjdk version "{version}"' >&2\n"""
    )
    program.chmod(0o755)
    return home


def java_version(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return finished(home / "bin" / "java", *arguments, "-version")


def test_java_home_is_used_when_it_is_new_enough(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java 17", "17")
    assert find_java(tmp_path / "data", NO_JAVA | {"JAVA_HOME": str(home)}) == home
    assert not (tmp_path / "data").exists()


def test_java_on_the_path_is_followed_to_its_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "real", "21")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java(tmp_path / "data", {"PATH": str(tmp_path / "bin")}) == home


@pytest.mark.parametrize("version", ["1.8", "11"])
def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    old = fake_java(tmp_path / "old", version)
    home = find_java(tmp_path / "data", NO_JAVA | {"JAVA_HOME": str(old)})
    assert home == tmp_path / "data" / "java-home"


def test_the_wheels_java_runs_though_asked_for_a_module_it_lacks(tmp_path: Path) -> None:
    home = find_java(tmp_path / "my data's", NO_JAVA)
    wheel = next(java_module._of_the_wheel()).parents[1]
    assert java_version(wheel, f"--add-modules={VECTOR}").returncode != 0
    answer = java_version(home, f"--add-modules={VECTOR}", "-Dspace=a b", "--add-modules", VECTOR)
    assert answer.returncode == 0
    assert "version" in answer.stderr


def test_the_launcher_passes_every_other_word_on_unchanged(tmp_path: Path) -> None:
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\nfor word; do echo "<$word>"; done\n')
    echo.chmod(0o755)
    wrapper = java_module._write_wrapper(tmp_path / "home", echo)
    words = ["-Xmx1g", "", "a b", "$HOME", "'", "--add-modules", "java.sql", f"--add-modules={VECTOR}", "--add-modules"]
    passed = succeeded(wrapper, *words).splitlines()
    assert passed == ["<-Xmx1g>", "<>", "<a b>", "<$HOME>", "<'>", "<--add-modules>", "<java.sql>", "<--add-modules>"]


def test_the_launcher_is_written_once_and_follows_the_wheel(tmp_path: Path) -> None:
    wrapper = find_java(tmp_path, NO_JAVA) / "bin" / "java"
    written = wrapper.stat().st_ino
    find_java(tmp_path, NO_JAVA)
    assert wrapper.stat().st_ino == written
    right = wrapper.read_text()
    wrapper.write_text("#!/bin/sh\nexec /where/the/wheel/was/java\n")
    find_java(tmp_path, NO_JAVA)
    assert wrapper.read_text() == right


def test_without_any_java_the_error_says_what_was_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_module, "_WHEEL", "no_such_package_of_java")
    old = fake_java(tmp_path / "old", "11")
    with pytest.raises(Misconfigured, match=Code.JAVA_MISSING) as rejection:
        find_java(tmp_path / "data", NO_JAVA | {"JAVA_HOME": str(old)})
    assert f"{old}/bin/java is version 11" in rejection.value.detail
