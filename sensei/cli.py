"""The command line: ``koans COMMAND``. Thin: it finds the workbook and calls the rooms."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sensei import authors, learner, own, words
from sensei.book import Book, packaged_root
from sensei.records import BookError, Chapter
from sensei.state import load
from sensei.targets import koans_of, one_koan
from sensei.workbook import Workbook, WorkbookError, find_workbook

DESCRIPTION = """\
Learn PyTorch by predicting what it does. `pytest koans` judges your answers;
these commands help on the way. A TARGET is a koan, a file, a place as a card prints
it, or a group: test_shape, 01_tensor/test_02_views.py, 01_tensor/test_02_views.py:17,
01_tensor. Without one, hint, peek, why, docs and ask mean the koan of the last card;
the others mean all koans.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0, 1 for "no", 2 for what cannot be done."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except BookError as error:  # the verdict on an answers file
        print(error, file=sys.stderr)
        return 1
    except WorkbookError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `koans list | head`: who reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        path, reason = error.filename or "koans", error.strerror or error
        print(words.NO_ACCESS.format(path=path, reason=reason), file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="koans", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(run=lambda _: _help(parser))
    commands = parser.add_subparsers(metavar="COMMAND")

    def command(name: str, text: str, target: str = "") -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        if target:
            sub.add_argument("target", nargs=target, metavar="TARGET")
        return sub

    hint = command("hint", "one more hint for a koan", "?")
    hint.set_defaults(run=lambda o: learner.hint(find_workbook(Path.cwd()), o.target))
    peek = command("peek", "show an answer, after asking", "?")
    peek.add_argument("--yes", action="store_true", help="do not ask")
    peek.set_defaults(run=lambda o: learner.peek(find_workbook(Path.cwd()), o.target, o.yes))
    why = command("why", "the reason behind a solved koan", "?")
    why.set_defaults(run=lambda o: learner.why(find_workbook(Path.cwd()), o.target))
    docs = command("docs", "PyTorch's own manual for a koan, offline", "?")
    docs.set_defaults(run=lambda o: learner.docs(find_workbook(Path.cwd()), o.target))
    listing = command("list", "all koans and how they stand", "?")
    listing.add_argument(
        "-s",
        "--search",
        metavar="TEXT",
        default="",
        help="only koans with TEXT in name, lesson or see",
    )
    listing.set_defaults(
        run=lambda o: learner.list_koans(find_workbook(Path.cwd()), o.target, o.search)
    )
    watch = command("watch", "a verdict at every save, and help at a key", "?")
    watch.add_argument(
        "--deadline", type=float, metavar="SECONDS", help="the longest a koan may take (60)"
    )
    watch.add_argument(
        "--poll", action="store_true", help="look for changes twice a second: for network disks"
    )
    watch.set_defaults(run=_watch)
    reset = command("reset", "put a koan, file or group back as given (with a backup)", "+")
    reset.set_defaults(run=lambda o: learner.reset_koans(find_workbook(Path.cwd()), o.target))

    asking = command("ask", "a Python prompt with a koan's names, just before its blank", "?")
    asking.set_defaults(run=_ask)
    page = command("map", "the whole path as one page for a browser")
    page.add_argument(
        "-o", "--output", type=Path, metavar="FILE", default=Path("koans-map.html"),
        help="default: koans-map.html",
    )  # fmt: skip
    page.set_defaults(run=lambda o: learner.map_page(find_workbook(Path.cwd()), o.output))
    told = command("report", "the verdicts as data, see docs/report.md", "?")
    told.add_argument("--json", action="store_true", required=True, help="as one JSON object")
    told.add_argument("-o", "--output", type=Path, metavar="FILE", help="into a file")
    told.set_defaults(run=lambda o: _report(find_workbook(Path.cwd()), o.target, o.output))

    init = command("init", "a workbook of your own in a new folder")
    init.add_argument("folder", type=Path, metavar="DIR")
    init.add_argument("groups", nargs="*", metavar="GROUP", help="only these; default: all")
    init.set_defaults(run=lambda o: own.init(o.folder, o.groups))
    update = command("update", "bring the newest koans into your workbook; your answers stay")
    update.add_argument("--dry-run", action="store_true", help="only say what would happen")
    update.set_defaults(run=lambda o: own.update(find_workbook(Path.cwd()), o.dry_run))

    build = command("build", "for contributors: write koans/ from answers/")
    build.add_argument("--check", action="store_true", help="write nothing; exit 1 if stale")
    build.add_argument("--force", action="store_true", help="replace solved files, after a backup")
    build.set_defaults(
        run=lambda o: authors.build(_book(), _book().root.parent / "koans", o.check, o.force)
    )
    check = command("check", "for contributors: lint the answers files")
    check.add_argument("files", nargs="*", type=Path)
    check.add_argument("-v", "--verbose", action="store_true", help="new API names of each koan")
    check.set_defaults(
        run=lambda o: authors.check(_book(), _chapters(o.files), not o.files, o.verbose)
    )
    new = command("new", "for contributors: write a scaffold for group/test_01_file.py::test_name")
    new.add_argument("target", metavar="TARGET")
    new.set_defaults(run=lambda o: authors.new(_book(), o.target))
    prove = command("prove", "for contributors: run every answer, wrong and lazy answer of files")
    prove.add_argument("files", nargs="*", type=Path)
    prove.set_defaults(run=lambda o: authors.prove(_chapters(o.files)))
    return parser


def _help(parser: argparse.ArgumentParser) -> int:
    """What `koans` alone says."""
    parser.print_help()
    return 0


def _report(workbook: Workbook, target: str | None, output: Path | None) -> int:
    from sensei.json_report import write_report  # pytest is heavy, and only this needs it

    return write_report(workbook, koans_of(workbook, target or ""), output)


def _ask(options: argparse.Namespace) -> int:
    from sensei.ask import ask  # brings pytest

    workbook = find_workbook(Path.cwd())
    return ask(workbook, one_koan(workbook, load(workbook.root), options.target))


def _watch(options: argparse.Namespace) -> int:
    from sensei.watch import watch  # brings torch and pytest, and only this needs them

    workbook = find_workbook(Path.cwd())
    ids = [koan.id for koan in koans_of(workbook, options.target or "")]
    return watch(workbook, ids, options.deadline, options.poll)


def _book() -> Book:
    """The book of the clone we stand in, else the one that came with this sensei."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (folder / "answers").is_dir() and (folder / "sensei").is_dir():
            return Book(folder / "answers")
    return Book(packaged_root())


def _chapters(files: Sequence[Path]) -> list[Chapter]:
    if not files:
        return list(_book().chapters)
    chapters = []
    for file in files:
        file = file.resolve()
        if not file.is_file():
            raise WorkbookError(f"{file}: there is no such answers file")
        chapters.append(Book(file.parent.parent).chapter(f"{file.parent.name}/{file.name}"))
    return chapters


if __name__ == "__main__":
    sys.exit(main())
