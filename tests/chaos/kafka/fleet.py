"""The bridge processes of a run: one group, whose members are killed, stopped and joined by others."""

import random
import signal
import sys
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from mirrorgate.cli.__main__ import main
from tests.support.processes import forked, preload

STOPS_WITHIN: Final = 30.0
preload(__name__, "app.cli.main", "mirrorgate_bridge.kafka.registry")


def _run_bridge(configuration: Path) -> None:
    """Do what `mirrorgate bridge kafka` does, until the process is killed."""
    sys.argv = ["mirrorgate", "bridge", "kafka", "--config", str(configuration)]
    main()


@dataclass
class Fleet:
    """`count` bridges; `kills` and `rebalances` count what was done to them."""

    configuration: Path
    logs: Path
    """The folder of the log of each member."""
    source: random.Random
    count: int = 3
    kills: int = 0
    rebalances: int = 0
    failures: list[str] = field(default_factory=list)
    _members: list[BaseProcess] = field(default_factory=list)
    _started: int = 0

    def start(self) -> None:
        """Start what is missing."""
        self._members = [member for member in self._members if self._is_well(member)]
        while len(self._members) < self.count:
            self._join()

    def kill(self) -> None:
        """End a member with SIGKILL, wherever it is, and start another in its place."""
        member = self._members.pop(self.source.randrange(len(self._members)))
        member.kill()
        member.join()
        self.kills += 1
        self.start()

    def rebalance(self) -> None:
        """Let a member leave, or another one join, so that partitions move between living members."""
        self.rebalances += 1
        if len(self._members) > self.count:
            self._leave()
        elif self.source.random() < 0.5:
            self._join()
        else:
            self._leave()
            self.start()

    def end(self) -> None:
        """Stop all members with SIGTERM; a member that does not end in time is a failure."""
        for member in self._members:
            member.terminate()
        while self._members:
            self._ended(self._members.pop())

    def _join(self) -> None:
        self._started += 1
        name = f"bridge-{self._started}"
        self._members.append(forked(_run_bridge, self.configuration, log=self.logs / f"{name}.log", name=name))

    def _leave(self) -> None:
        member = self._members.pop(self.source.randrange(len(self._members)))
        member.terminate()
        self._ended(member)

    def _ended(self, member: BaseProcess) -> None:
        member.join(STOPS_WITHIN)
        if member.exitcode is None:
            self.failures.append(f"{member.name} did not end within 30 s of SIGTERM")
            member.kill()
            member.join()
        elif member.exitcode not in (0, -signal.SIGTERM):  # SIGTERM ends a process that only just starts at once
            self.failures.append(f"{member.name} ended with {member.exitcode} after SIGTERM")

    def _is_well(self, member: BaseProcess) -> bool:
        """Return True if a member lives; one that ended by itself, or crashed, is a failure."""
        if member.exitcode is not None:
            self.failures.append(f"{member.name} ended with {member.exitcode} without a reason")
        return member.exitcode is None
