"""Start the demo's gateway: `mirrorgate up` in its own folder, on a free port."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


class GatewayDidNotStart(Exception):
    """`mirrorgate up` ended before it was ready. The text says where its logs are."""


@contextmanager
def running_gateway(
    data_dir: Path,
    *,
    mirror: bool = False,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = (sys.executable, "-m", "mirrorgate.cli"),
) -> Iterator[str]:
    """Run a gateway, with `mirror` also the Delta mirror, for the length of the block, and yield its address.

    `environment` has further variables. `program` is the command `mirrorgate` of another installation.
    """
    command = [*program, "up", "--data-dir", str(data_dir), "--port", "0"]
    command += ["--mirror"] if mirror else []
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    variables = {**os.environ, **(environment or {})}
    with (
        (data_dir / "up.log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=variables) as up,
    ):
        try:
            assert up.stdout is not None
            line = up.stdout.readline().decode()
            if not line.startswith("ready "):
                ending = (data_dir / "up.log").read_text().strip().splitlines()[-5:]
                raise GatewayDidNotStart(
                    "\n".join(["the gateway did not start; its logs are in " + str(data_dir), *ending])
                )
            yield line.split()[1]
        finally:
            up.terminate()
            up.wait()


def admin_key(data_dir: Path) -> str:
    """Return the administrator's key that `mirrorgate up` wrote."""
    return (data_dir / "admin.key").read_text().strip()
