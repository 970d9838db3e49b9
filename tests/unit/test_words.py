"""What ``python -m tests.words`` counts, on texts of one line each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import words
from tests.words import Text, faults, is_imperative, of_document, of_python, sentences

SOURCE = '''"""Parts."""
# a comment here
class A:
    """One."""
    @property
    def n(self):
        """What."""

    def f(self):
        """Do."""
        raise E("a message")
'''


def kinds(*said: str, read: bool = False) -> list[str]:
    """Return what is found in some texts, by its kind."""
    lines = list(enumerate(said))
    return [kind for kind, _, _ in faults(Text(said=lines, read=lines if read else []))]


def test_words_for_people_and_words_of_the_list_are_counted() -> None:
    assert kinds("Nobody who is told anew") == ["people", "people", "avoided", "avoided"]
    assert kinds("An example on the margin, its key, and the heading of a table") == []


def test_a_sentence_is_counted_from_31_words_on() -> None:
    assert kinds("word " * 30 + "word.", read=True) == ["long_sentences"]
    assert kinds("word " * 29 + "word. Short it is here.", read=True) == []


def test_code_is_one_word_and_a_link_its_text() -> None:
    (one,) = sentences("Call `a b c d e f` as [the page says](../far/away.md) and no more.")
    assert len(one.split()) == 9


@pytest.mark.parametrize("line", ["Return the step.", "Pass the request on.", "Say so."])
def test_imperatives_are_taken(line: str) -> None:
    assert is_imperative(line)


@pytest.mark.parametrize("line", ["What is left.", "Whether it ends.", "The model.", "Returns it.", "Models, by id."])
def test_other_first_lines_are_not(line: str) -> None:
    assert not is_imperative(line)


def test_a_module_is_read_with_its_comments_and_without_properties(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(words, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text(SOURCE)
    text = of_python(tmp_path / "a.py")
    assert [said for _, said in text.said] == ["Parts.", "One.", "What.", "Do.", "# a comment here", "a message"]
    assert [said for _, said in text.first_lines] == ["Do."]


def test_a_document_is_read_without_its_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nSome prose here.\n\n```sh\nwho am i\n```\n\n    who am i\n\n| a cell | another |\n")
    said = " ".join(text for _, text in of_document(page).said)
    assert "Some prose here." in said
    assert "another" in said
    assert "who" not in said


def test_a_count_above_its_limit_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(words, "LIMITS", tmp_path / "limits.json")
    monkeypatch.setattr(words, "texts", lambda: iter([("a.md", Text(said=[(1, "nobody"), (2, "who")]))]))
    monkeypatch.setattr(sys, "argv", ["words", "--lower"])
    for limit, status in ((1, 1), (3, 0), (2, 0)):
        words.LIMITS.write_text(f'{{"people": {limit}, "avoided": 0, "first_lines": 0, "long_sentences": 0}}')
        assert words.main() == status
        assert f'"people": {min(limit, 2)}' in words.LIMITS.read_text()
