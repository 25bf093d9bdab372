"""The lines for reading: which modules count, and that the lists are up to date."""

from pathlib import Path

from benchmarks.reading_lines import EXACT_PATH, FOLDERS, OTHERS, reading_lines

ROOT = Path(__file__).parents[2]


def test_every_listed_module_and_folder_exists() -> None:
    gone = [name for name in (*EXACT_PATH, *OTHERS) if not (ROOT / name).is_file()]
    assert gone == [], "update the set in benchmarks/reading_lines.py"
    assert [folder for folder in FOLDERS if not any((ROOT / folder).glob("*.py"))] == []


def test_every_module_of_the_folders_counts_unless_it_is_listed() -> None:
    lines = reading_lines()
    modules = {str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert modules - EXACT_PATH <= lines.keys()
    assert not lines.keys() & EXACT_PATH
    assert lines["app/formats/json/quote_accounting.py"] == len(
        (ROOT / "app/formats/json/quote_accounting.py").read_text(encoding="utf-8").splitlines()
    )


def test_key_counters_of_the_exact_path_count_as_strictness(tmp_path: Path) -> None:
    for name in (*EXACT_PATH, *OTHERS):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    messages = "x = 1\n\ndef count_keys(a):\n    return a\n\ndef other():\n    return 0\n"
    (tmp_path / "app/formats/arcion/messages.py").write_text(messages)
    lines = reading_lines(tmp_path)
    assert {name: count for name, count in lines.items() if count} == {
        "app/formats/arcion/messages.py (counters of keys)": 2
    }
