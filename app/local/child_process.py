"""What a child of `mirrorgate up` does: end when its parent does, and say in one line why it cannot start."""

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

from app.errors import Code, MirrorgateError, Misconfigured

CANNOT_START: Final = 78
"""Exit status (EX_CONFIG of sysexits.h) of a process that an operator has to configure before it can start."""

REJECTION: Final = "start_rejected"
"""The event of the log line that gives the reason."""

_PARENT_LOOKS: Final = 0.5


def run_process(main: Callable[[], None], *, is_child: bool) -> NoReturn:
    """Run a process's main function; turn a deliberate error into one line and an exit status, never a traceback.

    A child of `mirrorgate up` writes one log line (event `start_rejected`), which `up` shows; a process that a person
    started writes text. Status 0, or 78 for a Misconfigured, or 1.
    """
    try:
        main()
    except MirrorgateError as error:
        if is_child:
            sys.stderr.write(_rejection(error) + "\n")
        else:
            sys.stderr.write(f"error {error.code}: {error.detail}\nremedy: {error.remedy}\n")
        sys.exit(CANNOT_START if isinstance(error, Misconfigured) else 1)
    sys.exit(0)


def _rejection(error: MirrorgateError) -> str:
    """A log line, whatever log format is set: a setting that is not valid may be that one."""
    moment = datetime.now(UTC).isoformat()
    facts = {"event": REJECTION, "code": error.code, "detail": error.detail, "remedy": error.remedy}
    return json.dumps({**facts, "level": "error", "timestamp": moment})


def rejection_among(lines: Iterable[bytes]) -> Misconfigured | None:
    """The reason in the last lines of a process that ended with CANNOT_START; None where it gave none."""
    for line in reversed([*lines]):
        with suppress(ValueError, KeyError, TypeError):
            facts = json.loads(line)
            if facts["event"] == REJECTION:
                return Misconfigured(Code(facts["code"]), facts["detail"], remedy=facts["remedy"])
    return None


def exit_with_parent(parent_pid: int | None = None, *, grace: float = 20.0) -> None:
    """From now on this process ends when its parent does: by SIGTERM, and after `grace` seconds at once.

    `parent_pid` is the parent that started it, in case that one is gone already; default: the present one.
    """
    expected = os.getppid() if parent_pid is None else parent_pid
    # Registered this early it is the last to run, after a graceful stop.
    atexit.register(_end_own_group, orphan_of=expected)
    threading.Thread(target=_follow_parent, args=(expected, grace), name="exit-with-parent", daemon=True).start()


def _follow_parent(expected: int, grace: float) -> None:
    never = threading.Event()
    while os.getppid() == expected:
        never.wait(_PARENT_LOOKS)
    os.kill(os.getpid(), signal.SIGTERM)
    never.wait(grace)
    _end_own_group(orphan_of=expected)
    os._exit(1)


def _end_own_group(*, orphan_of: int) -> None:
    """What the supervisor does for a dead child's group, it cannot do any more: end what this process started."""
    if os.getppid() != orphan_of and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
