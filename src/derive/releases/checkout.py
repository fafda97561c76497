# SPDX-License-Identifier: Apache-2.0
"""A release laid out as a folder that is a project of its own: deriving in it gives the release again.

Edge: writes one folder, whole or not at all.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from derive.errors import HostRefuses, InputErrors
from derive.releases.content import files_of, usual_sources
from derive.releases.document import Release
from derive.releases.find import Known
from derive.toml_text import toml_line


def checkout(
    known: Known, folder: Path, root: Path, *, store: Path | None = None, capsules: Sequence[str] = ()
) -> dict[str, bytes]:
    """Write a release's content into a folder that is new or empty, as a project; return its files.

    ``root`` is the project whose working tree, and git's history, are looked in; ``store`` a store's folder.

    Raises:
        Missing: when some of the content is nowhere; nothing is written then.
        InputErrors: when the folder holds anything, or lies in none.
        HostRefuses: when it cannot be written.
    """
    files = files_of(known, usual_sources(known, root, store, capsules))
    write_project(known.release, files, folder)
    return files


def write_project(release: Release, files: Mapping[str, bytes], folder: Path) -> None:
    """Write content files, and the settings that decide bytes, as a project; raises as :func:`checkout` does."""
    _require_empty(folder)
    staged = folder.parent / f".{folder.name}.{secrets.token_hex(8)}.partial"
    try:
        staged.mkdir()
        (staged / "pyproject.toml").write_bytes(settings_text(release).encode())
        for path, data in files.items():
            target = staged / PurePosixPath(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        with suppress(FileNotFoundError):
            folder.rmdir()
        staged.rename(folder)
    except OSError as error:
        raise HostRefuses(f"cannot be written: {(error.strerror or '').lower()}", where=str(folder)) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def settings_text(release: Release) -> str:
    """Return the pyproject.toml of a release's project: the settings that decide bytes, and no others."""
    lines = ["[tool.derive]", "format = 1", toml_line("default-image", release.default_image)]
    return "\n".join([*lines, toml_line("build-platform", release.build_platform)]) + "\n"


def _require_empty(folder: Path) -> None:
    try:
        if os.listdir(folder):  # noqa: PTH208 - whether there is any
            hint = "name a folder that is new"
            raise InputErrors.one("the folder is not empty", where=str(folder), hint=hint)
    except FileNotFoundError:
        if not folder.absolute().parent.is_dir():
            raise InputErrors.one(f"the folder {folder.absolute().parent} does not exist", where=str(folder)) from None
    except NotADirectoryError:
        raise InputErrors.one("this is no folder", where=str(folder)) from None
    except OSError as error:
        raise HostRefuses(f"cannot be read: {(error.strerror or '').lower()}", where=str(folder)) from error
