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

_OUTSIDE = (b"proc", b"sys", b"dev", b"run")
"""What is mounted over an image when it runs."""

_SET_ID = 0o6000
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


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
    folders = image.environment.get("PATH", _PATH).split(":")
    for path, file, facts in image.located:
        if facts.script is None or not file.executable:
            continue
        words = unescape(facts.script).split()
        wanted = words[0] if words else b""
        if basename(wanted) == b"env":
            named = [word for word in words[1:] if not word.startswith(b"-") and b"=" not in word]
            if _is_program(image, wanted) and named and _on_path(image, folders, named[0]):
                continue
            wanted = named[0] if named and _is_program(image, wanted) else wanted
        elif wanted.startswith(b"/") and _is_program(image, wanted):
            continue
        what = "a script whose interpreter is not in the image"
        hint = "add the package that has it, or say in an exception why the script is never run"
        yield image.finding(Rule.INTERPRETER, path, what, about=escape(wanted), got=facts.script, hint=hint)


def _on_path(image: ImageTree, folders: list[str], name: bytes) -> bool:
    if b"/" in name:
        return _is_program(image, name)
    return any(_is_program(image, folder.encode("utf-8", "surrogateescape") + b"/" + name) for folder in folders)


def _is_program(image: ImageTree, path: bytes) -> bool:
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
        elif end in image.listing or end.partition(b"/")[0] in _OUTSIDE:
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
