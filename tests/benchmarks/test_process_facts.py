"""Memory, processor time and children of processes, read from /proc."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.machine.process_facts import (
    children,
    cpu_seconds,
    descendants,
    resident,
    resident_below,
    tree_cpu_seconds,
)
from benchmarks.reports.figure import BenchmarkFailed

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")

FORKS_AND_WAITS = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "print('up', flush=True); input()"], stdin=subprocess.PIPE)
input()
child.communicate()
"""


@pytest.fixture
def parent() -> Iterator["subprocess.Popen[bytes]"]:
    """Yield a process with a running child that was started by another thread than the main one, as a JVM does."""
    command = [sys.executable, "-c", FORKS_AND_WAITS]
    with ThreadPoolExecutor(1) as threads:
        process = threads.submit(subprocess.Popen, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE).result()
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            yield process
            process.communicate(b"\n")


def test_children_of_every_thread_are_found(parent: "subprocess.Popen[bytes]") -> None:
    assert parent.pid in children(os.getpid())
    (child,) = children(parent.pid)
    assert {parent.pid, child} <= set(descendants(os.getpid()))


def test_the_time_of_a_tree_is_the_sum_over_its_processes(parent: "subprocess.Popen[bytes]") -> None:
    (child,) = children(parent.pid)
    assert tree_cpu_seconds(parent.pid) == pytest.approx(cpu_seconds(parent.pid) + cpu_seconds(child), abs=0.05)


def test_an_ended_process_has_no_time_and_no_memory() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
    assert tree_cpu_seconds(process.pid) == 0
    with pytest.raises(BenchmarkFailed, match="VmHWM"):
        resident(process.pid, "VmHWM")


def test_a_zombie_process_does_not_break_the_memory_count() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert process.pid in descendants(os.getpid())
        assert resident_below(os.getpid(), "VmHWM") >= 0
