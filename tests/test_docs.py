"""README and CONTRIBUTING say what is true: their commands run, their screens are real.

python -m tests.test_docs     writes README's generated parts anew
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from sensei.asleep import torch_version
from sensei.book import Book, packaged_root
from sensei.cli import main as koans
from sensei.workbook import shipped_text, write
from tests.desk import REPO, Desk

README = REPO / "README.md"
ABOUT = {
    "01_tensor": "creation, views, dtypes, storage, in-place, indexing, eager execution, devices",
    "02_autograd": "leaves, the graph, accumulation, backward, in-place, modes, functions, hooks",
    "03_module": "registration, parameters, containers, state_dict, modes, calling, moving",
    "04_dataloader": "datasets, collate, fetching, workers, processes, deadlines, benchmarks",
    "05_loop": "the four lines, optimizers, losses, clipping, schedules, evaluation",
    "06_pitfalls": "the mistakes people really make",
    "07_amp": "half precision, autocast, GradScaler",
    "08_torchscript": "script and trace, and what took their place",
    "09_memory": "what keeps memory alive, and what it costs",
    "10_deployment": "serving, export, ONNX, quantization",
}


def clone(folder: Path) -> Desk:
    """What a contributor has: the sources, and a workbook as it is given."""
    for name in ("answers", "sensei", "docs"):
        shutil.copytree(REPO / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(REPO / name, folder / name)
    book = Book(folder / "answers")
    for chapter in book.chapters:
        path = folder / "koans" / chapter.key
        write(path, shipped_text(chapter, path))
    return Desk(folder)


# The first command installs no extra. A name that stands for None cannot be imported.
NO_EXTRAS = 'import sys\nsys.modules.update(dict.fromkeys(("onnx", "onnxscript", "onnxruntime")))\n'


def first_screen() -> str:
    """What the first command shows a learner without a GPU, from the map on."""
    with tempfile.TemporaryDirectory() as name:
        made = clone(Path(name))
        conftest = made.root / "conftest.py"
        conftest.write_text(NO_EXTRAS + conftest.read_text(encoding="utf-8"), encoding="utf-8")
        output = made.pytest("koans", env={"CUDA_VISIBLE_DEVICES": ""}).stdout
    start = output.index("\n01_tensor  ") + 1
    lines = [line.rstrip() for line in output[start:].rsplit("\n\n\n", 1)[0].split("\n")]
    return "```\n" + "\n".join(lines).strip("\n") + "\n```"


def group_table() -> str:
    rows = ["| group | koans | about |", "|---|---|---|"]
    for group, count in Book(packaged_root()).totals().items():
        rows.append(f"| `{group}` | {count} | {ABOUT[group]} |")
    return "\n".join(rows)


REMEDY = "README does not show this any more; write it anew: python -m tests.test_docs"
PARTS = {"first": first_screen, "groups": group_table}


def part(text: str, name: str) -> str:
    found = re.search(rf"<!-- screen: {name} -->\n(.*?)\n<!-- end -->", text, re.S)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("name", PARTS)
def test_generated_parts_are_up_to_date(name: str) -> None:
    written, made = part(README.read_text(encoding="utf-8"), name), PARTS[name]()
    pinned = (REPO / "requirements.txt").read_text(encoding="utf-8")
    if name == "first" and f"torch=={torch_version().partition('+')[0]}\n" not in pinned:
        # Another torch puts other koans to sleep; all else must be the same.
        written, made = (re.sub(r" +\d+/\d+.*", " n/n", text) for text in (written, made))
    assert written == made, REMEDY


def commands(document: str) -> list[str]:
    """Every line of the shell blocks of a document, without comments."""
    text = (REPO / document).read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", text, re.S | re.M)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.split("\n")]
    return [line for line in lines if line]


# Run elsewhere: the installing ones by CI and by hand; README's parts are compared above, and
# `pytest` alone is run by whoever reads this.
SETUP = ("python3 -m venv", "source ", "python -m tests.test_docs")


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_the_commands_run(document: str, tmp_path: Path) -> None:
    made = clone(tmp_path)
    lines = [c for c in commands(document) if not c.startswith(SETUP) and c != "pytest"]
    assert len(lines) >= 4
    for line in lines:
        program, *arguments = shlex.split(line)
        if line == "koans peek":
            arguments.append("--yes")
        if line == "koans prove answers/01_tensor/test_01_creation.py":
            continue  # tests/test_every_koan.py proves all files
        if line == "koans watch":
            continue  # tests/test_watch.py drives it; it ends when somebody quits
        if line == "koans why":
            made.solve({made.book.chapter(made.key).koans[0].name: ["[2, 20, 30]"]})
            made.pytest("koans/01_tensor", "-q")
        module = {"pytest": "pytest", "koans": "sensei"}[program]
        done = made.run("-m", module, *arguments)
        expected = (1,) if program == "pytest" or line == "koans check" else (0,)
        assert done.returncode in expected, (line, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        if line == "koans check":  # the scaffold of the line before asks to be filled
            assert "TODO" in done.stdout
    assert done.returncode == 0


def test_ci_calls_the_test_command_of_the_readme() -> None:
    line = next(c for c in commands("README.md") if c.endswith("/tox"))
    assert line in (REPO / ".ci" / "run").read_text()


def test_every_command_is_in_the_readme_or_contributing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        koans(["--help"])
    names = re.findall(r"^    (\w+) ", capsys.readouterr().out, re.M)
    told = " ".join(commands("README.md") + commands("CONTRIBUTING.md"))
    assert len(names) >= 10
    for name in names:
        assert f"koans {name}" in told, name


def test_links_lead_somewhere() -> None:
    for document in ("README.md", "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", (REPO / document).read_text()):
            assert (REPO / link).exists(), link


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    for name, make in PARTS.items():
        text = text.replace(part(text, name), make())
    README.write_text(text, encoding="utf-8")
    sys.exit(0)
