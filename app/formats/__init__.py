"""Source bytes -> changes. Pure: no I/O, no clock; every refusal says which message, where and why."""
