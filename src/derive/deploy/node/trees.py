# SPDX-License-Identifier: Apache-2.0
"""The effects that put files on a node: a launch's folder, whole and held against its manifest, and single files.

Edge: the node. Runs there: Python 3.8, standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
import stat
from typing import Any

from derive.deploy.node.common import (
    FRESH,
    Refused,
    below,
    fenced,
    is_folder,
    launch_hex,
    make_folders,
    names_in,
    read_document,
    sync_folder,
    write_synced,
    write_whole,
)

MANIFEST = "manifest.json"
_STAGING, _DAMAGED, _GONE = ".staging", ".damaged", ".gone-"


def tree_put(given: dict[str, Any]) -> Any:
    """Put a launch's folder in place: staged, brought to the disk, renamed. One that has just these files is kept."""
    launch = launch_hex(given["launch"])
    files = {path: base64.b64decode(text) for path, text in given["files"].items()}
    _require_whole(files, given["digests"], launch)
    with fenced(given, service=True) as own:
        launches = os.path.join(own, "launches")
        make_folders(launches)
        target, staging = os.path.join(launches, launch), os.path.join(launches, _STAGING)
        # One that was put aside, and whose removal was cut off.
        _remove(os.path.join(launches, _DAMAGED))
        if _has_just(target, given["digests"]):
            return {"kept": True, "replaced": False}
        _stage(staging, files)
        replaced = os.path.lexists(target)
        if replaced:
            os.rename(target, os.path.join(launches, _DAMAGED))
        os.rename(staging, target)
        sync_folder(launches)
        _remove(os.path.join(launches, _DAMAGED))
        return {"kept": False, "replaced": replaced}


def _require_whole(files: dict[str, bytes], digests: dict[str, str], launch: str) -> None:
    wrong = [path for path in sorted(set(files) | set(digests)) if _digest(files.get(path)) != digests.get(path)]
    if wrong:
        raise Refused("damaged", "files are not as they were sent: {}".format(", ".join(wrong)), hint="send them again")
    try:
        manifest = json.loads(files[MANIFEST].decode("utf-8"))
        named, bundle = manifest["files"], manifest["launch-bundle"]
    except (KeyError, ValueError, TypeError) as error:
        raise Refused("damaged", "no manifest among the files", [str(error)], "render them again") from None
    listed = {path: digest for path, digest in digests.items() if path != MANIFEST}
    if named != listed or bundle != f"sha256:{launch}":
        detail = [
            f"expected  sha256:{launch}, {len(listed)} files",
            f"got       {bundle}, {len(named)} files",
        ]
        raise Refused("damaged", "the manifest is of another launch", detail, "render them again")


def _digest(data: Any) -> Any:
    return None if data is None else f"sha256:{hashlib.sha256(data).hexdigest()}"


def _has_just(folder: str, digests: dict[str, str]) -> bool:
    """Say whether a folder has these files with these contents, and nothing else."""
    if not is_folder(folder):
        return False
    found: set[str] = set()
    for at, folders, names in os.walk(folder):
        for name in [*names, *(one for one in folders if os.path.islink(os.path.join(at, one)))]:
            path = os.path.join(at, name)
            relative = os.path.relpath(path, folder)
            if relative not in digests or not stat.S_ISREG(os.lstat(path).st_mode):
                return False
            with open(path, "rb") as file:
                if _digest(file.read()) != digests[relative]:
                    return False
            found.add(relative)
    return found == set(digests)


def _stage(staging: str, files: dict[str, bytes]) -> None:
    _remove(staging)
    os.mkdir(staging, 0o755)
    for path, data in sorted(files.items()):
        full = below(staging, path)
        make_folders(os.path.dirname(full))
        write_synced(full, data)
    for at, _, _ in os.walk(staging):
        sync_folder(at)


def _remove(path: str) -> None:
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.lexists(path):
        shutil.rmtree(path)


def file_put(given: dict[str, Any]) -> Any:
    """Put one file below the site's folder. Without ``data``: say whether it is there, and set its mode."""
    mode = int(given["mode"])
    with fenced(given) as folder:
        path = below(folder, os.path.relpath(given["path"], folder) if given["path"].startswith("/") else given["path"])
        with contextlib.suppress(FileNotFoundError):
            found = os.lstat(path)
            if stat.S_ISREG(found.st_mode) and _digest_of(path) == given["sha256"]:
                if stat.S_IMODE(found.st_mode) != mode:
                    os.chmod(path, mode)
                return {"kept": True}
        if given["data"] is None:
            return {"kept": False}
        data = base64.b64decode(given["data"])
        if _digest(data) != given["sha256"]:
            detail = ["expected  {}".format(given["sha256"]), f"got       {_digest(data)}"]
            raise Refused("damaged", f"{path} is not as it was sent", detail, "send it again")
        make_folders(os.path.dirname(path))
        write_whole(path, data, mode)
    return {"kept": False}


def _digest_of(path: str) -> str:
    total = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            total.update(piece)
    return f"sha256:{total.hexdigest()}"


def prune(given: dict[str, Any]) -> Any:
    """Remove launch folders beyond the newest that nothing names, and what was left of changes that were cut off."""
    with fenced(given, service=True) as own:
        launches = os.path.join(own, "launches")
        for name in names_in(launches):
            if name in (_STAGING, _DAMAGED) or name.startswith(_GONE):
                _remove(os.path.join(launches, name))
        for name in names_in(own):
            if name.startswith(FRESH):
                _remove(os.path.join(own, name))
        there = [name for name in names_in(launches) if not name.startswith(".")]
        there.sort(key=lambda name: os.lstat(os.path.join(launches, name)).st_mtime, reverse=True)
        kept = {*there[: int(given["keep"])], *given["named"], *_named(own)}
        removed = [name for name in there if name not in kept]
        for name in removed:
            # Renamed first: what is half removed must not look like a launch.
            gone = os.path.join(launches, _GONE + name)
            os.rename(os.path.join(launches, name), gone)
            _remove(gone)
        if removed:
            sync_folder(launches)
    return {"removed": sorted(removed)}


def _named(own: str) -> list[str]:
    """Return the launches that the link and the state name; a state that cannot be read names all there are."""
    named = []
    with contextlib.suppress(OSError):
        named.append(os.path.basename(os.readlink(os.path.join(own, "current"))))
    try:
        state = read_document(os.path.join(own, "state.json"))
        if state is not None:
            served = [state["wanted"], state["current"], *state["healthy"]]
            named += [one["launch-bundle"].partition(":")[2] for one in served if one is not None]
    except (ValueError, KeyError, TypeError, AttributeError):
        return names_in(os.path.join(own, "launches"))
    return named
