"""The journal knows the last started request and the finished files, however its writer ended."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.client.send import journal as journal_module
from app.client.send.journal import Finished, Journal, Started
from app.errors import Code, Misconfigured, RejectedInput


def begun(number: int, file: str = "a") -> Started:
    return Started(number, file, number - 1, number, 10 * number)


def finished(file: str) -> Finished:
    return Finished(file, 10, 20, 1)


@given(
    st.lists(
        st.builds(begun, st.integers(1, 9), st.sampled_from("abc")) | st.builds(finished, st.sampled_from("abc")),
        max_size=12,
    ),
    st.integers(0, 60),
)
def test_lines_that_were_written_are_read_again_and_a_torn_one_is_not(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Started | Finished], torn: int
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    last, done = None, {}
    with Journal.opened(folder, "p") as journal:
        for line in lines:
            if isinstance(line, Started):
                journal.start(line)
                last = line
            else:
                journal.finish(line)
                done[line.file] = line
        journal.start(begun(99))
    path = folder / "p.journal"
    content = path.read_bytes()
    path.write_bytes(content[: max(len(content) - 1 - torn, content.rfind(b"\n", 0, -1) + 1)])
    with Journal.opened(folder, "p") as journal:
        assert (journal.last, journal.finished) == (last, done)


def test_the_journal_stays_short_however_many_requests_were_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_LINES_BEFORE_COMPACTION", 10)
    with Journal.opened(tmp_path, "p") as journal:
        journal.finish(finished("z"))
        for number in range(1, 200):
            journal.start(begun(number))
    assert len((tmp_path / "p.journal").read_bytes().splitlines()) < 20
    with Journal.opened(tmp_path, "p") as journal:
        assert (journal.last, list(journal.finished)) == (begun(199), ["z"])


def test_a_file_that_was_forgotten_may_come_again(tmp_path: Path) -> None:
    with Journal.opened(tmp_path, "p") as journal:
        journal.start(begun(1))
        assert journal.unfinished == "a"
        journal.finish(finished("a"))
        assert journal.unfinished is None
        journal.forget("a")
    with Journal.opened(tmp_path, "p") as journal:
        assert (journal.unfinished, journal.finished) == (None, {})
        assert journal.last is not None
        assert journal.last.number == 1


def test_a_journal_has_one_writer(tmp_path: Path) -> None:
    with Journal.opened(tmp_path, "p"):
        with pytest.raises(RejectedInput) as raised, Journal.opened(tmp_path, "p"):
            pass
        with Journal.opened(tmp_path, "q"):
            pass
    assert raised.value.code is Code.ALREADY_RUNNING


@pytest.mark.parametrize(
    "content",
    [
        b"no json\n",
        b'{"line":"begun"}\n',
        b'{"line":"journal","producer":"another"}\n',
        b'{"line":"journal","producer":"p","version":2}\n',
        b'{"line":"forgotten","file":"x"}\n',
    ],
)
def test_a_damaged_journal_is_rejected_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p.journal"
    path.write_bytes(content)
    with pytest.raises(Misconfigured, match="line 1 is damaged"), Journal.opened(tmp_path, "p"):
        pass
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match="cannot be used"), Journal.opened(tmp_path / "file", "p"):
        pass
