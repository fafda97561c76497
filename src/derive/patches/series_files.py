# SPDX-License-Identifier: Apache-2.0
"""From commits to the files of a series: what did not change stays byte for byte, a header stays with its patch.

Core: no IO. The files before each commit are read through the function that is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from derive.errors import InputErrors, Problem
from derive.patches.apply import try_patch
from derive.patches.arrange import series_text
from derive.patches.make import Changes, refreshed
from derive.patches.message import (
    UNKNOWN_AUTHOR,
    Message,
    message_of,
    new_header,
    new_name,
    read_message,
    same_header,
    summary_of,
    with_summary,
)
from derive.patches.model import FileOperation, FileState, Patch, Read
from derive.patches.parse import parse_patch
from derive.patches.render import patch_file
from derive.patches.series import parse_series


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One patch of the series that is being made. ``kept`` when its file is the one that was there."""

    name: str
    text: bytes
    patch: Patch
    kept: bool


@dataclass(slots=True, kw_only=True)
class SeriesMaker:
    """Takes commits in order, and gives the files of a series. ``originals`` are the files and patches before."""

    originals: Mapping[str, tuple[bytes, Patch]]
    reserved: frozenset[str] = frozenset()
    made: list[Made] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def take(self, message: bytes, author: tuple[bytes, bytes], changes: Changes, read: Read) -> None:
        """Make the next patch from a commit. What it cannot be is gathered in ``problems``."""
        said = read_message(message)
        name = self._name(said)
        if not changes:
            hint = "give it a change, or drop the commit"
            self.problems.append(Problem(where=name, message="a commit without a change", hint=hint))
            return
        original = self.originals.get(name)
        header = self._header(said, message, author, original)
        try:
            self.made.append(self._made(name, header, original, changes, read))
        except InputErrors as error:
            self.problems += [
                Problem(where=f"{name}: {one.where}", message=one.message, detail=one.detail, hint=one.hint)
                for one in error.problems()
            ]

    def take_waiting(self, patch: Patch, text: bytes, read: Read) -> Mapping[bytes, FileState | None]:
        """Put a patch that is not checked out on top, and return what it changes.

        Raises:
            InputErrors: when it does not apply any more.
        """
        tried = try_patch(patch.operations, read)
        if tried.refused:
            raise InputErrors([refused.problem(patch.name) for refused in tried.refused])
        if any(landed.offset for landed in tried.landed):
            from derive.patches.make import landed as landing

            text = patch_file(patch.name, patch.header.text, landing(patch.operations, read), read)
        self._add(patch.name, text)
        return tried.after

    def files(self, before: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return all files of the series.

        Raises:
            InputErrors: everything that the commits hold and no patch can.
        """
        if self.problems:
            raise InputErrors(self.problems)
        files = {made.name: made.text for made in self.made}
        files["series"] = series_text(before["series"], [made.name for made in self.made])
        return files

    def _name(self, said: Message) -> str:
        taken = {*self.originals, *self.reserved, *(made.name for made in self.made)}
        used = {*self.reserved, *(made.name for made in self.made)}
        for name in said.names:
            if name not in used and _is_patch_name(name):
                return name
        return new_name(said.subject, taken)

    def _header(
        self, said: Message, message: bytes, author: tuple[bytes, bytes], original: tuple[bytes, Patch] | None
    ) -> bytes:
        if not said.names:
            person = b"" if author == UNKNOWN_AUTHOR else b"%s <%s>" % author
            return new_header(said, person.decode("utf-8", "replace"))
        if original is None:
            return said.header
        old = original[1].header.text
        if message == message_of(original[1].name, old):
            return old
        header = old if same_header(said.header, old) else said.header
        if said.subject != summary_of(header) and summary_of(header) == summary_of(old):
            return with_summary(header, said.subject)
        return header

    def _made(
        self, name: str, header: bytes, original: tuple[bytes, Patch] | None, changes: Changes, read: Read
    ) -> Made:
        operations: tuple[FileOperation, ...] = () if original is None else original[1].operations
        after = refreshed(operations, changes, read)
        if original is not None and after == operations and header == original[1].header.text:
            return Made(name=name, text=original[0], patch=original[1], kept=True)
        text = patch_file(name, header, after, read)
        return Made(name=name, text=text, patch=parse_patch(name, text), kept=False)

    def _add(self, name: str, text: bytes) -> None:
        original = self.originals.get(name)
        kept = original is not None and original[0] == text
        self.made.append(Made(name=name, text=text, patch=parse_patch(name, text), kept=kept))


def _is_patch_name(name: str) -> bool:
    try:
        return parse_series(f"# licence: Apache-2.0\n{name}\n".encode()).names == (name,)
    except InputErrors:
        return False
