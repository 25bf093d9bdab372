"""Logs and metrics, and the watch over a process's resources.

`telemetry` configures structured logs and defines the API's metrics; `drain_metrics` defines and serves the drain's.
`tracing` sends traces to an OpenTelemetry collector if one is configured.
`repeated_lines` keeps a repeating fault from filling the log. `resource_watch` warns before file descriptors or disk
space run out. `quiet_logger` keeps a library from logging what its caller reports.

No log line or label has a row value or a secret.
"""
