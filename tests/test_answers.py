"""What is worked out from answers is worked out once, unless a circle was cut on the way to it."""

from __future__ import annotations

from amp_migrate.facts.answers import Answers


class _Links:
    """`size(of)` is worked out from what can be reached from a letter, and asked for beside."""

    def __init__(self, links: dict[str, str]) -> None:
        self._links = links
        self._answers: Answers[str, frozenset[str]] = Answers(frozenset())
        self._sizes: dict[str, int] = {}
        self.worked_out: list[str] = []

    def reached(self, letter: str) -> frozenset[str]:
        return self._answers.to(letter, lambda: self._found(letter))

    def size(self, letter: str) -> int:
        return self._answers.beside(self._sizes, letter, self._counted)

    def _found(self, letter: str) -> frozenset[str]:
        sizes = [self.size(to) for to in self._links[letter] for _ in range(2)]
        assert sizes[::2] == sizes[1::2]
        return frozenset({letter}).union(*map(self.reached, self._links[letter]))

    def _counted(self, letter: str) -> int:
        self.worked_out.append(letter)
        return len(self.reached(letter))


def test_what_is_final_is_kept_while_a_question_is_open():
    links = _Links({"a": "b", "b": "c", "c": ""})
    assert links.reached("a") == {"a", "b", "c"}
    assert links.worked_out == ["b", "c"]


def test_what_comes_of_a_cut_circle_is_worked_out_anew():
    links = _Links({"a": "b", "b": "a"})
    assert links.reached("a") == {"a", "b"}
    assert links.size("b") == 2
    assert links.worked_out.count("b") > 1
