# SPDX-License-Identifier: Apache-2.0
"""The same thing under other circumstances: another place, another user, and content edited where it may not matter.

Edge: folders, users.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from derive.trees.materialise import remove_folder
from support.cli import CHECKOUT, SOURCES, Ran, derive
from support.require import skip_or_fail

CONTENT = ("lock", "patches", "derivations", "kernels", "images")
NOBODY = 65534

PATCH = "patches/perftest/0001-json-line-per-size.patch"
SERIES = "patches/perftest/series"


def copy_checkout(target: Path) -> Path:
    """Copy this checkout's content to a folder that is not there yet."""
    target.mkdir(parents=True)
    for name in CONTENT:
        shutil.copytree(CHECKOUT / name, target / name)
    shutil.copy(CHECKOUT / "pyproject.toml", target / "pyproject.toml")
    return target


def copy_store(source: Path, target: Path) -> Path:
    """Copy a store to a folder that is not there yet; blobs and trees are hard links."""
    target.mkdir()
    for part in source.iterdir():
        if part.name in {"tmp", "locks", "partial"}:
            # Another process may be building in there: what it stages, device nodes among it, is nobody's to copy.
            (target / part.name).mkdir()
            continue
        if part.name.startswith("derive.sqlite"):
            continue
        link = part.name in {"blobs", "trees"}
        if part.is_dir():
            shutil.copytree(part, target / part.name, symlinks=True, copy_function=os.link if link else shutil.copy2)
        else:
            shutil.copy2(part, target / part.name)
    database, copy = sqlite3.connect(source / "derive.sqlite"), sqlite3.connect(target / "derive.sqlite")
    database.backup(copy)  # whole, also while another process writes to it
    database.close()
    copy.close()
    return target


def edit(file: Path, old: str, new: str) -> None:
    """Replace the first occurrence of a text that the file has."""
    text = file.read_text(encoding="utf-8")
    assert old in text, f"{file} has no {old!r}"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def edit_header(checkout: Path) -> None:
    """Tell another story above a patch's hunks, and name another author."""
    file = checkout / PATCH
    edit(file, "Description: ", "Description: Once more: ")
    edit(file, "Author: ", "Author: Zoë Example <zoe@example.org>, ")


def edit_hunk(checkout: Path) -> None:
    """Let the patched program's help say something else."""
    edit(checkout / PATCH, '+\t\tprintf(" Print one JSON line', '+\t\tprintf(" Print a JSON line')


def edit_series_comment(checkout: Path) -> None:
    """Add a comment and an empty line to the series."""
    file = checkout / SERIES
    file.write_text(f"# in the order in which they apply\n\n{file.read_text()}")


def rename_patch(checkout: Path) -> None:
    """Give a patch another file name, and say so in the series."""
    file = checkout / PATCH
    file.rename(file.with_name("0001-renamed.patch"))
    edit(checkout / SERIES, file.name, "0001-renamed.patch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A place of another user: a copy of the engine and of the checkout, and a home that holds the store."""

    checkout: Path
    home: Path
    python: str
    libraries: Path
    before: tuple[str, ...]

    def derive(self, *arguments: str, env: Mapping[str, str], shuffled: bool = False, umask: int) -> Ran:
        """Run a command there, as that user, whose environment holds nothing that is not given."""
        around = ("env", "-i", *(f"{key}={value}" for key, value in {**self._environment(), **env}.items()))
        within = ("sh", "-c", f'umask {umask:03o}; exec "$@"', "sh")
        return derive(
            *arguments,
            cwd=self.checkout,
            shuffled=shuffled,
            before=(*self.before, *around, *within),
            python=self.python,
        )

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONPATH": str(self.libraries)}


@contextmanager
def elsewhere() -> Iterator[Elsewhere]:
    """Set up a place in a folder with a space and an accent; root's tests get an ordinary user's, others their own."""
    place = Path(tempfile.mkdtemp(prefix="derive élsewhere "))
    try:
        place.chmod(0o755)
        checkout, home = copy_checkout(place / "their check out"), place / "home"
        libraries = _copy_engine(place / "libraries")
        home.mkdir(mode=0o700)
        before: tuple[str, ...] = ()
        if os.geteuid() == 0:
            before = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
            for path in (home, checkout, *checkout.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
        yield Elsewhere(checkout=checkout, home=home, python=_python_for(before), libraries=libraries, before=before)
    finally:
        remove_folder(place)


def _python_for(before: tuple[str, ...]) -> str:
    """Return this interpreter's own program, which that user must be able to run; a .venv may lie where it cannot."""
    program = os.path.realpath(sys.executable)
    # The shell between is there because setpriv has root's capabilities until it has started its program.
    trial = subprocess.run([*before, "sh", "-c", '"$0" -c ""', program], capture_output=True, check=False)
    if trial.returncode != 0:
        skip_or_fail(f"another user cannot run {program}: {trial.stderr.decode(errors='replace').strip()}")
    return program


def _copy_engine(target: Path) -> Path:
    """Copy the engine's sources and the packages that they require, so that anyone can read them."""
    shutil.copytree(SOURCES / "derive", target / "derive", ignore=shutil.ignore_patterns("__pycache__"))
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for distribution in _closure(project["dependencies"]):
        for file in distribution.files or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                copy = target / file
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), copy)
    return target


def _closure(requirements: list[str]) -> list[metadata.Distribution]:
    found: dict[str, metadata.Distribution] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if wanted and name not in found:
            found[name] = metadata.distribution(name)
            waiting += [Requirement(text) for text in found[name].requires or ()]
    return list(found.values())
