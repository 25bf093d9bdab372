"""The benchmark suite: each figure and its limit, measured in the same run on the same machine.

`make bench` runs it; `python -m benchmarks --list` lists the figures. It is not part of the tests.

`figures` holds one module per figure, `loads` what they send, `limits` the programs that do the least possible work,
`competitors` other tools for the same job, `machine` processes and what they use, `reports` results and pages.
"""
