# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.debian.accounts import account_files
from derive.debian.declaration import Account, Group

PASSWD = b"root:*:0:0:root:/root:/bin/bash\n"
GROUP = b"root:*:0:\nnogroup:*:65534:\n"


def test_declared_lines_follow_the_masters_sorted_by_number() -> None:
    accounts = (Account(name="z", uid=5, gid=0), Account(name="a", uid=7, gid=8, gecos="A", home="/a", shell="/bin/sh"))
    files = account_files(PASSWD, GROUP, reversed(accounts), (Group(name="g", gid=8),))
    assert files.passwd == PASSWD + b"z:*:5:0::/nonexistent:/usr/sbin/nologin\na:*:7:8:A:/a:/bin/sh\n"
    assert files.group == GROUP + b"g:*:8:\n"
    assert files.problems == ()


def test_taken_names_and_numbers_and_absent_groups_are_problems() -> None:
    accounts = (Account(name="root", uid=9, gid=0), Account(name="b", uid=0, gid=0), Account(name="c", uid=9, gid=77))
    files = account_files(PASSWD, GROUP, accounts, (Group(name="h", gid=0), Group(name="root", gid=3)))
    assert {(problem.where, problem.message) for problem in files.problems} == {
        ("accounts.root", "the name is taken"),
        ("accounts.b", "the number 0 is taken"),
        ("accounts.root", "the number 9 is taken"),
        ("accounts.c.gid", "no group has the number 77"),
        ("groups.h", "the number 0 is taken"),
        ("groups.root", "the name is taken"),
    }
