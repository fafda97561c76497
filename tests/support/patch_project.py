# SPDX-License-Identifier: Apache-2.0
"""A project that has a series and nothing to fetch: its source is a folder, its work tree is changed with plain git.

Edge: the file system, git.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from derive.build.service import Options
from derive.patches.apply import apply_series
from derive.patches.edit import Opened, edit
from derive.patches.model import FileState
from derive.patches.origins import Shop
from derive.patches.publish import SeriesFiles, read_series
from derive.patches.refresh import Refreshed, refresh
from derive.patches.worktree import default_tree
from derive.project import load_project
from derive.store.local import LocalStore

PYPROJECT = '[tool.derive]\nformat = 1\ndefault-image = "none"\nbuild-platform = "linux/amd64"\n'
SETTINGS = """\
[user]
\tname = A. Person
\temail = person@example.org
[core]
\tautocrlf = true
\tattributesFile = {attributes}
[commit]
\tgpgSign = true
[merge]
\tconflictStyle = merge
"""
"""What a person may have set, and nothing of ours may heed."""

Tree = Mapping[bytes, FileState]


@dataclass(slots=True)
class PatchProject:
    """The project's folder, the folder of its source, a store, and the person's settings of git."""

    root: Path
    source: Path
    store: LocalStore
    settings: Path

    @property
    def series(self) -> SeriesFiles:
        """The series as it lies in the project now."""
        return read_series(self.root, "up")

    @property
    def tree(self) -> Path:
        """The work tree."""
        return default_tree(self.root, "up")

    @property
    def shop(self) -> Shop:
        """What trees are got with."""
        return Shop(project=load_project(self.root), store=self.store, options=Options(jobs=1))

    def files(self) -> dict[str, bytes]:
        """Everything in the folder of the series."""
        return {path.name: path.read_bytes() for path in sorted((self.root / "patches" / "up").iterdir())}

    def write_series(self, patches: Mapping[str, bytes], names: Sequence[str] | None = None) -> None:
        """Write the patch files, and a series that names them, or these."""
        folder = self.root / "patches" / "up"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in patches.items():
            (folder / name).write_bytes(text)
        rows = "".join(f"{name}\n" for name in (names if names is not None else patches))
        (folder / "series").write_text(f"# licence: Apache-2.0\n{rows}")

    def edit(self, patch: str | None = None) -> Opened:
        """Open the work tree."""
        return edit(self.shop, self.series, self.tree, patch=patch, source=str(self.source))

    def refresh(self, fold: str | None = None) -> Refreshed:
        """Make the series again."""
        return refresh(self.series, self.tree, fold=fold)

    def patched(self) -> dict[bytes, FileState]:
        """The source with the series applied, by the applier alone."""
        before = read_tree(self.source)
        patches = self.series.loaded.patches
        after: dict[bytes, FileState | None] = {**before}
        after.update(apply_series([one.operations for one in patches], before.get).changes)
        return {path: state for path, state in after.items() if state is not None}

    def git(self, *arguments: str, tree: Path | None = None, codes: Sequence[int] = (0,), given: bytes = b"") -> str:
        """Run plain git in a work tree, as a person with odd settings would."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        done = subprocess.run(
            ["git", "-c", "commit.gpgSign=false", *arguments],
            cwd=tree or self.tree,
            env={**kept, "GIT_CONFIG_GLOBAL": str(self.settings), "GIT_EDITOR": "true", "LC_ALL": "C"},
            input=given,
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert done.returncode in codes, (arguments, done.stdout, done.stderr)
        return done.stdout.decode("utf-8", "surrogateescape")


@contextmanager
def quick_folder() -> Iterator[Path]:
    """Lend a folder in memory where there is one: syncing thousands of small files to a disk tests the disk."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


@contextmanager
def patch_project(place: Path, source: Tree, patches: Mapping[str, bytes]) -> Iterator[PatchProject]:
    """Make the project, its source and its series below a folder."""
    root = place / "project"
    root.mkdir(parents=True)
    (root / "pyproject.toml").write_text(PYPROJECT)
    (place / "attributes").write_text("* text eol=crlf ident\n")
    settings = place / "gitconfig"
    settings.write_text(SETTINGS.format(attributes=place / "attributes"))
    write_tree(place / "source", source)
    with LocalStore(place / "store") as store:
        project = PatchProject(root, place / "source", store, settings)
        project.write_series(patches)
        yield project


def write_tree(folder: Path, tree: Tree) -> None:
    """Write files into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, state in tree.items():
        file = folder / os.fsdecode(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(state.contents)
        file.chmod(0o755 if state.executable else 0o644)


def read_tree(folder: Path) -> dict[bytes, FileState]:
    """Read the files of a folder, git's own left out."""
    found: dict[bytes, FileState] = {}
    for where, folders, names in os.walk(os.fsencode(folder)):
        folders[:] = [name for name in folders if name != b".git"]
        for name in names:
            path = os.path.join(where, name)  # noqa: PTH118 - paths are bytes
            if not os.path.islink(path):  # noqa: PTH114
                with open(path, "rb") as file:  # noqa: PTH123
                    contents = file.read()
                mode = os.stat(path).st_mode  # noqa: PTH116
                found[os.path.relpath(path, os.fsencode(folder))] = FileState(
                    contents=contents, executable=bool(mode & 0o100)
                )
    return found


def plain(**files: str | bytes) -> dict[bytes, FileState]:
    """Return a tree of plain files: ``a__b`` is the path ``a/b``."""
    return {
        name.replace("__", "/").encode(): FileState(contents=text.encode() if isinstance(text, str) else text)
        for name, text in files.items()
    }
