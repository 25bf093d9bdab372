"""Everything that Spark prints becomes one log line per record."""

import subprocess
import sys
from typing import Any

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from spark_jobs.spark.session import JvmMessage, JvmOutput, records
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_until

PRINTED = """\
WARNING: Using incubator modules: jdk.incubator.vector
26/11/22 05:29:50 WARN NativeCodeLoader: Unable to load native-hadoop library
Setting default log level to "WARN".
26/11/22 05:29:54 ERROR Executor: Exception in task 0.0 in stage 1.0 (TID 2)
org.apache.spark.SparkException: the task was lost
\tat org.apache.spark.Executor.run(Executor.scala:1)
Caused by: java.io.IOException: gone
\t... 30 more
PySpark daemon failed to flush the output to the worker process:
Traceback (most recent call last):
  File "pyspark/daemon.py", line 1, in worker
    outfile.flush()
BrokenPipeError: [Errno 32] Broken pipe

Exception in thread "Thread-3" java.lang.NoClassDefFoundError: com/google/Message
\tat java.base/java.lang.Class.get(Class.java:1)
"""


def test_each_record_is_one_with_its_stack_trace() -> None:
    found = list(records(PRINTED.splitlines()))
    assert [(record.level, record.logger, record.text.splitlines()[0][:30]) for record in found] == [
        ("info", None, "WARNING: Using incubator modul"),
        ("warning", "NativeCodeLoader", "Unable to load native-hadoop l"),
        ("info", None, 'Setting default log level to "'),
        ("error", "Executor", "Exception in task 0.0 in stage"),
        ("debug", None, "PySpark daemon failed to flush"),
        ("warning", None, 'Exception in thread "Thread-3"'),
    ]
    assert found[3].text.endswith("... 30 more")


MANAGER = """\
Traceback (most recent call last):
  File "pyspark/daemon.py", line 2, in manager
    code = worker(sock, authenticated)
  File "pyspark/daemon.py", line 1, in worker
    outfile.flush()
BrokenPipeError: [Errno 32] Broken pipe
"""


def test_a_worker_that_cannot_answer_a_spark_that_stops_is_no_warning() -> None:
    assert [record.level for record in records(MANAGER.splitlines())] == ["debug"]


PROGRAM = """
import signal
from app.settings import Settings
from spark_jobs.spark.session import running_spark
with running_spark(Settings(spark_master="local[1]")):
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def test_spark_leaves_ctrl_c_to_the_process_that_starts_it() -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM], cwd=REPOSITORY, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def test_the_pipe_is_read_to_its_end_in_whatever_pieces_it_comes() -> None:
    with capture_logs() as logs:
        with JvmOutput() as output:
            program = (
                f"import sys, time\nfor piece in {[PRINTED[:100], PRINTED[100:777], PRINTED[777:], 'no newline']!r}:\n"
            )
            program += "    sys.stdout.write(piece); sys.stdout.flush()"
            subprocess.run([sys.executable, "-c", program], stdout=output.descriptor, check=True)
        wait_until(lambda: logs and logs[-1].get("text") == "no newline", within=60, what="the last line is read")
    assert {line["event"] for line in logs} == {"spark_log"}
    assert "Executor" in {line.get("logger") for line in logs}


def test_a_text_without_a_head_is_a_record() -> None:
    assert list(records(["", "hello", " more"])) == [JvmMessage("info", None, "hello\n more")]


def test_a_connection_that_the_jvm_drops_is_one_line(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    context: Any = spark.sparkContext
    with capture_logs() as logs:
        try:
            raise EOFError
        except EOFError:
            context._accumulatorServer.handle_error(None, None)
    assert [(line["event"], line["error"]) for line in logs] == [("spark_connection_lost", "EOFError")]
    assert "Traceback" not in capfd.readouterr().err
