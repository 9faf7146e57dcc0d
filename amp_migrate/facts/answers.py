"""Answers to questions that lead to each other, in circles as well: each is worked out once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Question = TypeVar("_Question", bound=Hashable)
_Answer = TypeVar("_Answer")
_Other = TypeVar("_Other", bound=Hashable)
_OtherAnswer = TypeVar("_OtherAnswer")
_NO_QUESTION = sys.maxsize


class Answers(Generic[_Question, _Answer]):
    """Remembers answers, and cuts circles: a question that is already open is answered with `nothing`.

    What is found on the way may then be incomplete. It is a draft that serves the questions still open, and is
    forgotten with the last of those that it depends on.
    """

    def __init__(self, nothing: _Answer) -> None:
        self._nothing = nothing
        self._known: dict[_Question, _Answer] = {}
        self._drafts: dict[_Question, _Answer] = {}
        self._open: dict[_Question, int] = {}  # the questions that are being answered, with their depths
        self._depends_on = _NO_QUESTION  # the outermost open question that was cut on the way to the current one
        self._drafts_depend_on = _NO_QUESTION  # the same for all drafts

    def to(self, question: _Question, compute: Callable[[], _Answer]) -> _Answer:
        """The answer to a question; `compute` works it out, and may ask others."""
        known = self._known.get(question)  # no answer is None
        if known is not None:
            return known
        draft = self._drafts.get(question)
        if draft is not None:
            self._depends_on = min(self._depends_on, self._drafts_depend_on)
            return draft
        if question in self._open:
            self._depends_on = min(self._depends_on, self._open[question])
            return self._nothing
        before, self._depends_on = self._depends_on, _NO_QUESTION
        depth = self._open[question] = len(self._open)
        try:
            found = compute()
        finally:
            del self._open[question]
        if self._depends_on < depth:
            self._drafts[question] = found
            self._drafts_depend_on = min(self._drafts_depend_on, self._depends_on)
            self._depends_on = min(self._depends_on, before)
            return found
        self._known[question] = found
        if self._drafts_depend_on >= depth:
            self._drafts.clear()
            self._drafts_depend_on = _NO_QUESTION
        self._depends_on = before
        return found

    def knows(self, question: _Question) -> bool:
        """True where the answer to a question is worked out, and no draft."""
        return question in self._known

    def beside(
        self, kept: dict[_Other, _OtherAnswer], question: _Other, compute: Callable[[_Other], _OtherAnswer]
    ) -> _OtherAnswer:
        """The answer to a question of another kind, which cuts no circle: worked out from answers, and `kept` where
        none of them was a draft.
        """
        if question in kept:
            return kept[question]
        before, self._depends_on = self._depends_on, _NO_QUESTION
        found = compute(question)
        if self._depends_on == _NO_QUESTION:
            kept[question] = found
        self._depends_on = min(self._depends_on, before)
        return found

    def forget(self) -> None:
        """Ask everything anew: the facts behind the answers have changed."""
        self._known.clear()
