"""The blank a learner fills, and the two words an author writes around it.

``__`` stands where an answer belongs. ``answer(value)`` marks that place in the
book and returns ``value``; ``koan(...)`` carries what the book knows about a koan
and returns the function unchanged. None of them changes what a test does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

__all__ = ["Blank", "Unsolved", "__", "answer", "koan"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# One answer is a string of source; a koan with several blanks takes a tuple of them.
Source = str | tuple[str, ...]


class Unsolved(Exception):
    """A blank was used before it was filled."""

    def __init__(self) -> None:
        super().__init__("this blank, __, is still open: put your answer in its place")


class Blank:
    """What ``__`` is: nearly every use of it raises :class:`Unsolved`.

    ``is __``, ``[__]`` and a bare ``__`` cannot raise anything in Python, so open
    blanks are found by reading the source; this object is the second line of
    defence, for somebody who runs a koan without the plugin.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # a blank as a dict key would hide itself

    def _open(self, *args: object, **kwargs: object) -> NoReturn:
        raise Unsolved

    __call__ = __bool__ = __len__ = __iter__ = __next__ = __contains__ = _open
    __getitem__ = __setitem__ = __delitem__ = __enter__ = __exit__ = _open
    __lt__ = __le__ = __gt__ = __ge__ = _open
    __eq__ = __ne__ = _open
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _open
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _open
    __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _open
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _open
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _open
    __neg__ = __pos__ = __abs__ = __invert__ = _open
    __int__ = __float__ = __complex__ = __index__ = __round__ = _open
    __array__ = _open

    @classmethod
    def __torch_function__(
        cls,
        func: object,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> NoReturn:
        raise Unsolved

    def __repr__(self) -> str:
        return "__"


__ = Blank()


def answer(value: T) -> T:
    """Mark ``value`` as the answer of a blank (only the book uses this)."""
    return value


def koan(
    *,
    see: str,
    hint: str | Sequence[str],
    why: str,
    wrong: Mapping[Source, str],
    right: Sequence[Source] = (),
    claims: Sequence[str] = (),
    at: Mapping[str, str] | None = None,
    aliases: Sequence[str] = (),
) -> Callable[[F], F]:
    """Tell the book about a koan. The decorated test itself is not changed.

    see: dotted name of the PyTorch (or Python) object whose docstring tells more.
    hint: one text, or several steps, none of which holds the answer.
    why: the reason, shown once the koan is solved.
    wrong: source of a wrong answer -> why somebody believes it. With several blanks
        the key is a tuple of all of them, in order.
    right: other answers that must pass.
    claims: ids of the ledger that this koan teaches.
    at: a piece of a given line -> what to say, instead of a hint, when this line says no.
    aliases: former names of this koan, so that an update finds a learner's answer; as
        group/file::name, if it stood in another file.

    Raises TypeError for any other keyword, when the book is imported.
    """
    del see, hint, why, wrong, right, claims, at, aliases  # read from the source, by sensei.book

    def unchanged(function: F) -> F:
        return function

    return unchanged
