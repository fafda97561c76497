# SPDX-License-Identifier: Apache-2.0
"""A project on disk: the folder whose pyproject.toml has a ``[tool.derive]`` table, and its content files.

Edge: reads files, and ends what a killed change of a series left half done. Imports nothing heavy: an unchanged project
is recognised by the digests of what is read here.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from derive.canonical import Digest, digest_document, escape, sha256
from derive.errors import InputErrors, Problem, expected_got
from derive.words import unreadable

if TYPE_CHECKING:
    from derive.derivations.model import Platform
    from derive.trust.policy import Policy

CONTENT_ROOTS = ("lock", "patches", "derivations", "kernels", "images")
"""The root folders whose files decide an image's bytes."""

LAUNCH_ROOTS = ("recipes", "render", "fabric", "lock", "images")
"""The root folders whose files decide launch files: what images are made of is not read, but what they are called."""

_PLATFORMS = ("linux/amd64", "linux/arm64")
_LINK = "a link: content files are ordinary files"
_KEYS = {"format", "default-image", "build-platform"}
_TRUST = "trust"
_DEPLOY = "deploy"
_PUBLISHED = "published-branch"
_REMOTE_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The ``[tool.derive]`` table. ``build_platform`` is where programs of the sandbox run."""

    default_image: str
    build_platform: Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project's folder, settings and content: paths relative to the folder, with ``/``, to bytes."""

    root: Path
    settings: Settings
    files: Mapping[str, bytes]

    def digest(self) -> Digest:
        """Return the digest of everything in the project that can decide a byte."""
        return digest_document(
            {
                "derive": "content/1",
                "build-platform": self.settings.build_platform,
                "files": {path: sha256(data).hex for path, data in self.files.items()},
            }
        )

    def below(self, folder: str) -> dict[str, bytes]:
        """Return the files below a folder, by their path inside it."""
        prefix = folder.rstrip("/") + "/"
        return {path[len(prefix) :]: data for path, data in self.files.items() if path.startswith(prefix)}


def find_root(start: Path) -> Path:
    """Walk up from a folder to the project that holds it.

    Raises:
        InputErrors: when no folder above has a pyproject.toml with a ``[tool.derive]`` table.
    """
    for folder in (start, *start.parents):
        if _table(folder / "pyproject.toml") is not None:
            return folder
    raise InputErrors.one(
        "no project here: no pyproject.toml with a [tool.derive] table in this folder or above it",
        where=str(start),
        hint="name one with --project, or make one: derive init FOLDER",
    )


def require_root(root: Path) -> Path:
    """Return a folder that is said to be a project; raises InputErrors when it is none."""
    _require_table(root)
    return root


def load_project(root: Path, more: Callable[[Project], Iterable[Problem]] = lambda _: ()) -> Project:
    """Read a project's settings and content files.

    ``more`` is asked what else is wrong when something is, so that everything is said at once.

    Raises:
        InputErrors: on wrong settings, links, unreadable files and odd names among the content; all at once.
    """
    table = _require_table(root)
    problems = _setting_problems(table)
    _end_unfinished(root / "patches")
    files = read_roots(root, CONTENT_ROOTS, problems)
    build_platform: Platform = "linux/arm64" if table.get("build-platform") == "linux/arm64" else "linux/amd64"
    default_image = table.get("default-image")
    settings = Settings(
        default_image=default_image if isinstance(default_image, str) else "", build_platform=build_platform
    )
    project = Project(root=root, settings=settings, files=files)
    if problems:
        raise InputErrors([*problems, *more(project)])
    return project


def load_launching(root: Path) -> dict[str, bytes]:
    """Read the files that decide launch files, by their path below the project.

    Raises:
        InputErrors: on links, unreadable files and odd names; all at once.
    """
    problems: list[Problem] = []
    files = read_roots(root, LAUNCH_ROOTS, problems)
    if problems:
        raise InputErrors(problems)
    return files


def default_image(root: Path) -> str:
    """Return the name of a project's default image, empty where it has none; nothing else of it is looked at."""
    found = _require_table(root).get("default-image")
    return found if isinstance(found, str) else ""


def load_policy(root: Path) -> Policy | None:
    """Return whose signatures a project takes, or None where it does not say; nothing else of it is looked at.

    What became of keys since, in ``records/keys/``, is taken in.

    Raises:
        InputErrors: when there is no project, or its ``[tool.derive.trust]`` is wrong.
        Corrupt: when what became of its keys cannot be read.
    """
    from derive.trust.folder import with_history

    return with_history(root, declared_policy(root))


def declared_policy(root: Path) -> Policy | None:
    """Return whose signatures ``[tool.derive.trust]`` takes, whatever became of the keys since; raises InputErrors."""
    policy, problems = _trust(_require_table(root))
    if problems:
        raise InputErrors(problems)
    return policy


