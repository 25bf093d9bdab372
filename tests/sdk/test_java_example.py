"""The example in Java, where a Java with a compiler is installed."""

import shutil
import subprocess

import pytest
import sqlalchemy as sa

from tests.api.calls import ADMIN_KEY, own_gateway
from tests.api.commands import staged
from tests.support.processes import REPOSITORY

PROGRAM = REPOSITORY / "examples/java/Send.java"


def compiles() -> bool:
    java = shutil.which("java")
    if java is None:
        return False
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False).stdout
    return "jdk.compiler" in modules


@pytest.mark.skipif(not compiles(), reason="no Java with a compiler is installed")
def test_the_example_in_java_sends_a_row(database_url: str, engine: sa.Engine) -> None:
    with own_gateway(database_url) as gateway:
        gateway.register("hello.visitors", {"id": "int64", "name": "string"}, ["id"]).raise_for_status()
        command = ["java", str(PROGRAM), gateway.address, ADMIN_KEY]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.stdout.strip(), ran.returncode) == ("202", 0), ran.stderr
    assert staged(engine, "hello.visitors") == [(1, "Ada")]
