"""Run one decoder under atheris in its own process: `python -m tests.fuzz.engine DECODER [libFuzzer options]`."""

import shlex
import sys

import atheris

with atheris.instrument_imports(include=["app", "mirrorgate"]):
    from tests.fuzz.arrow_mutants import mutant
    from tests.fuzz.decoders import tried

BLIND = 0.2
"""The share of Arrow streams that the engine's own, blind changes are left for."""


def arrow_mutant(data: bytes, max_bytes: int, seed: int) -> bytes:
    """Return the next input for the engine, which keeps what reaches new code."""
    if seed % 100 < BLIND * 100:
        return bytes(atheris.Mutate(data, max_bytes))
    return mutant(data, max_bytes, seed)


if __name__ == "__main__":
    _, decoder, *options = sys.argv
    # libFuzzer restarts itself to merge, by giving this to a shell.
    itself = shlex.join([sys.executable, "-m", "tests.fuzz.engine", decoder])
    mutator = {"custom_mutator": arrow_mutant} if decoder == "arrow_stream" else {}
    atheris.Setup([itself, *options], lambda data: tried(decoder, data), **mutator)
    atheris.Fuzz()
