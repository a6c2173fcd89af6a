"""How to open a file at a line, in the editor a person has. Pure."""

from __future__ import annotations

import shlex
from pathlib import Path

# Editors with a window of their own, and how each is told a line.
WITH_COLON = ("code", "code-insiders", "codium", "cursor", "windsurf", "zed", "subl")
GOTO = ("code", "code-insiders", "codium", "cursor", "windsurf")


def editor_command(editor: str, path: Path, line: int) -> list[str]:
    """The command that opens ``path`` at ``line``. ``editor`` may carry options: "code -w"."""
    words = shlex.split(editor) or ["vi"]
    name = Path(words[0]).stem.lower()
    if name in GOTO:
        return [*words, "-g", f"{path}:{line}"]
    if name in WITH_COLON:
        return [*words, f"{path}:{line}"]
    if name in ("pycharm", "idea", "charm"):
        return [*words, "--line", str(line), str(path)]
    return [*words, f"+{line}", str(path)]
