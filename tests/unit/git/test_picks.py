# SPDX-License-Identifier: Apache-2.0
"""What one commit changed, the same for everybody who asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.errors import InputErrors, UpstreamGone
from derive.git.model import GitRequest
from derive.git.picks import commit_patch
from derive.git.program import Session
from support.folders import Plain
from support.git_server import Upstream


def pick(upstream: Upstream, commit: str) -> bytes:
    return commit_patch(GitRequest(name="demo", urls=(str(upstream.path),)), commit, session=Session())


def test_a_picked_commit_is_its_change_whatever_a_persons_settings_are(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "r.git")
    lines = [f"line {number}\n" for number in range(40)]
    first = upstream.commit({b"a.c": Plain("".join(lines).encode()), b"gone": Plain(b"x\n"), b"b": Plain(b"b\n")})
    lines[20] = "changed\n"
    changed = Plain("".join(lines).encode())
    second = upstream.commit({b"a.c": changed, b"b": Plain(b"b2\n"), b"caf\xe9": Plain(b"x\n")}, parent=first)
    plain = pick(upstream, second)
    (tmp_path / "attributes").write_text("*.c binary diff=odd\n")
    (tmp_path / "order").write_text("b\n")
    (tmp_path / "gitconfig").write_text(
        f"[core]\n\tattributesFile = {tmp_path / 'attributes'}\n\tquotePath = false\n\tabbrev = 4\n"
        "[diff]\n\tcontext = 1\n\tnoprefix = true\n\trenames = copies\n\talgorithm = patience\n"
        f"\torderFile = {tmp_path}/order\n\texternal = /bin/false\n\tsuppressBlankEmpty = true\n"
        '[diff "odd"]\n\txfuncname = line\n\tcommand = /bin/false\n'
    )
    assert pick(upstream, second) == plain
    assert plain.count(b"diff --git ") == 4
    assert b"-line 20\n+changed\n" in plain


@pytest.mark.parametrize("case", ["first", "merge", "empty"])
def test_what_is_no_single_change_cannot_be_picked(case: str, tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "r.git")
    first = upstream.commit({b"a": Plain(b"a\n")})
    other = upstream.commit({b"b": Plain(b"b\n")}, branch="other")
    tree = upstream.id(f"{first}^{{tree}}")
    commits = {
        "first": first,
        "merge": upstream.git("commit-tree", tree, "-p", first, "-p", other, "-m", "merge"),
        "empty": upstream.git("commit-tree", tree, "-p", first, "-m", "empty"),
    }
    with pytest.raises(InputErrors) as caught:
        pick(upstream, commits[case])
    assert "cannot be picked" in caught.value.problems()[0].message


def test_a_commit_that_is_not_there_is_gone(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "r.git")
    upstream.commit({b"a": Plain(b"a\n")})
    with pytest.raises(UpstreamGone, match="a" * 40):
        pick(upstream, "a" * 40)
