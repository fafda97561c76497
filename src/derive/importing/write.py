# SPDX-License-Identifier: Apache-2.0
"""Reads what is to be imported, and writes what came of it where nothing is yet.

Edge: the file system, the environment that it is given.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from derive.errors import HostRefuses, InputErrors, Problem
from derive.fabric.places import VARIABLE, user_site
from derive.importing.plan import Imported, Source
from derive.infile import read_named

_SHAPE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_MODES = {True: 0o644, False: 0o600}


def read_sources(clusters: Sequence[str], maps: Sequence[str]) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """Read cluster files, before each of which a shape's name may stand (``tp4-ring=FILE``), and node maps.

    Raises:
        InputErrors: when any of them cannot be read; each by its name.
    """
    problems: list[Problem] = []
    found = _read(clusters, problems, shapes=True), _read(maps, problems, shapes=False)
    if problems:
        raise InputErrors(problems)
    return found


def _read(named: Sequence[str], problems: list[Problem], *, shapes: bool) -> tuple[Source, ...]:
    found = []
    for text in named:
        before, separator, after = text.partition("=")
        is_named = shapes and separator != "" and _SHAPE.fullmatch(before) is not None and not Path(text).exists()
        file, shape = (after, before) if is_named else (text, None)
        try:
            found.append(Source(file=file, data=read_named(file), shape=shape))
        except InputErrors as error:
            problems += error.problems()
    return tuple(found)


def targets(found: Imported, root: Path, out: str | None, environ: Mapping[str, str]) -> dict[Path, str]:
    """Return which file gets which text: in one folder where one is named, else where recipes and sites are read."""
    if out is not None:
        folder = Path(out)
        return {folder / f"{name}.toml": text for name, text in ((found.name, found.recipe), *found.sites.items())}
    said = environ.get(VARIABLE)
    site = Path(said) if said else user_site(environ)
    texts = {root / "recipes" / f"{found.name}.toml": found.recipe}
    for name, text in found.sites.items():
        texts[site if len(found.sites) == 1 else site.with_name(f"{name}.toml")] = text
    return texts


def write_new(texts: Mapping[Path, str]) -> None:
    """Write files that are not there yet: all of them, or none.

    Raises:
        InputErrors: when any is there already, each by its name.
        HostRefuses: when one cannot be written.
    """
    there = [path for path in texts if path.exists() or path.is_symlink()]
    if there:
        message = "is there already, and is left as it is"
        raise InputErrors([Problem(where=str(path), message=message, hint=_another_place(path)) for path in there])
    written: list[Path] = []
    with _taken_back(written):
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            # A site says addresses and users: it is its owner's.
            mode = _MODES[path.parent.name == "recipes"]
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
                written.append(path)
                file.write(text.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())


def _another_place(path: Path) -> str:
    """Return what to do about a file in the way: ``--name`` names recipes alone."""
    options = "--out or --name" if path.parent.name == "recipes" else "--out"
    return f"move it away, or choose another place with {options}"


@contextmanager
def _taken_back(written: list[Path]) -> Iterator[None]:
    """Remove what was written when not all of it could be."""
    try:
        yield
    except BaseException as error:
        for path in written:
            with contextlib.suppress(OSError):
                path.unlink()
        if isinstance(error, OSError):
            place = os.fsdecode(error.filename) if error.filename else ""
            raise HostRefuses(f"cannot be written: {(error.strerror or '').lower()}", where=place) from error
        raise
