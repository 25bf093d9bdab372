"""One decoder under atheris, in a process of its own: `python -m tests.fuzz.engine DECODER [libFuzzer options]`."""

import shlex
import sys

import atheris

with atheris.instrument_imports(include=["app"]):
    from tests.fuzz.decoders import tried

if __name__ == "__main__":
    _, decoder, *options = sys.argv
    # libFuzzer starts itself anew to merge, by giving this to a shell.
    itself = shlex.join([sys.executable, "-m", "tests.fuzz.engine", decoder])
    atheris.Setup([itself, *options], lambda data: tried(decoder, data))
    atheris.Fuzz()
