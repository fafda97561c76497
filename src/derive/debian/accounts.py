# SPDX-License-Identifier: Apache-2.0
"""passwd and group: base-passwd's own lines, then the declared ones by number.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from derive.debian.declaration import Account, Group
from derive.errors import Problem

PASSWD_MASTER = b"usr/share/base-passwd/passwd.master"
GROUP_MASTER = b"usr/share/base-passwd/group.master"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountFiles:
    """The two files' bytes, and what is wrong with the declaration."""

    passwd: bytes
    group: bytes
    problems: tuple[Problem, ...]


def account_files(
    passwd_master: bytes, group_master: bytes, accounts: Iterable[Account], groups: Iterable[Group]
) -> AccountFiles:
    """Compose ``/etc/passwd`` and ``/etc/group``. Passwords are locked (``*``); there is no shadow file.

    A name or number given twice, and an account of a group that is not there, are problems.
    """
    problems: list[Problem] = []
    names, uids = _known(passwd_master)
    lines = [passwd_master]
    for account in sorted(accounts, key=lambda a: (a.uid, a.name)):
        problems += _taken("accounts", account.name, account.uid, names, uids)
        lines.append(
            f"{account.name}:*:{account.uid}:{account.gid}:{account.gecos}:{account.home}:{account.shell}\n".encode()
        )
    group_names, gids = _known(group_master)
    group_lines = [group_master]
    for group in sorted(groups, key=lambda g: (g.gid, g.name)):
        problems += _taken("groups", group.name, group.gid, group_names, gids)
        group_lines.append(f"{group.name}:*:{group.gid}:\n".encode())
    for account in accounts:
        if account.gid not in gids:
            where = f"accounts.{account.name}.gid"
            problems.append(Problem(where=where, message=f"no group has the number {account.gid}"))
    return AccountFiles(passwd=b"".join(lines), group=b"".join(group_lines), problems=tuple(problems))


def _known(master: bytes) -> tuple[set[str], set[int]]:
    fields = [line.decode("utf-8", "replace").split(":") for line in master.splitlines() if line.count(b":") >= 3]
    return {field[0] for field in fields}, {int(field[2]) for field in fields if field[2].isdigit()}


def _taken(table: str, name: str, number: int, names: set[str], numbers: set[int]) -> list[Problem]:
    problems: list[Problem] = []
    if name in names:
        problems.append(Problem(where=f"{table}.{name}", message="the name is taken"))
    if number in numbers:
        problems.append(Problem(where=f"{table}.{name}", message=f"the number {number} is taken"))
    names.add(name)
    numbers.add(number)
    return problems
