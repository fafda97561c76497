# SPDX-License-Identifier: Apache-2.0
"""The effects on what a node remembers of a service: its state, and the link to the launch that is to run.

Edge: the node. Runs there: Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any

from derive.deploy.node.common import (
    FRESH,
    Refused,
    document,
    fenced,
    folder_of,
    is_folder,
    launch_hex,
    move_away,
    names_in,
    read_document,
    service_name,
    sync_folder,
    write_whole,
)

STATE_FILE = "state.json"
LINK = "current"
_NOT_SERVICES = ("guard", "cache")
_LAUNCH = re.compile(r"launches/([0-9a-f]{64})")


def activate(given: dict[str, Any]) -> Any:
    """Let the link lead to a launch, or to none, and then write the state: cut off between, the state is the older.

    What stands in the link's place and is none, a folder above all, is none of ours, and is moved away.
    """
    with fenced(given, service=True) as own:
        link = os.path.join(own, LINK)
        former = _link(link)
        if os.path.lexists(link) and not os.path.islink(link):
            move_away(link)
        if given["launch"] is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(link)
        else:
            _lead(own, link, launch_hex(given["launch"]))
        sync_folder(own)
        write_whole(os.path.join(own, STATE_FILE), document(given["state"]))
    return {"former": former}


def _lead(own: str, link: str, launch: str) -> None:
    target = os.path.join("launches", launch)
    if not is_folder(os.path.join(own, target)):
        raise Refused("not-staged", f"no folder {os.path.join(own, target)}", hint="put its files there first")
    fresh = os.path.join(own, f"{FRESH}{LINK}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh)
    os.symlink(target, fresh)
    os.rename(fresh, link)


def state_write(given: dict[str, Any]) -> Any:
    """Replace the state."""
    with fenced(given, service=True) as own:
        write_whole(os.path.join(own, STATE_FILE), document(given["state"]))
    return {}


def state_read(given: dict[str, Any]) -> Any:
    """Return the state, where the link leads, and which launches are there; nothing is changed."""
    return _seen(os.path.join(folder_of(given), service_name(given["service"])))


def states_read(given: dict[str, Any]) -> Any:
    """Return the same for every service that has a folder."""
    folder = folder_of(given)
    return {
        name: _seen(os.path.join(folder, name))
        for name in names_in(folder)
        if name not in _NOT_SERVICES
        and not name.startswith(".")
        and any(os.path.lexists(os.path.join(folder, name, one)) for one in (STATE_FILE, LINK, "launches"))
    }


def _seen(own: str) -> dict[str, Any]:
    damaged = None
    state = None
    try:
        state = read_document(os.path.join(own, STATE_FILE))
    except ValueError as error:
        damaged = f"cannot be read as JSON: {error}"
    except OSError as error:
        damaged = "cannot be read: {}".format((error.strerror or "").lower())
    link = os.path.join(own, LINK)
    return {
        "state": state,
        "damaged": damaged,
        "link": _link(link),
        "odd": _odd(own, link),
        "launches": _launches(os.path.join(own, "launches")),
    }


def _launches(folder: str) -> list[str]:
    try:
        return [name for name in names_in(folder) if _LAUNCH.fullmatch("launches/" + name)]
    except OSError:
        return []


def _odd(own: str, link: str) -> str | None:
    """Say what is wrong with the link, or what stands in its place; None where it leads to a launch, or nothing is."""
    if not os.path.lexists(link):
        return None
    if not os.path.islink(link):
        return "is a folder" if os.path.isdir(link) else "is a file"
    found = _link(link)
    if found is None:
        return "leads to no launch"
    return None if is_folder(os.path.join(own, "launches", found)) else "leads to a launch that is not there"


def _link(link: str) -> Any:
    try:
        found = _LAUNCH.fullmatch(os.readlink(link))
    except OSError:
        return None
    return found.group(1) if found else None
