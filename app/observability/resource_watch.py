"""Warnings about file descriptors and disk space, before requests and files begin to fail."""

import os
import resource
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog
from prometheus_client import Gauge

from app.domain.preflight import Finding, Outcome, judge_descriptor_limit, judge_descriptors, judge_space
from app.observability.periodic_thread import PeriodicThread

log = structlog.get_logger()

_CHECK_SECONDS: Final = 5.0
_REMINDER_SECONDS: Final = 60.0
_WANTED_DESCRIPTORS: Final = 65_536
_CONTAINER_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_DESCRIPTOR_FOLDERS: Final = ("/proc/self/fd", "/dev/fd")


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files as far as the hard limit allows; return the new soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _WANTED_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def memory_limit() -> int | None:
    """Return how many bytes of memory this process may use, by its own limit, its container's or the machine's."""
    limits = [resource.getrlimit(resource.RLIMIT_AS)[0]]
    for file in _CONTAINER_LIMITS:
        with suppress(OSError, ValueError):
            limits.append(int(Path(file).read_text()))
    with suppress(OSError, ValueError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min((limit for limit in limits if limit > 0), default=None)


def open_descriptors(limit: int) -> int:
    """Return the number of open files of this process; `limit` if none is left to count them."""
    for folder in _DESCRIPTOR_FOLDERS:
        try:
            return len(os.listdir(folder))  # noqa: PTH208  # names alone: no object per descriptor
        except FileNotFoundError:
            continue
        except OSError:
            return limit
    return 0


class ResourceWatch(PeriodicThread):
    """Check every few seconds in a separate thread; logs a shortage once a minute, and when it is over."""

    def __init__(
        self,
        folders: Mapping[str, Path] | None = None,
        *,
        min_free: int = 0,
        low: Gauge | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Watch nothing yet. `folders`: where space is needed, by name of the check; `min_free`: bytes to keep free.

        `low` is set to 1 for a check, by its name, while what it checks is short.
        """
        super().__init__("resource-watch", _CHECK_SECONDS, self.check)
        self._folders = folders or {}
        self._min_free = min_free
        self._low = low
        self._clock = clock
        self._short: dict[str, float] = {}
        """By check, when its shortage was last logged."""

    def check(self) -> None:
        """Check everything once, and log new, repeated and ended shortages."""
        for finding in self._findings():
            self._log_finding(finding)

    def _findings(self) -> list[Finding]:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        found = [judge_descriptors(open_descriptors(limit), limit), judge_descriptor_limit(limit)]
        for check, folder in self._folders.items():
            try:
                disk = shutil.disk_usage(folder)
            except OSError:  # whatever uses the folder reports that
                continue
            least = min(self._min_free, disk.total // 10)  # a small disk for temporary files is not short when empty
            found.append(judge_space(check, str(folder), disk.free, min_free=least))
        return found

    def _log_finding(self, finding: Finding) -> None:
        if self._low is not None:
            self._low.labels(finding.check).set(float(finding.outcome is not Outcome.OK))
        logged_at = self._short.get(finding.check)
        if finding.outcome is Outcome.OK:
            if self._short.pop(finding.check, None) is not None:
                log.info("resource_recovered", check=finding.check, detail=finding.detail)
        elif logged_at is None or self._clock() - logged_at >= _REMINDER_SECONDS:
            self._short[finding.check] = self._clock()
            log.warning("resource_low", check=finding.check, detail=finding.detail, remedy=finding.remedy)