def published_branch(root: Path) -> str | None:
    """Return the remote's branch that a promotion lies on before production deploys it, None where none is named.

    Raises:
        InputErrors: when there is no project, or its ``[tool.derive.deploy]`` is wrong.
    """
    table = _require_table(root)
    problems = _deploy_problems(table)
    if problems:
        raise InputErrors(problems)
    deploy = table.get(_DEPLOY)
    found = deploy.get(_PUBLISHED) if isinstance(deploy, dict) else None
    return found if isinstance(found, str) else None


def is_remote_branch(text: str) -> bool:
    """Say whether a text can name a branch of a remote, such as ``origin/main``."""
    return _REMOTE_BRANCH.fullmatch(text) is not None and ".." not in text


def _require_table(root: Path) -> dict[str, object]:
    file = root / "pyproject.toml"
    table = _table(file)
    if table is None:
        message = "no [tool.derive] table" if file.exists() else "no such file"
        raise InputErrors.one(message, where=str(file), hint="make a project: derive init FOLDER")
    return table


def _table(path: Path) -> dict[str, object] | None:
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputErrors.one(unreadable(error), where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise InputErrors.one(f"not valid TOML: {error}", where=str(path)) from error
    tool = document.get("tool", {})
    table = tool.get("derive") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None


def _setting_problems(table: Mapping[str, object]) -> list[Problem]:
    where = "pyproject.toml: tool.derive"
    unknown = sorted(table.keys() - _KEYS - {_TRUST, _DEPLOY})
    problems = [Problem(where=f"{where}.{key}", message="unknown key") for key in unknown]
    problems += [Problem(where=f"{where}.{key}", message="this key is missing") for key in sorted(_KEYS - table.keys())]
    if table.get("format", 1) != 1:
        detail = expected_got(1, table["format"])
        problems.append(
            Problem(where=f"{where}.format", message="a format that this derive cannot read", detail=detail)
        )
    platform = table.get("build-platform", _PLATFORMS[0])
    if platform not in _PLATFORMS:
        detail = expected_got(" or ".join(_PLATFORMS), platform)
        problems.append(Problem(where=f"{where}.build-platform", message="no such platform", detail=detail))
    if not isinstance(table.get("default-image", "-"), str) or table.get("default-image") == "":
        problems.append(Problem(where=f"{where}.default-image", message="not a name"))
    return [*problems, *_deploy_problems(table), *_trust(table)[1]]


def _deploy_problems(table: Mapping[str, object]) -> list[Problem]:
    where, found = f"pyproject.toml: tool.derive.{_DEPLOY}", table.get(_DEPLOY, {})
    if not isinstance(found, dict):
        return [Problem(where=where, message="not a table")]
    problems = [Problem(where=f"{where}.{key}", message="unknown key") for key in sorted(found.keys() - {_PUBLISHED})]
    branch = found.get(_PUBLISHED, "origin/main")
    if not isinstance(branch, str) or not is_remote_branch(branch):
        message, hint = "not a branch of a remote", "write REMOTE/BRANCH, as origin/main"
        problems.append(Problem(where=f"{where}.{_PUBLISHED}", message=message, hint=hint))
    return problems


def _trust(table: Mapping[str, object]) -> tuple[Policy | None, list[Problem]]:
    if _TRUST not in table:
        return None, []
    from derive.trust.policy import parse_policy

    return parse_policy(table[_TRUST], f"pyproject.toml: tool.derive.{_TRUST}")


def _end_unfinished(patches: Path) -> None:
    """Let no half-moved series be read: what a killed process had begun to change is ended first."""
    for journal in patches.glob("*/.derive-journal"):
        from derive.patches.publish import end_unfinished

        end_unfinished(journal.parent)


def read_roots(root: Path, names: Iterable[str], problems: list[Problem]) -> dict[str, bytes]:
    """Read the files of some root folders, by their path below the project; what cannot be read joins the problems."""
    files: dict[str, bytes] = {}
    for name in names:
        if (root / name).is_symlink():
            problems.append(Problem(where=name, message=_LINK))
        else:
            _read_folder(root / name, name, files, problems)
    return files


def _read_folder(folder: Path, prefix: str, files: dict[str, bytes], problems: list[Problem]) -> None:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        problems.append(Problem(where=prefix, message=unreadable(error)))
        return
    for entry in entries:
        # Hidden files and editors' backups are no content.
        if entry.name.startswith(".") or entry.name.endswith("~") or entry.name == "__pycache__":
            continue
        path = f"{prefix}/{entry.name}"
        if not entry.name.isprintable():
            shown = f"{prefix}/{escape(os.fsencode(entry.name))}"
            hint = "rename it: %XX stands for a byte of its name"
            problems.append(Problem(where=shown, message="a name that is not printable UTF-8", hint=hint))
        elif entry.is_symlink():
            problems.append(Problem(where=path, message=_LINK))
        elif entry.is_dir():
            _read_folder(folder / entry.name, path, files, problems)
        elif entry.is_file():
            try:
                with open(entry.path, "rb") as file:  # noqa: PTH123 - on the path where milliseconds count
                    files[path] = file.read()
            except OSError as error:
                problems.append(Problem(where=path, message=unreadable(error)))
        else:
            problems.append(Problem(where=path, message="not an ordinary file"))
