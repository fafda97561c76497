# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.canonical import encode, sha256
from derive.errors import InputErrors
from derive.images.modes import MAX_ID, Attributes, ModeTable, Rule
from derive.trees.listing import DIRECTORY, Entry, File, Listing, Symlink

PLAIN = File(executable=False, size=0, sha256=sha256(b""))
PROGRAM = File(executable=True, size=0, sha256=sha256(b""))
LINK = Symlink(b"x")


@pytest.mark.parametrize(
    ("entry", "mode"), [(DIRECTORY, 0o755), (PROGRAM, 0o755), (PLAIN, 0o644), (LINK, 0o777)], ids=repr
)
def test_without_a_rule_the_type_decides_and_root_owns(entry: Entry, mode: int) -> None:
    assert ModeTable().attributes(b"a", entry) == Attributes(mode, 0, 0)


def test_a_rule_gives_mode_and_owner_of_exactly_its_path() -> None:
    table = ModeTable.of([Rule(path=b"home/user", mode=0o700, uid=1000, gid=1001)])
    assert table.attributes(b"home/user", DIRECTORY) == Attributes(0o700, 1000, 1001)
    assert table.attributes(b"home/user/x", DIRECTORY) == Attributes(0o755, 0, 0)


def test_a_rule_without_mode_keeps_the_default_of_the_type() -> None:
    table = ModeTable.of([Rule(path=b"a", uid=5, gid=6)])
    assert table.attributes(b"a", PROGRAM) == Attributes(0o755, 5, 6)
    assert table.attributes(b"a", LINK) == Attributes(0o777, 5, 6)


def test_the_order_in_which_rules_are_written_decides_nothing() -> None:
    rules = [Rule(path=b"b", mode=0o600), Rule(path=b"a/z", mode=0o600), Rule(path=b"a", mode=0o700)]
    assert ModeTable.of(rules).to_document() == ModeTable.of(reversed(rules)).to_document()
    assert [rule.path for rule in ModeTable.of(rules).rules] == [b"a", b"a/z", b"b"]


def test_set_id_bits_are_refused() -> None:
    with pytest.raises(InputErrors) as caught:
        ModeTable.of([Rule(path=b"su", mode=0o4755), Rule(path=b"wall", mode=0o2755)], where="images/x.toml: modes")
    messages = [problem.message for problem in caught.value.problems()]
    assert messages == [
        "su: set-user-id and set-group-id bits are never written: mode 4755",
        "wall: set-user-id and set-group-id bits are never written: mode 2755",
    ]
    assert {problem.where for problem in caught.value.problems()} == {"images/x.toml: modes"}


@pytest.mark.parametrize(
    "rule",
    [
        Rule(path=b"", mode=0o755),
        Rule(path=b"/etc", mode=0o755),
        Rule(path=b"a/../b", mode=0o755),
        Rule(path=b"a", mode=0o10000),
        Rule(path=b"a", mode=-1),
        Rule(path=b"a", uid=MAX_ID + 1),
        Rule(path=b"a", gid=-1),
    ],
    ids=repr,
)
def test_a_rule_that_no_header_can_hold_is_refused(rule: Rule) -> None:
    with pytest.raises(InputErrors):
        ModeTable.of([rule])


def test_two_rules_for_one_path_are_refused() -> None:
    with pytest.raises(InputErrors, match="1 problem"):
        ModeTable.of([Rule(path=b"a", mode=0o600), Rule(path=b"a", mode=0o600)])


def test_rules_that_name_nothing_are_reported() -> None:
    table = ModeTable.of([Rule(path=b"a", mode=0o600), Rule(path=b"b", mode=0o600)])
    assert table.unmatched([b"", b"b"]) == (b"a",)


def test_rules_that_do_not_fit_their_entry_are_reported() -> None:
    listing = Listing.of([(b"tmp", DIRECTORY), (b"file", PLAIN), (b"link", LINK)])
    table = ModeTable.of([Rule(path=path, mode=0o1777) for path in (b"tmp", b"file", b"link")])
    assert [problem.message for problem in table.misfits(listing)] == [
        "file is a file, and the sticky bit is for folders: 1777",
        "link is a symlink, whose mode cannot be set: 1777",
    ]


def test_a_table_survives_its_document() -> None:
    table = ModeTable.of([Rule(path=b"t\xffmp%", mode=0o1777, uid=1, gid=2), Rule(path=b"a", uid=3)])
    document = table.to_document()
    assert ModeTable.from_document(document) == table
    assert encode(document) == (
        b'{"derive":"mode-table/1","rules":[{"gid":0,"mode":null,"path":"a","uid":3},'
        b'{"gid":2,"mode":"1777","path":"t%FFmp%25","uid":1}]}'
    )


@pytest.mark.parametrize(
    "change",
    [
        {"derive": "mode-table/2"},
        {"rules": [{"path": "a"}]},
        {"rules": [{"path": "a", "mode": "4755", "uid": 0, "gid": 0}]},
        {"rules": [{"path": "a", "mode": "755", "uid": 0, "gid": 0}]},
        {"rules": [{"path": "b", "mode": None, "uid": 0, "gid": 0}, {"path": "a", "mode": None, "uid": 0, "gid": 0}]},
        {"rules": "a"},
        {"more": 1},
    ],
    ids=repr,
)
def test_a_document_written_otherwise_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"absent|not |carries|levels|unknown|segment|never"):
        ModeTable.from_document({**ModeTable().to_document(), **change})  # type: ignore[dict-item]
