"""Child processes of `mirrorgate up`: they end with their parent, and log why they cannot start."""

import atexit
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NoReturn

from mirrorgate.errors import Code, MirrorgateError, Misconfigured
from mirrorgate.errors.exceptions import command_remedy

CANNOT_START: Final = 78
"""Exit status of a process that cannot start as it is configured (EX_CONFIG of sysexits.h)."""

START_FAILED: Final = "start_failed"
"""The log event with the reason."""

_PARENT_POLL_SECONDS: Final = 0.5


def run_process(main: Callable[[], None], *, is_child: bool) -> NoReturn:
    """Run a process's main function, then exit. A MirrorgateError becomes a message, not a traceback.

    A child of `mirrorgate up` writes one log line (event `start_failed`), which `up` shows; a process that a person
    started writes text. Exit status: 0, 78 after Misconfigured, 1 after any other MirrorgateError.
    """
    try:
        main()
    except MirrorgateError as error:
        if is_child:
            sys.stderr.write(_start_failure(error) + "\n")
        else:
            sys.stderr.write(f"error {error.code}: {error.detail}\nremedy: {command_remedy(error)}\n")
        sys.exit(CANNOT_START if isinstance(error, Misconfigured) else 1)
    sys.exit(0)


def _start_failure(error: MirrorgateError) -> str:
    """Return a JSON log line. The log format of the settings is ignored: it may be the invalid setting."""
    moment = datetime.now(UTC).isoformat()
    facts = {"event": START_FAILED, "code": error.code, "detail": error.detail, "remedy": command_remedy(error)}
    return json.dumps({**facts, "level": "error", "timestamp": moment})


def find_start_failure(lines: Iterable[bytes]) -> Misconfigured | None:
    """Return the reason among the last log lines of a process that ended with CANNOT_START; None if it gave none."""
    for line in reversed([*lines]):
        with suppress(ValueError, KeyError, TypeError):
            facts = json.loads(line)
            if facts["event"] == START_FAILED:
                return Misconfigured(Code(facts["code"]), facts["detail"], remedy=facts["remedy"])
    return None


def exit_with_parent(parent_pid: int | None = None, *, grace: float = 20.0) -> None:
    """End this process when its parent ends: by SIGTERM, and after `grace` seconds at once.

    `parent_pid` is the process that started this one, which may be gone already. Default: the current parent.
    """
    expected = os.getppid() if parent_pid is None else parent_pid
    # Exit handlers run in reverse order: registered this early, it runs last, after a graceful stop.
    atexit.register(_end_own_group, orphan_of=expected)
    threading.Thread(target=_follow_parent, args=(expected, grace), name="exit-with-parent", daemon=True).start()


def _follow_parent(expected: int, grace: float) -> None:
    never = threading.Event()
    while os.getppid() == expected:
        never.wait(_PARENT_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    never.wait(grace)
    _end_own_group(orphan_of=expected)
    os._exit(1)


def _end_own_group(*, orphan_of: int) -> None:
    """End every process that this one started, which a living supervisor would do."""
    if os.getppid() != orphan_of and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
