"""The example in Java, where a Java with a compiler is installed."""

import shutil
import subprocess

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from app.api import application
from app.settings import Settings
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import staged
from tests.support.http.server import served
from tests.support.processes import REPOSITORY

PROGRAM = REPOSITORY / "examples/java/Send.java"


def compiles() -> bool:
    java = shutil.which("java")
    if java is None:
        return False
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False).stdout
    return "jdk.compiler" in modules


@pytest.mark.skipif(not compiles(), reason="no Java with a compiler is installed")
def test_the_example_in_java_sends_a_row(database_url: str, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "configure_logging", lambda _: None)
    columns = [{"name": "id", "type": "int64", "nullable": False}, {"name": "name", "type": "string"}]
    with served(Settings(database_url=SecretStr(database_url), admin_key=SecretStr(ADMIN_KEY))) as address:
        with Gateway.at(address, ADMIN_KEY) as gateway:
            registered = gateway.put("/v1/tables/hello.visitors", json={"key_columns": ["id"], "columns": columns})
            assert registered.status_code == 201
        command = ["java", str(PROGRAM), address, ADMIN_KEY]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.stdout.strip(), ran.returncode) == ("202", 0), ran.stderr
    assert staged(engine, "hello.visitors") == [(1, "Ada")]
