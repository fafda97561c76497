# SPDX-License-Identifier: Apache-2.0
"""The image's config: the program, the user, the working folder and PATH that it names are in the image.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from derive.trees.listing import Directory
from derive.verify.findings import Finding, Owner, Rule
from derive.verify.image import ImageTree
from derive.verify.rules.paths import MOUNTED, is_program, on_path

USERS = b"etc/passwd"
GROUPS = b"etc/group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The names in an image's ``/etc/passwd`` and ``/etc/group``."""

    users: frozenset[str] = field(default_factory=frozenset)
    groups: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def read(cls, contents: Mapping[bytes, bytes]) -> Accounts:
        """Read both files, of which any may be absent."""
        return cls(users=_names(contents.get(USERS, b"")), groups=_names(contents.get(GROUPS, b"")))


def names_accounts(user: str) -> bool:
    """Say whether a config's user is given by a name, so that the image's accounts are needed to judge it."""
    return any(part and not _is_number(part) for part in user.split(":"))


def config_findings(image: ImageTree, accounts: Accounts) -> Iterator[Finding]:
    """Yield what an image's config names and the image does not have."""
    yield from _program_findings(image)
    yield from _user_findings(image, accounts)
    folder = image.config.working_folder
    if folder and not _is_folder(image, folder):
        what = f"the working folder {folder} is not in the image: an engine makes one, or refuses"
        yield _finding(image, what, about=folder, hint="add a derivation that has it, or name another working-folder")
    for folder in image.environment.get("PATH", "/").split(":"):
        if not folder.startswith("/"):
            what = "PATH has a folder that is not absolute: what it leads to depends on where a program is started"
            yield _finding(image, what, about=folder, got=folder or "an empty part", hint=_ON_PATH)
        elif not _is_folder(image, folder):
            yield _finding(image, f"PATH has {folder}, which is no folder of the image", about=folder, hint=_ON_PATH)


_ON_PATH = "take it out of PATH, or add a derivation that has it"


def _program_findings(image: ImageTree) -> Iterator[Finding]:
    config = image.config
    key = "entrypoint" if config.entrypoint else "command"
    words = config.entrypoint or config.command
    if not words:
        return  # a container of it is started with a command of its own
    program = words[0].encode("utf-8", "surrogateescape")
    if b"/" in program:
        folder = config.working_folder.encode("utf-8", "surrogateescape")
        path = program if program.startswith(b"/") else folder + b"/" + program
        if is_program(image, path):
            return
        is_there = image.real(path) is not None
        what = f"the program of {key} is {'no executable file' if is_there else 'not in the image'}"
    elif on_path(image, program):
        return
    else:
        what = f"the program of {key} is in no folder of PATH"
    hint = f"add what has it to a layer, or name another program in config.{key}"
    yield _finding(image, what, about=words[0], got=words[0], hint=hint)


def _user_findings(image: ImageTree, accounts: Accounts) -> Iterator[Finding]:
    user, _, group = image.config.user.partition(":")
    for name, known, kind, file in (
        (user, accounts.users, "user", USERS),
        (group, accounts.groups, "group", GROUPS),
    ):
        if name and not _is_number(name) and name not in known:
            what = f"the {kind} {name} is not in the image's /{file.decode()}"
            yield _finding(
                image, what, about=name, hint=f"add the {kind} to the root, or give its number in config.user"
            )


def _is_folder(image: ImageTree, path: str) -> bool:
    end = image.led(path.encode("utf-8", "surrogateescape"))
    return end is not None and (isinstance(image.listing.get(end), Directory) or end.partition(b"/")[0] in MOUNTED)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _names(data: bytes) -> frozenset[str]:
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    return frozenset(name for line in lines if (name := line.partition(":")[0]) and not name.startswith("#"))


def _finding(image: ImageTree, what: str, *, about: str, got: str = "", hint: str) -> Finding:
    owner = Owner(kind="file", name=f"images/{image.name}.toml")
    return Finding(rule=Rule.CONFIG, path="", owner=owner, what=what, about=about, got=got, hint=hint)
