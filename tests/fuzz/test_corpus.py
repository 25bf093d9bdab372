"""Kept inputs, found by `make fuzz` or once harmful: no decoder fails or hangs on any of them."""

import hashlib
import time

import pytest

from tests.fuzz.decoders import DECODERS, tried
from tests.fuzz.seeds import CORPUS

MAX_CORPUS_BYTES = 10**6
SECONDS_AT_MOST = 1.0


@pytest.mark.parametrize("decoder", DECODERS)
def test_every_kept_input_is_taken_or_rejected_in_time(decoder: str) -> None:
    inputs = sorted((CORPUS / decoder).iterdir())
    assert inputs
    for path in inputs:
        before = time.process_time()
        try:
            tried(decoder, path.read_bytes())
        except Exception as error:
            error.add_note(f"input: {path.name}")
            raise
        assert time.process_time() - before < SECONDS_AT_MOST, path.name


def test_the_corpus_stays_small_and_belongs_to_the_decoders() -> None:
    kept = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in kept) < MAX_CORPUS_BYTES
    assert {path.relative_to(CORPUS).parent.as_posix() for path in kept} == DECODERS.keys()


def test_no_kept_input_was_changed_on_its_way_here() -> None:
    for path in CORPUS.glob("*/*"):
        assert path.name == hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
