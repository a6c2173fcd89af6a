"""Does a koan give its own answer away? Its name, its lesson and all its words are looked at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from sensei.records import Koan


def given_away(koan: Koan) -> Iterator[str]:
    """One line for each text of a koan that holds an answer: its name, its lesson, its hints."""
    places = [("the lesson", koan.lesson), ("the name", koan.name.replace("_", " "))]
    places += [(f"hint {i}", hint) for i, hint in enumerate(koan.hints, 1)]
    places += [("the reason of a wrong answer", wrong.reason) for wrong in koan.wrong]
    places += [("a word of at=", word) for _, word in koan.at]
    for slot in koan.slots:
        for secret in _secrets(slot.answer, slot.region):
            pattern = rf"(?<![\w.]){re.escape(secret)}(?!\w|\.\d)"
            for place, text in places:
                short = secret in ("True", "False", "None") or (
                    secret.isdigit() and len(secret) == 1
                )
                if short and place in ("the lesson", "the name"):
                    continue  # "answer True or False", "a 2 by 3 matrix" give nothing away
                if secret in ("True", "False") and {"True", "False"} <= {*re.findall(r"\w+", text)}:
                    continue
                if re.search(pattern, text):
                    yield f"{place} holds the answer: {secret}"


def _secrets(answer: str, region: bool) -> list[str]:
    if region:
        return [line.strip() for line in answer.split("\n") if len(line.strip()) >= 8]
    secrets = [answer]
    try:
        value = ast.literal_eval(answer)
    except (ValueError, SyntaxError):
        if re.fullmatch(r"[\w.]+", answer):  # torch.float32, or ValueError
            secrets.append(answer.split(".")[-1])
    else:
        if isinstance(value, str) and len(value) >= 3:
            secrets = [value]
    return list(dict.fromkeys(secrets))
