"""Program for tests: take a data directory's lock, print the pid, and wait to be ended."""

import os
import signal
import sys
from pathlib import Path

from app.local.data_directory import DataDirectory

if __name__ == "__main__":
    with DataDirectory(Path(sys.argv[1])):
        sys.stdout.write(f"{os.getpid()}\n")
        sys.stdout.flush()
        signal.pause()
