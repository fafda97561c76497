# SPDX-License-Identifier: Apache-2.0
"""Mails become patches at the end of a series: the project's files are written when all of them are right.

Edge: the project's folder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from derive.errors import InputErrors, Problem
from derive.patches.arrange import series_text
from derive.patches.header import TODO, Notes, render_notes
from derive.patches.load import series_of
from derive.patches.mailbox import Mail, read_mailbox
from derive.patches.message import new_name
from derive.patches.parse import parse_patch
from derive.patches.publish import SeriesFiles, publish, read_series
from derive.patches.series import licence_expression

_UPSTREAM = re.compile(r"[a-z0-9][a-z0-9._+-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a person says of all mails of one import; what is empty is left to be written, marked so."""

    origin: str = ""
    licence: str = ""
    when_to_drop: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The patches written, in order, and the mails that hold no change, each for people."""

    names: tuple[str, ...]
    passed_over: tuple[str, ...]


def import_mails(root: Path, upstream: str, boxes: Sequence[tuple[str, bytes]], said: Said) -> Imported:
    """Add the patches of mailboxes, each its name and bytes, to a series; with a licence said, to one not there yet.

    Raises:
        InputErrors: every mail that is no patch or one that the series has, and everything wrong with the series.
    """
    licence = _licence(said.licence)
    series = _series(root, upstream, licence)
    maker = _Maker(series, said, licence if licence != series.loaded.series.licence else "")
    for where, data in boxes:
        try:
            mails = read_mailbox(data, where)
        except InputErrors as error:
            maker.problems.extend(error.problems())
            continue
        for mail in mails:
            maker.take(f"{where}: mail {mail.number}", mail)
    if maker.problems:
        raise InputErrors(maker.problems)
    if not maker.added:
        raise InputErrors.one("no mail holds a change", hint="write them with git format-patch --stdout")
    text = series_text(series.files["series"], [*series.loaded.series.names, *maker.added])
    publish(series if series.folder.is_dir() else _begun(root, series), {**series.files, **maker.added, "series": text})
    return Imported(names=tuple(maker.added), passed_over=tuple(maker.passed_over))


class _Maker:
    """What has been made of the mails so far."""

    def __init__(self, series: SeriesFiles, said: Said, licence: str) -> None:
        self._said = said
        self._licence = licence
        self._known = {patch.operations: patch.name for patch in series.loaded.patches}
        self._taken = set(series.files)
        self.added: dict[str, bytes] = {}
        self.passed_over: list[str] = []
        self.problems: list[Problem] = []

    def take(self, place: str, mail: Mail) -> None:
        """Make a patch of a mail, or note why not."""
        if not mail.diff:
            self.passed_over.append(f"{place}: {mail.subject or 'no subject'}")
            return
        name = new_name(mail.subject, self._taken)
        data = render_notes(self._notes(mail)) + mail.diff
        try:
            operations = parse_patch(name, data, where=f"{place}, as {name}").operations
        except InputErrors as error:
            self.problems.extend(error.problems())
            return
        if operations in self._known:
            message = f"the series has these changes already, as {self._known[operations]}"
            self.problems.append(Problem(where=place, message=message))
        self._known[operations] = name
        self._taken.add(name)
        self.added[name] = data

    def _notes(self, mail: Mail) -> Notes:
        commit = f"{TODO}: is commit {mail.commit} upstream's?" if mail.commit else TODO
        return Notes(
            summary=mail.subject or TODO,
            description=mail.text,
            author=mail.author,
            origin=self._said.origin or commit,
            licence=self._licence,
            when_to_drop=self._said.when_to_drop or TODO,
        )


def _series(root: Path, upstream: str, licence: str) -> SeriesFiles:
    """Return the series as it is, or, where there is none and its licence is known, an empty one, not written yet."""
    folder = root / "patches" / upstream
    if folder.exists():
        return read_series(root, upstream)
    if not licence:
        try:
            return read_series(root, upstream)
        except InputErrors as error:
            hint = "to begin that series, say its licence: --licence SPDX"
            raise InputErrors([replace(problem, hint=hint) for problem in error.problems()]) from None
    if not _UPSTREAM.fullmatch(upstream):
        hint = "use lower-case letters, digits and . _ + -"
        raise InputErrors.one(f"not a name for a series: {upstream!r}", where="patches/", hint=hint)
    files = {"series": f"# licence: {licence}\n".encode()}
    return SeriesFiles(upstream=upstream, folder=folder, files=files, loaded=series_of(files, f"patches/{upstream}"))


def _begun(root: Path, series: SeriesFiles) -> SeriesFiles:
    """Write an empty series. Killed here, it stays, and is a series like any other."""
    staged = series.folder.parent / f".{series.upstream}.new"
    staged.mkdir(parents=True, exist_ok=True)
    (staged / "series").write_bytes(series.files["series"])
    staged.rename(series.folder)
    return read_series(root, series.upstream)


def _licence(text: str) -> str:
    try:
        return licence_expression(text) if text else ""
    except ValueError as error:
        raise InputErrors.one(str(error), where="--licence") from error
