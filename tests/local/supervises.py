"""Program for tests: supervise the children given by `NAME[:trait…]` arguments, all recording into FOLDER.

`supervises FOLDER STOP_WITHIN NAME[:trait…]…`; the trait `dying` makes a child that ends at once,
`rejecting` one that says that it cannot start. Writes `ready`, `trouble NAME` and `rejected NAME` to standard output.
"""

import os
import sys
from pathlib import Path

import structlog

from app.local import supervisor
from app.local.child_process import CANNOT_START
from app.local.log_files import ChildLog, Rotation
from app.local.supervisor import Child


def main() -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    folder, stop_within, *described = sys.argv[1:]
    # The process that reads this one's output must see its end even if a child outlives it.
    log = ChildLog(Path(folder) / "children.log", Rotation())

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def child(description: str) -> Child:
        name, *traits = description.split(":")
        command = [sys.executable, "-m", "tests.local.lasting_child", folder, name, str(os.getpid()), *traits]
        if "dying" in traits:
            command = [sys.executable, "-c", "raise SystemExit(3)"]
        if "rejecting" in traits:
            command = [sys.executable, "-c", f"raise SystemExit({CANNOT_START})"]
        return Child(name, command, dict(os.environ), log=log, stop_within=float(stop_within))

    children = [child(description) for description in described]
    try:
        with log:
            supervisor.run(
                children,
                is_ready=lambda: all((Path(folder) / f"{one.name}.events").exists() for one in children),
                on_ready=lambda: say("ready"),
                on_trouble=lambda one: say(f"trouble {one.name}"),
            )
    except supervisor.ChildCannotStart as rejected:
        say(f"rejected {rejected.child.name}")


if __name__ == "__main__":
    main()
