"""What a card says under the code: one verdict in, styled lines of text out. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from sensei import words
from sensei.records import BLANK, Koan
from sensei.verdict import Judgement, Ran, Verdict


def message(judgement: Judgement, koan: Koan) -> list[tuple[str, str]]:
    """What the card says under the code, as (style, line)."""
    return WRITERS[judgement.verdict](judgement, koan)


def _broken(judgement: Judgement, koan: Koan) -> list[tuple[str, str]]:
    return [("red", judgement.detail)]


def _asleep(judgement: Judgement, koan: Koan) -> list[tuple[str, str]]:
    return [("dim", judgement.detail)]


def _altered(judgement: Judgement, koan: Koan) -> list[tuple[str, str]]:
    return [("yellow", judgement.detail), ("", words.RESTORE.format(id=koan.id))]


def _open(judgement: Judgement, koan: Koan) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    if judgement.ran and judgement.ran.error_type:
        lines += [("", words.AS_GIVEN), *_error(judgement.ran), ("", "")]
    if koan.kind == "repair" or any(slot.given for slot in koan.slots):
        todo = words.FILL_REPAIR
    elif any(slot.region for slot in koan.slots):
        todo = words.FILL_WRITE
    else:
        blanks = [said for said in judgement.said if BLANK in said] or koan.slots
        todo = words.FILL_BLANK if len(blanks) == 1 else words.FILL_BLANKS
    return [*lines, ("", todo), ("dim", _stuck(koan))]


def _stuck(koan: Koan) -> str:
    """The manual says what to call: of use to predict, and half the answer to the others."""
    asks = not any(slot.region for slot in koan.slots)
    return words.STUCK_OR_CURIOUS if asks else words.STUCK


def _stopped(judgement: Judgement, koan: Koan) -> list[tuple[str, str]]:
    assert judgement.ran is not None
    lines = [("red", words.stopped(judgement.ran)), *_printed(judgement.ran)]
    if judgement.in_process:
        lines.append(("dim", words.IN_PROCESS))
    return [*lines, ("dim", _stuck(koan))]


def _not_yet(judgement: Judgement, koan: Koan) -> list[tuple[str, str]]:
    ran = judgement.ran
    lines: list[tuple[str, str]] = []
    asks = not any(slot.region for slot in koan.slots)
    if asks:
        lines += [("", words.YOU_SAID), *(("code", said) for said in judgement.said)]
    lines.append(("bold yellow", words.PYTORCH_SAYS))
    if judgement.tautology:
        return [*lines, ("", words.AGREES_WITH_ITSELF)]
    if judgement.left_early:
        return [*lines, ("", words.LEFT_EARLY)]
    if ran and ran.outcome == "skipped":
        return [*lines, ("", words.SKIPPED)]
    if ran and asks and ran.error_type not in ("AssertionError", ""):
        if ran.error_type in READABLE:
            error = f"{ran.error_type}: {_first_line(ran.error_message)}"
            lines.append(("", words.UNREADABLE.format(error=error)))
        else:
            lines.append(("", words.OTHER_ERROR.format(type=ran.error_type)))
    elif ran and not asks:
        lines += _error(ran)
    form = slip_in_form(judgement, koan)
    if judgement.myth:
        lines.append(("", judgement.myth))
    elif form:
        lines.append(("", form))
    elif not _spells_amiss(judgement, koan):
        shown = judgement.at or koan.hints[max(judgement.hint, 1) - 1]
        lines += [("", words.HINT), ("code", shown)]
    if ran:
        lines += _printed(ran)
    return [*lines, ("dim", _stuck(koan))]


def has_better_than_hint(judgement: Judgement, koan: Koan) -> bool:
    """Does the card know more of this answer than a hint does?"""
    return bool(
        judgement.myth
        or slip_in_form(judgement, koan)
        or judgement.at
        or _spells_amiss(judgement, koan)
    )


def _spells_amiss(judgement: Judgement, koan: Koan) -> bool:
    """Is it Python that stumbles over a name in lines of the learner's own? It says so itself."""
    writes = any(slot.region for slot in koan.slots)
    return bool(writes and judgement.ran and judgement.ran.error_type in SPELLING)


