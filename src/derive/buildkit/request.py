# SPDX-License-Identifier: Apache-2.0
"""A step as BuildKit is asked for it: a Dockerfile, and the image settings that make its sandbox that of bubblewrap.

Core: no IO.

What the sandbox is comes from :mod:`derive.sandbox.spec`: the same variables, user, folders and host name. Where
BuildKit cannot be told something by its own means, the shell that starts the script does it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from derive.archives.names import resolve
from derive.canonical import Json
from derive.errors import BuildFailed, DeriveError
from derive.sandbox.request import Command, SandboxRequest, Script, root_entries
from derive.sandbox.spec import IN, OUT, SCRIPT, WORK, SandboxSpec, sandbox_spec
from derive.trees.listing import File, Listing, Symlink

ROOT = "root"
EXTRA = "extra"
STAGE = "step"
"""Names of contexts and of the stage that runs; the inputs' contexts are :func:`input_context`."""

TREE = b"tree"
"""Where an input lies in its context: what is at a context's own top takes on the worker's owner and time."""

EMPTY_FILE = b"empty"
SCRIPT_FILE = b"script"
"""What lies in the context :data:`EXTRA`."""

HIDDEN = ("/etc/hosts", "/etc/resolv.conf")
"""Files that BuildKit writes for its own containers: the root's take their place, or empty ones."""

NO_PROXIES = tuple(
    name for scheme in ("all", "ftp", "http", "https", "no") for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper())
)
"""Build arguments that are set to nothing: a client that is set to use proxies would hand them to the step."""

BUILD_ARGUMENTS: Mapping[str, str] = dict.fromkeys(NO_PROXIES, "")

BEGINNING = "derive-step-begins "
"""What the log begins with where a shell starts the command; the worker's kernel comes after it."""

SOCKET = "derive-step-left-socket "
"""What the log ends with for each socket in the output, which BuildKit would send as an empty file."""

_IN, _TREE = IN.decode(), TREE.decode()
_SHELL = "/bin/sh"
_STARTER = (
    # Its own variable has a name that no derivation may give to one.
    "read -r DERIVE_KERNEL </proc/sys/kernel/osrelease;"
    f" printf '{BEGINNING}%s\\n' \"$DERIVE_KERNEL\"; unset DERIVE_KERNEL SHLVL;"
    " exec 2>/dev/null; ulimit -S -c 0; ulimit -S -n 1024; ulimit -S -s 8192;"
    ' (exec "$@" </dev/null 2>&1); s=$?; [ $s = 0 ] || exit $s;'
    ' w() { for f in "$1"/* "$1"/.[!.]* "$1"/..?*; do if [ -h "$f" ]; then :; elif [ -d "$f" ]; then w "$f";'
    f' elif [ -S "$f" ]; then printf \'{SOCKET}%s\\n\' "${{f#/out/}}"; s=1; fi; done; }}; w /out; exit $s'
)
"""Tells the worker's kernel, sets bubblewrap's soft limits, joins the streams, and says no word of its own. The
command is not process 1, from which the kernel keeps signals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step, ready for BuildKit.

    ``inputs`` are names below ``/in`` in order; ``script`` is the text of the script, None for a program.
    ``root_files`` are those of :data:`HIDDEN` that the root has. ``starts`` says that a shell starts the command, and
    tells the kernel on the log's first line.
    """

    name: str
    spec: SandboxSpec
    inputs: tuple[str, ...]
    script: str | None
    root_files: frozenset[str]
    starts: bool

    @property
    def build_arguments(self) -> Mapping[str, str]:
        """The build arguments that shape the sandbox."""
        return {**BUILD_ARGUMENTS, "BUILDKIT_SANDBOX_HOSTNAME": self.spec.host_name}


def input_context(number: int) -> str:
    """Return the name of an input's context: names of inputs may hold what names of contexts may not."""
    return f"in-{number}"


