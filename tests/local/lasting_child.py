"""Program for tests: a child that records its signals in `<folder>/<name>.events` until it is ended.

`lasting_child FOLDER NAME PARENT_PID [stubborn] [family]`: stubborn ones do not stop when asked to, one with a
family has started a process of its own.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from app.local.child_process import exit_with_parent


def main() -> None:
    folder, name, parent, *traits = sys.argv[1:]
    grace = 0.5

    def note(event: str) -> None:
        with (Path(folder) / f"{name}.events").open("a") as file:
            file.write(event + "\n")
        with (Path(folder) / "all.events").open("a") as file:
            file.write(f"{name} {event.split()[0]}\n")

    def stop(_number: int, _frame: FrameType | None) -> None:
        note("asked")
        if "stubborn" not in traits:
            note("stopped")
            sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    exit_with_parent(int(parent), grace=grace)
    if "family" in traits:
        note(f"family {subprocess.Popen(['sleep', '600']).pid}")
    note(f"started {os.getpid()}")
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
