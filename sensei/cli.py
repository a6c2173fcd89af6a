"""The command line: ``koans COMMAND``. Thin: it finds the workbook and calls the rooms."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sensei.book import Book, packaged_root
from sensei.lint import check_book, check_chapter, check_see
from sensei.prove import rounds, run_round
from sensei.records import BookError, Chapter


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="koans", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="lint the answers files")
    check.add_argument("files", nargs="*", type=Path)
    prove = commands.add_parser("prove", help="run every answer, wrong and lazy, of some files")
    prove.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    try:
        chapters = _chapters(options.files)
    except BookError as error:
        print(error)
        return 1
    if options.command == "check":
        return _check(chapters, whole=not options.files)
    return _prove(chapters)


def _chapters(files: Sequence[Path]) -> list[Chapter]:
    if not files:
        return list(Book(packaged_root()).chapters)
    chapters = []
    for file in files:
        file = file.resolve()
        chapters.append(Book(file.parent.parent).chapter(f"{file.parent.name}/{file.name}"))
    return chapters


def _check(chapters: list[Chapter], whole: bool) -> int:
    offences = [str(o) for chapter in chapters for o in check_chapter(chapter)]
    if whole:
        offences += [str(o) for o in check_book(chapters)]
    for chapter in chapters:
        for koan in chapter.koans:
            if said := check_see(koan):
                offences.append(f"{chapter.path}:{koan.line}: {koan.name}: {said}")
    print("\n".join(offences) or "clean")
    return 1 if offences else 0


def _prove(chapters: list[Chapter]) -> int:
    bad = total = 0
    for chosen in rounds(chapters):
        with tempfile.TemporaryDirectory() as folder:
            for result in run_round(Path(folder), chosen):
                total += 1
                if not result.as_expected:
                    bad += 1
                    print(f"{result.verdict}: {result.mutant}")
    print(f"{total} mutants, {bad} not as expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