def step_of(
    name: str, root: Listing, command: Command, inputs: Iterable[str], environment: Mapping[str, str], jobs: int
) -> Step:
    """Turn what is to be run into a step; ``inputs`` are names below ``/in``.

    Raises:
        InputErrors: every name, variable and root entry that cannot be, at once, as bubblewrap's sandbox says it.
        BuildFailed: when the root does not hold the program.
    """
    spec = sandbox_spec(
        SandboxRequest(
            root=ROOT.encode(),
            root_entries=root_entries(root),
            inputs={name: name.encode() for name in inputs},
            work=b"",
            out=b"",
            command=command,
            environment=environment,
            jobs=jobs,
        )
    )
    links = {path: entry.target for path, entry in root.items() if isinstance(entry, Symlink)}
    if fault := _cannot_start(spec.argv[0], root, links):
        raise fault
    return Step(
        name=name,
        spec=spec,
        inputs=tuple(sorted(inputs)),
        script=command.text if isinstance(command, Script) else None,
        root_files=frozenset(path for path in HIDDEN if isinstance(root.get(path[1:].encode()), File)),
        starts=isinstance(command, Script) or _holds(_SHELL, root, links),
    )


def dockerfile(step: Step) -> str:
    """Return the step's Dockerfile."""
    mounts = [
        f"type=bind,from={input_context(at)},source=/{_TREE},target={_IN}/{name}" for at, name in enumerate(step.inputs)
    ]
    if step.script is not None:
        mounts.append(f"type=bind,from={EXTRA},source=/{SCRIPT_FILE.decode()},target={SCRIPT.decode()}")
    for path in HIDDEN:
        source = f"from={ROOT},source={path}" if path in step.root_files else f"from={EXTRA},source=/empty"
        mounts.append(f"type=bind,{source},target={path}")
    # Over /sys, too: what it tells of the machine is not there in this machine's sandbox.
    mounts += [f"type=tmpfs,target={path}" for path in ("/sys", "/tmp", "/dev/shm")]  # noqa: S108 - of the sandbox
    lines = [
        f"# {_comment(step.name)}: its root and its inputs are contexts by digest.",
        f"FROM {ROOT} AS {STAGE}",
        "RUN --network=none \\",
        *(f"    --mount={mount} \\" for mount in mounts),
        f"    {_words(_argv(step))}",
        "",
        "FROM scratch",
        f"COPY --from={STAGE} {OUT.decode()}/ /",
    ]
    return "".join(f"{line}\n" for line in lines)


def settings(step: Step) -> Mapping[str, Json]:
    """Return the settings of the image that the root is handed over as: all of the step's variables, its user, folder.

    They are set there, and not in the Dockerfile, because no value of theirs needs to be quoted there.
    """
    spec = step.spec
    variables = {**dict(spec.environment), "PWD": spec.cwd.decode()}
    return {
        "Env": [f"{name}={value}" for name, value in sorted(variables.items())],
        "User": f"{spec.uid}:{spec.gid}",
        "WorkingDir": spec.cwd.decode(),
    }


SCAFFOLD: Mapping[bytes, int] = {IN[1:]: 0o755, OUT[1:]: 0o755, WORK[1:]: 0o755, b"tmp": 0o1777}
"""The folders that every sandbox has beside its root, with their modes; a memory file system takes on that of what it
covers."""


def _cannot_start(program: str, root: Listing, links: Mapping[bytes, bytes]) -> DeriveError | None:
    found = _entry(program, root, links)
    if isinstance(found, File) and found.executable:
        return None
    if isinstance(found, File):
        return BuildFailed(f"{program} in the root is not executable")
    return BuildFailed(
        f"the root has no {program} that can run",
        hint="add the package that holds it, and its program interpreter, to the root",
    )


def _holds(program: str, root: Listing, links: Mapping[bytes, bytes]) -> bool:
    return _cannot_start(program, root, links) is None


def _entry(program: str, root: Listing, links: Mapping[bytes, bytes]) -> object:
    place = resolve(program[1:].encode(), links)
    return None if place is None else root.get(place)


def _argv(step: Step) -> Sequence[str]:
    # A shell that is told what to run by its arguments: nothing of them is read as a shell's text.
    return (_SHELL, "-c", _STARTER, _SHELL, *step.spec.argv) if step.starts else step.spec.argv


def _words(argv: Iterable[str]) -> str:
    # "<" would be read as the beginning of a text within the file, were it doubled.
    return json.dumps(list(argv)).replace("<", "\\u003c")


def _comment(text: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in text)