def slip_in_form(judgement: Judgement, koan: Koan) -> str:
    """The first slip in the form of an answer to a koan that asks; "" if there is none."""
    pairs = [
        (said, slot.answer) for said, slot in zip(judgement.said, koan.slots) if not slot.region
    ]
    return next((told for said, answer in pairs if (told := other_form(said, answer))), "")


FORMS: dict[type, str] = {
    list: "a list",
    tuple: "a tuple",
    dict: "a dict",
    set: "a set",
    str: "a text in quotes",
    int: "a number",
    float: "a number",
}


def other_form(said: str, answer: str) -> str:
    """What is wrong with the form of an answer, whatever its value; "" if nothing is.

    Right numbers in a wrong container are no wrong idea, so they get no hint about the
    idea. Speaks only where the book's answer is written out, and never says more of it
    than its kind.
    """
    if re.fullmatch(r"[A-Za-z_][\w.]*", answer) and answer not in ("None", "True", "False"):
        if isinstance(_literal(said), str):
            return words.WITHOUT_QUOTES
        return words.WITHOUT_CALL if re.fullmatch(r"[A-Za-z_][\w.]*\(\)", said.strip()) else ""
    wanted = _literal(answer)
    if isinstance(wanted, list | tuple) and re.match(r"torch\.(tensor|Tensor)\(", said.strip()):
        return words.OTHER_FORM.format(wanted=FORMS[type(wanted)], given="a tensor")
    return _other_type(_literal(said), wanted)


def _other_type(mine: object, wanted: object) -> str:
    if type(mine) is not type(wanted):
        if isinstance(wanted, list | tuple | dict | set | str) and type(mine) in FORMS:
            return words.OTHER_FORM.format(wanted=FORMS[type(wanted)], given=FORMS[type(mine)])
    elif isinstance(mine, list | tuple) and isinstance(wanted, list | tuple):
        # Where the places differ in form, to name one of them would say too much.
        if len(mine) == len(wanted) and len({type(one) for one in wanted}) == 1:
            return next((told for a, b in zip(mine, wanted) if (told := _other_type(a, b))), "")
    return ""


def _literal(source: str) -> object:
    try:
        return ast.literal_eval(source.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


# A name that is not there: the error says all, and a hint on PyTorch would mislead.
SPELLING = ("NameError", "UnboundLocalError")
# Errors that speak of the learner's own spelling, never of the truth.
READABLE = ("NameError", "AttributeError", "ImportError", "ModuleNotFoundError", "Unsolved")


def _solved(judgement: Judgement, koan: Koan) -> list[tuple[str, str]]:
    return [("green", koan.why)]


WRITERS: dict[Verdict, Callable[[Judgement, Koan], list[tuple[str, str]]]] = {
    "broken": _broken,
    "asleep": _asleep,
    "altered": _altered,
    "open": _open,
    "stopped": _stopped,
    "not yet": _not_yet,
    "solved": _solved,
}


def _error(ran: Ran) -> list[tuple[str, str]]:
    """A real error, cut to the learner's own lines and the first words of its message."""
    # A comprehension is a frame of its own: its line would stand there twice.
    lines = [("code", f"line {n}: {text}") for n, text in dict.fromkeys(ran.error_lines)]
    short = ran.error_message.split("Full diff")[0]  # pytest adds it where CI is set
    short = ANSI.sub("", short)  # torch.load prints some of its words in bold
    told = [line for line in short.split("\n") if line.strip()]
    told = [line for line in told if not line.strip().startswith(NOISE)]
    if any(line.startswith("Original Traceback") for line in told):  # of a DataLoader's worker
        told = [told[0], told[-1]]
    message = "\n".join(re.sub(r" at 0x[0-9a-f]+", "", line)[:300] for line in told[:4])
    return [*lines, ("code", f"{ran.error_type}: {message}".rstrip(": "))]


ANSI = re.compile(r"\x1b\[[0-9;]*m")

# Lines of pytest's explanation that tell a learner nothing.
NOISE = ("Use -v", "+  where <", "+    where <", "+  and   <", "+    and   <", "...Full output")


def _printed(ran: Ran) -> list[tuple[str, str]]:
    if not ran.printed.strip():
        return []
    lines = ran.printed.rstrip().split("\n")
    return [("", words.YOU_PRINTED), *(("code", line[:200]) for line in lines[:10])]


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0]
