"""The benchmark suite: each figure beside its limit, measured in the same run on the same machine.

`make bench` runs it, `python -m benchmarks --list` names the figures. It is never part of the tests.
"""
