# SPDX-License-Identifier: Apache-2.0
"""Paths: each has one owner, scripts have their interpreter, links lead somewhere, and nothing raises privileges.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import basename

from derive.canonical import escape, unescape
from derive.images.modes import ModeTable
from derive.trees.listing import File
from derive.verify.findings import Finding, Rule
from derive.verify.image import ImageTree, shown

MOUNTED = (b"proc", b"sys", b"dev", b"run")
"""What is mounted over an image when it runs."""

_SET_ID = 0o6000
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def record_findings(image: ImageTree) -> Iterator[Finding]:
    """Yield files that the RECORD of a wheel lists and the image does not have."""
    for wheel in image.wheels:
        for path in sorted(wheel.paths):
            if path not in image.listing and image.real(path) is None:
                what = "listed in the wheel's RECORD, and not in the image"
                hint = "look which derivation or patch leaves it out, or say in an exception why it is not needed"
                yield image.finding(Rule.RECORD, path, what, hint=hint)


def owner_findings(image: ImageTree) -> Iterator[Finding]:
    """Yield paths that two packages say are theirs."""
    for path, owners in image.owners.items():
        names = sorted({f"{owner.kind} {owner.name}" for owner in owners})
        if len(names) > 1:
            what = f"claimed by {', '.join(names)}"
            hint = "leave one of them out, or say in an exception why both may have it"
            yield image.finding(Rule.OWNERS, path, what, about=names[-1], hint=hint)


def interpreter_findings(image: ImageTree) -> Iterator[Finding]:
    """Yield executable scripts whose interpreter is not in the image."""
    for path, file, facts in image.located:
        if facts.script is None or not file.executable:
            continue
        words = [word for word in unescape(facts.script).replace(b"\t", b" ").split(b" ") if word]
        wanted = words[0] if words else b""
        if basename(wanted) == b"env":
            named = [word for word in words[1:] if not word.startswith(b"-") and b"=" not in word]
            if is_program(image, wanted) and named and on_path(image, named[0]):
                continue
            wanted = named[0] if named and is_program(image, wanted) else wanted
        elif wanted.startswith(b"/") and is_program(image, wanted):
            continue
        what = "a script whose interpreter is not in the image"
        hint = "add the package that has it, or say in an exception why the script is never run"
        yield image.finding(Rule.INTERPRETER, path, what, about=escape(wanted), got=facts.script, hint=hint)


def _path_folders(image: ImageTree) -> list[str]:
    """Return the folders that programs are looked for in: those of PATH, or what engines set where there is none."""
    return image.environment.get("PATH", _PATH).split(":")


def on_path(image: ImageTree, name: bytes) -> bool:
    """Say whether a program is in one of the folders of PATH."""
    if b"/" in name:
        return is_program(image, name)
    folders = (folder.encode("utf-8", "surrogateescape") for folder in _path_folders(image))
    return any(is_program(image, folder + b"/" + name) for folder in folders)


def is_program(image: ImageTree, path: bytes) -> bool:
    """Say whether a path leads to an executable file."""
    real = image.real(path)
    entry = image.listing.get(real) if real is not None else None
    return isinstance(entry, File) and entry.executable


def link_findings(image: ImageTree) -> Iterator[Finding]:
    """Yield links that lead to nothing in the image, but for those into what is mounted when it runs."""
    from derive.archives.names import resolve

    for path, target in image.links.items():
        end = resolve(path, image.links)
        if end is None:
            what = "a link that loops"
        elif end in image.listing or end.partition(b"/")[0] in MOUNTED:
            continue
        else:
            what = f"a link to {shown(end)}, which is not in the image"
        hint = "add the package that has it, or say in an exception why nothing follows the link"
        yield image.finding(Rule.LINK, path, what, about=escape(target), got=escape(target), hint=hint)


def privilege_findings(image: ImageTree, modes: ModeTable) -> Iterator[Finding]:
    """Yield paths that the image's mode table gives set-id bits."""
    for rule in modes.rules:
        if rule.mode is not None and rule.mode & _SET_ID:
            what, hint = "a set-id file", "drop the bit in the image's mode table"
            yield image.finding(Rule.PRIVILEGE, rule.path, what, got=f"{rule.mode:04o}", hint=hint)
