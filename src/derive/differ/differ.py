# SPDX-License-Identifier: Apache-2.0
"""Tells how two files differ, by what they are; what is of no known format, or not readable as it, byte by byte.

Core: no IO.
"""

from __future__ import annotations

from derive.archives.stream import compression_of
from derive.differ.model import LIMITS, Content, Limits, Report, Sides, Spent, Unread
from derive.differ.raw import compare_raw
from derive.errors import DeriveError
from derive.trees.diff import first_difference
from derive.why.render import Line
from derive.words import size_text

_HEAD = 512


def differ(name: str, first: Content | bytes, second: Content | bytes, limits: Limits = LIMITS) -> list[Line]:
    """Return how two files of a name differ, in lines for people; nothing where they are equal.

    On no bytes does it raise; it raises what reading the contents raises.
    """
    sides = _content(first), _content(second)
    report = Report(limits)
    try:
        if first_difference(*(report.read(side) for side in sides)) is None:
            return []
        compare(report, name, sides)
    except Spent:
        note_spent(report)
    return report.finished()


def note_spent(report: Report) -> None:
    """Say that the comparison ended at the limit of what it reads."""
    report.say(f"stopped: more than {size_text(report.limits.read_bytes)} would be read", "dim")


def compare(report: Report, name: str, sides: Sides) -> None:
    """Tell how two contents differ that are known to; archives within them are opened up to the limits."""
    try:
        heads = [report.head(side, _HEAD) for side in sides]
        kinds = [kind_of(name, head) for head in heads]
    except DeriveError as error:
        # A member whose archive breaks off inside it.
        report.say(f"not read: {_words(error)}", "dim")
        return
    if kinds[0] != kinds[1]:
        report.say(f"{kinds[0]} -> {kinds[1]}")
    elif report.depth >= report.limits.depth:
        report.say(f"not opened: {report.depth} archives deep", "dim")
    else:
        report.depth += 1
        said = report.said
        try:
            _by_kind(report, name, kinds[0], sides)
        except Spent:
            raise
        except Exception as error:  # noqa: BLE001 - readers of foreign formats raise whatever they meet
            if kinds[0] != "bytes":
                report.say(f"not read as {kinds[0]}: {_words(error)}", "dim")
            said = -1
        finally:
            report.depth -= 1
        if said != -1 and report.said > said:
            return
    compare_raw(report, sides)


def kind_of(name: str, head: bytes) -> str:
    """Say what a file is by its first 512 bytes and its name."""
    from derive.differ.pyc import is_pyc
    from derive.differ.tars import is_tar
    from derive.differ.texts import is_text

    if head.startswith(b"\x7fELF"):
        return "ELF"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if head.startswith(b"!<arch>\n"):
        return "ar"
    compression = compression_of(head)
    if compression is not None:
        return compression
    if is_tar(head):
        return "tar"
    if is_pyc(head):
        return "byte code"
    return ("JSON" if name.endswith(".json") or head[:1] in (b"{", b"[") else "text") if is_text(head) else "bytes"


def _by_kind(report: Report, name: str, kind: str, sides: Sides) -> None:
    match kind:
        case "zip":
            from derive.differ.zips import compare_zip

            compare_zip(report, sides, compare)
        case "tar":
            from derive.differ.tars import compare_tar

            compare_tar(report, sides, compare)
        case "ar":
            from derive.differ.ars import compare_ar

            compare_ar(report, sides, compare)
        case "gz" | "xz" | "bz2" | "zst":
            from derive.differ.compressed import compare_compressed

            compare_compressed(report, name, sides, compare)
        case "bytes":
            raise Unread("bytes")
        case _:
            _held(report, kind, report.hold(sides[0]), report.hold(sides[1]))


def _held(report: Report, kind: str, first: bytes, second: bytes) -> None:
    from derive.differ.texts import compare_text, is_text

    match kind:
        case "ELF":
            from derive.differ.elf import compare_elf

            compare_elf(report, first, second)
        case "byte code":
            from derive.differ.pyc import compare_pyc

            compare_pyc(report, first, second)
        case "JSON":
            from derive.differ.jsons import compare_json

            try:
                compare_json(report, first, second)
            except Unread:
                compare_text(report, first, second)
        case _:
            if not (is_text(first) and is_text(second)):
                raise Unread("control characters in it")
            compare_text(report, first, second)


def _words(error: Exception) -> str:
    if isinstance(error, DeriveError):
        return error.problems()[0].message
    return str(error).partition("\n")[0][:120] or type(error).__name__


def _content(one: Content | bytes) -> Content:
    return one if isinstance(one, Content) else Content.of(one)
