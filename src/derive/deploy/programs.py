# SPDX-License-Identifier: Apache-2.0
"""The programs that run on nodes, as text: which modules an effect needs, and how they and its arguments are sent.

Edge: reads the engine's own modules.

One effect is one ``python3 -I -S -c BOOT`` there. Standard input begins with a length and a line break, and then that
many bytes of JSON: the modules in the order in which they import each other, the effect, and its arguments. Nothing of
it stands on a command line, which has a limit, and which everybody on that machine can read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from derive.canonical import Json

PACKAGE = "derive.deploy.node"
PROGRAM = f"{PACKAGE}.program"
ANSWER = b"derive-answer "

EFFECTS: Mapping[str, str] = {
    "activate": "states",
    "facts": "facts",
    "file-put": "trees",
    "files-read": "runs",
    "folder-make": "leases",
    "guard-arm": "supervise",
    "guard-place": "supervise",
    "guard-seen": "seen",
    "guard-start": "supervise",
    "guard-steady": "supervise",
    "guard-stop": "supervise",
    "idle-facts": "idle",
    "idle-watch": "idle",
    "lease-free": "leases",
    "lease-read": "leases",
    "lease-renew": "leases",
    "lease-take": "leases",
    "port-free": "ports",
    "prune": "trees",
    "run": "runs",
    "state-read": "states",
    "state-write": "states",
    "states-read": "states",
    "tree-put": "trees",
    "unit-states": "units",
    "units-install": "units",
    "units-remove": "units",
}
"""Each effect by name, and the module whose function of that name (with ``_``) it is."""

BOOT = """\
import json, sys, types
source = sys.stdin.buffer
call = json.loads(source.read(int(source.readline())))
for name, text in call["modules"]:
    made = sys.modules[name] = types.ModuleType(name)
    made.__path__ = []
    exec(compile(text, name, "exec"), made.__dict__)
sys.modules["derive.deploy.node.program"].main(call)
"""

COMMAND = ("python3", "-I", "-S", "-c", BOOT)

_IMPORT = re.compile(rf"^from {re.escape(PACKAGE)}\.(\w+) import", re.MULTILINE)


def payload(effect: str, arguments: Mapping[str, Json], *, held: bool) -> bytes:
    """Return what the program is given to read; ``held`` says that its input is kept open until it has answered.

    Raises:
        KeyError: when there is no such effect.
    """
    module = EFFECTS[effect]
    call: dict[str, Any] = {
        "modules": [[name, text] for name, text in modules(module)],
        "module": f"{PACKAGE}.{module}",
        "function": effect.replace("-", "_"),
        "held": held,
        "arguments": dict(arguments),
    }
    data = json.dumps(call).encode("ascii")
    return b"%d\n%s" % (len(data), data)


@cache
def modules(module: str) -> tuple[tuple[str, str], ...]:
    """Return the modules that a module of node programs needs, in order of imports, with their text."""
    parents = [PACKAGE.rsplit(".", depth)[0] for depth in (2, 1)] + [PACKAGE]
    found: dict[str, str] = {}
    for name in ("program", module):
        for one, text in _needed(name, ()):
            found.setdefault(f"{PACKAGE}.{one}", text)
    return tuple((name, "") for name in parents) + tuple(found.items())


def _needed(module: str, within: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    text = files(PACKAGE).joinpath(f"{module}.py").read_text(encoding="utf-8")
    for one in _IMPORT.findall(text):
        if one not in within:
            yield from _needed(one, (*within, module))
    yield module, text


def read_answer(printed: bytes) -> Any:
    """Return the last answer in what was printed, whatever a login shell printed before; None where there is none."""
    _, found, rest = printed.rpartition(b"\n" + ANSWER)
    if not found:
        return None
    try:
        return json.loads(rest.partition(b"\n")[0])
    except ValueError:
        return None
