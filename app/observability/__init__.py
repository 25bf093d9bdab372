"""Logs and metrics, and the watch over a process's resources.

`telemetry` configures structured logs, and `repeated_lines` keeps a repeating fault from filling them
and a library from logging what its caller reports.
`process_metrics` has what the metrics of all processes share; `api_metrics`, `drain_metrics` and `mirror_metrics`
define theirs. `tracing` sends traces to an OpenTelemetry collector if one is configured. `periodic_thread` is the loop
of background threads. `resource_watch` warns before file descriptors or disk space run out.

No log line or label has a row value or a secret.
"""
