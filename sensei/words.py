"""Every sentence that sensei says to a learner. One place, so that the voice stays one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sensei.verdict import Ran, Verdict

# what each verdict is called, in pytest's own three forms: letter and word
LETTERS: dict[Verdict, str] = {
    "broken": "b",
    "asleep": "z",
    "altered": "a",
    "open": "_",
    "stopped": "s",
    "not yet": "n",
    "solved": ".",
}
STYLES: dict[Verdict, str] = {
    "broken": "red",
    "asleep": "dim",
    "altered": "yellow",
    "open": "cyan",
    "stopped": "red",
    "not yet": "yellow",
    "solved": "green",
}

ON_TOUR = "(a stop of the four-minute tour: about {seconds} s)"
NEXT_CARD = "your next koan"
ALL_SOLVED = "Every koan of this run is solved. Well walked."
ALL_SOLVED_ELSEWHERE = "{open} more wait on the path: `pytest koans` shows the next one."
TRIED = "`pytest` with one of these shows its card."
MORE_TRIED = "... and {count} more"
AS_LAST_SEEN = "last seen"

# what to do next, under the card's code
FILL_BLANK = "Put what you believe in place of __ . Save, and run the same command again."
FILL_BLANKS = "Put what you believe in place of each __ . Save, and run the same command again."
FILL_REPAIR = "Change the lines under `# your turn:`. Save, and run the same command again."
FILL_WRITE = (
    "Write your lines in place of __ , under `# your turn:`. Save, and run the same command again."
)
STUCK = "Stuck? `koans hint` helps in steps."
STUCK_OR_CURIOUS = "Stuck? `koans hint` helps in steps; `koans docs` opens the manual."
AS_GIVEN = "As it stands, PyTorch says:"
YOU_SAID = "You said:"
PYTORCH_SAYS = "PyTorch says: not yet."
YOU_PRINTED = "It printed:"
HINT = "A hint:"
OTHER_FORM = "Look at the form first: {wanted} is asked for here, and this is {given}."
WITHOUT_CALL = "Look at the form first: write the name itself, without calling it."
WITHOUT_QUOTES = "Look at the form first: write the thing itself, without quotes."
AGREES_WITH_ITSELF = (
    "You asked PyTorch to agree with itself: your answer is made from what it is compared with. "
    "Write down the value that you expect."
)
LEFT_EARLY = (
    "Your lines leave the test before its last given line, so PyTorch was never asked. "
    "Let the test run to its end."
)
SKIPPED = "The koan was skipped, so PyTorch was never asked. Take the skip out."
RESTORE = "`koans reset {id}` puts this koan back as it was given, and keeps a copy of your file."
PAIR = (
    "the given line `{line}` ends at your comma: what follows it is assert's own message. "
    "Put ( ) around a pair, or [ ] around a list"
)
UNREADABLE = "Python cannot read your answer: {error}"
OTHER_ERROR = "Comparing your answer raised {type}."
IN_PROCESS = "(This ran inside pytest itself, not in a process of its own.)"
SOLVED_BECAUSE = "solved"
MORE_SOLVED = "... and {count} more; `koans why NAME` tells the reason of each"
WAS_SOLVED = "Solved before, not now: {ids}"

# counts
NO_SECTION = (
    "--document {section}: no koan teaches a section or claim of this name. docs/claims.md lists "
    "them, as A-3.1 or A-3.1-02."
)
ASLEEP_COUNT = "{count} asleep"
OPEN_EXTRA = (
    "{name} has an open blank and is no koan of this book, so it was not run. "
    "Fill it, or delete the test."
)
DOES_NOT_ADD_UP = (
    "The verdicts do not add up: {expected} koans in the files named, {judged} judged, "
    "{deselected} deselected, {not_reached} not reached. Please report this."
)

# broken, asleep, altered
SYNTAX = "{path}:{line}: Python cannot read this file: {message}"
IMPORT = "{path}:{line}: importing this file failed: {message}"
MISSING = "{path}:{line}: {name} is gone. `koans reset {id}` brings it back."
TWICE = "{path}:{line}: {name} is defined twice ({detail}). Delete one of them."
ALTERED = "{path}:{line}: {detail}"
ENDLESS = "it did not come to an end"
EDITED = "this koan was edited"
OTHER_ARGUMENTS = "`def {name}` has other arguments than given"
OTHER_DECORATORS = "the decorators of `{name}` are not as given"
LINE_GONE = "the given line `{line}` is missing or was edited"
LINE_EDITED = "the given line `{line}` was edited"
IMPORT_GONE = "the given `{line}` is missing"
HELPER_GONE = "the given helper `{line}` is missing or was edited"
ADDED = "`{code}` was added outside the blank"
CHANGES_GIVEN = "`{code}` changes something that was given"
REBOUND = "`{name}` is given, and was bound to something else"
LEAVE_IT = "`{name}` is given; leave it"
LINES = "lines {lines}"
EMPTY_REGION = "nothing stands under this line; write at least one line there (`pass` will do)"
NUL_BYTE = "there is a NUL byte in this line"
NOT_UTF8 = "this line is not UTF-8 text"
TOO_DEEP = "this file is too deeply nested to read"
NO_TORCH = "torch is not installed here. Install it with: pip install 'torch>={minimum}'"
OLD_TORCH = "torch {version} is too old for the koans: pip install 'torch>={minimum}'"
NO_PACKAGE = "{package} is not installed here. Install it with: pip install {package}"
NEEDS_CUDA = "needs a CUDA device, and there is none here"
CUDA_REQUIRED = "KOANS_REQUIRE_CUDA=1 is set, and no CUDA device is here: this koan may not sleep."
NEEDS_TORCH = "needs torch {spec}; this is {version}"
NEEDS_PYTHON = "needs Python {spec}; this is {version}"
NEEDS_PACKAGE = "needs the package {package}: pip install {package}"
NEEDS_PLATFORM = "needs the system that Python calls {platform}"
NEEDS_FORK = "needs a system that can fork a process"


def stopped(ran: Ran) -> str:
    """What happened to a koan that did not come to an end."""
    where = f", at line {ran.line}" if ran.line else ""
    if ran.outcome == "deadline":
        return f"Stopped after {ran.seconds:.0f} s{where}: {ENDLESS}."
    if ran.signal.startswith("SIG"):
        return f"The interpreter died with {ran.signal}{where}."
    return f"The interpreter was ended ({ran.signal}){where}, before the koan was through."


# commands -----------------------------------------------------------------------------------------

NO_MORE_HINTS = (
    "That was the last hint. `koans docs` opens the manual; `koans peek` shows an answer, "
    "if you really want to see one."
)
HINT_NUMBER = "{number} of {count}. {text}"
MORE_HINTS = "`koans hint` again gives the next one."
PEEK_ASKS = "Show an answer to {name}? Another try may teach more. [y/N] "
NOTHING_HERE = "(delete these lines)"
PEEK_KEPT = "Good. It stays hidden."
PEEK_NEEDS_YES = "`koans peek` asks first; without a terminal say `koans peek --yes`."
WHY_FIRST = "{name} is not solved yet. Its reason comes with the answer."
WHY_ASLEEP = "{name} sleeps here ({reason}). So you may read its reason:"
RESET_DONE = "{id} is as it was given."
RESET_TROUBLE = (
    "{id} is put back, and its file needs one more step:\n"
    "{path}:{line}: {detail}\n"
    "Mend that line, or bring back the whole file: `koans reset {file}`."
)
RESET_BACKUP = "Your old file: {backup}"
RESET_NEW = "{path} was missing; it is back, as it was given."
INIT_NOT_EMPTY = (
    "{path} is not empty, and nothing in it may be lost. Choose a new folder; "
    "for a newer book in an old workbook, `cd` there and run `koans update`."
)
INIT_NO_PLACE = "{path} cannot be made ({reason}). Choose a folder where you may write."
INIT_NO_GROUP = "{group} is no group. There are: {groups}"
INIT_DONE = "{path} holds {count} koans now. The first one waits: pytest {path}"
UPDATE_ADDED = "new        {id}"
UPDATE_CARRIED = "changed    {id}  (your answer came along)"
UPDATE_CHANGED = "changed    {id}  (it was open)"
UPDATE_LOST = "changed    {id}  (your answer does not fit any more; it is in the backup)"
UPDATE_RESTORED = "back       {id}  (it was missing from your file)"
UPDATE_REMOVED = "removed    {id}  (what you wrote is in the backup)"
UPDATE_UNREADABLE = "left alone {id}  (Python cannot read it; mend it, then update again)"
UPDATE_BACKUP = "{path}: your old file is {backup}"
UPDATE_NOTHING = "Your workbook has the newest koans already."
UPDATE_DRY = "Nothing was written. `koans update` does it."
UPDATE_DONE = "Done. `pytest` shows where you stand."
# Under `koans watch` nothing has to be run again, and help is a key away.
LIVE = {
    "Save, and run the same command again.": "Save.",
    "`koans hint` again gives the next one.": "h again gives the next one.",
    "`koans hint` helps in steps": "h helps in steps",
    "`koans docs` opens the manual": "d opens the manual",
    "`koans peek` shows an answer": "p shows an answer",
}
WATCH_START = "Watching {path}. One moment: PyTorch is waking up."
WATCH_CHECKING = "asking PyTorch ..."
WATCH_STILL = "still running: {seconds} s (a koan may take {deadline:.0f}); a new save starts again"
WATCH_ALSO = "Also judged: {name}: {verdict}"
WATCH_PAGER = "q goes back to the koan"
WATCH_KEYS = (
    "Enter again · h hint · p peek · d docs · l list · n skip · r reset · e editor · q quit"
)
WATCH_KEYS_SOLVED = "Enter goes on · d docs · l list · q quit"
WATCH_KEYS_BACK = "Any key goes back."
WATCH_SOLVED = "Solved."
WATCH_ALL = "Every koan here is solved. Well walked. Ctrl-C or q ends."
WATCH_BYE = "{done} of {total} solved here. See you soon."
WATCH_FAILED = "The check ended by itself ({cause}). Enter tries again."
WATCH_SEARCH = "Search for (Enter: all): "
WATCH_NOTHING = "No koan speaks of {text}."
WATCH_RESET = "Put {name} back as it was given? Your file is backed up first. [y/N] "
WATCH_NO_EDITOR = "The editor {editor} could not be started: {error}"
ASK_HELLO = (
    "{name}, just before its blank. Here are: {names}\n"
    "Ask PyTorch whatever you like; no file changes. Ctrl-D ends."
)
ASK_INSIDE = "(The blank stands inside a block; what is made in the block is not here.)"
ASK_TROUBLE = "(The lines before the blank stopped with {error})"
ASK_BYE = "Back to the koan."
MAP_TITLE = "The path"
MAP_DONE = "{done} of {total} koans are solved. Each dot is one; point at it to read what it asks."
MAP_STATES = {
    "open": "still to be filled",
    "not yet": "filled, and not solved when last seen",
    "solved": "PyTorch said yes",
    "asleep": "cannot run on this machine",
}
MAP_CORE = "The five primitives"
MAP_AROUND = "Around them"
MAP_GROUP = "{done} of {total} solved"
REPORT_UNJUDGED = "{count} koans got no verdict. `pytest {path}` shows what is in the way."
IS_FOLDER = "{path} is a folder. Name a file in it."
NO_FOLDER = "There is no folder {path}. Make it first, or choose another place."
NO_ACCESS = "{path}: {reason}. Choose a place where you may read and write."
MAP_WRITTEN = "The path is in {path}. Any browser opens it."
NO_CURRENT = "Every koan is solved: name the one you mean."
UNKNOWN_TARGET = "{target} is no koan, file or group here. `koans list` shows them all."
NO_KOAN_THERE = "{file} has no koan at line {line}. `koans list {file}` shows those it has."
AMBIGUOUS_TARGET = "{target} could be {ids}. Say which: group/file::name."
HOLDS_SOLUTIONS = "{path} holds your solutions; `koans build --force` replaces it, after a backup."
CI_HOLDS_SOLUTIONS = (
    "{path} holds solutions. Wonderful, and please keep them out of the pull request: "
    "git checkout {path}"
)
NO_RUFF = (
    "ruff is not installed here, and `koans build` formats with it: pip install -r requirements.txt"
)
BUILD_STALE = "{path} is not what {answers} makes of it; run `koans build`."
BUILD_EXTRA = "{path} has no answers file; delete it."


def live(text: str) -> str:
    """A sentence as `koans watch` says it."""
    for here, there in LIVE.items():
        text = text.replace(here, there)
    return text
