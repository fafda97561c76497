# SPDX-License-Identifier: Apache-2.0
"""What runs on a node for every effect: it reads arguments, calls the effect's function, and answers one line.

Edge: the node. Runs there: Python 3.8, standard library only.

The other side keeps standard input open until it has the answer. Where it ends before that, the other side is lost, and
this program ends at once: every effect may be cut off anywhere.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from derive.deploy.node.common import Refused

ANSWER = "derive-answer "
LOST = 75
_at_loss: list[Callable[[], None]] = []
unbroken = threading.Lock()
"""While it is held, the loss of the other side is not acted upon: between a beginning and the word of how to end it."""

_SPACE = "make room there: df -h says how full it is"
_HINTS = {
    "ENOSPC": _SPACE,
    "EDQUOT": _SPACE,
    "EROFS": "the file system is read-only: dmesg says why",
    "EACCES": "the site's folder and all in it belong to the user of SSH: chown -R",
    "EPERM": "the site's folder and all in it belong to the user of SSH: chown -R",
}


def on_loss(action: Callable[[], None]) -> None:
    """Let something be done when the other side is lost, before this ends."""
    _at_loss.append(action)


def main(call: dict[str, Any]) -> None:
    """Do the one effect that ``call`` names, print the answer and end."""
    # A shell of SSH's that reads no profile knows no folder of administrators.
    os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"
    os.environ["LC_ALL"] = "C"
    if call["held"]:
        threading.Thread(target=_watch, daemon=True).start()
    answer = _answer(call)
    sys.stdout.write("\n" + ANSWER + json.dumps(answer) + "\n")
    sys.stdout.flush()
    # Without the interpreter's own end, which would wait for the thread that reads.
    os._exit(0)


def _watch() -> None:
    while os.read(0, 4096):
        pass
    with unbroken:
        for action in _at_loss:
            action()
        os._exit(LOST)


def _answer(call: dict[str, Any]) -> dict[str, Any]:
    try:
        function = getattr(importlib.import_module(call["module"]), call["function"])
        return {"done": function(call["arguments"])}
    except Refused as refused:
        return {"refused": refused.answer}
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "OSError")
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        answer: dict[str, Any] = {"kind": name, "message": what, "detail": [], "hint": _HINTS.get(name), "data": None}
        return {"refused": answer}
