# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from support.small import run_here


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("promote", "r", "--shape", "s", "--need", "2"), "--need counts builders"),
        (("promote", "r", "--shape", "s", "--clear-waiver"), "a waiver is cleared by evidence"),
        (("promote", "r", "--shape", "s", "--clear-waiver", "--check"), "--clear-waiver looks at evidence alone"),
        (("promote", "r", "--shape", "s", "--check", "--certified"), "not allowed with argument"),
        (("certify", "r"), "neither a key nor a number"),
        (("certify", "r", "--key", "a", "--need", "1"), "either sign or count"),
        (("certify", "r", "--need", "1", "--attach"), "--need signs nothing"),
        (("certify", "r", "--key", "a", "--any-hosts"), "--any-hosts is for counting"),
        (("certify", "r", "--need", "0"), "not a whole number above 0"),
        (("key", "revoke", "a", "--record"), "a record says why the key counts no more\n  hint: say it: --why TEXT"),
        (("key", "revoke", "a", "--record", "--since", "2026-11-20"), "a record says why the key counts no more"),
        (("key", "revoke", "a", "--since", "2026-11-20"), "--since is for a record, and none is asked for"),
        (("key", "revoke", "a", "--why", "x"), "--why is for a record, and none is asked for\n  hint: add --record"),
        (("key", "revoke", "a", "--why", "x", "--since", "2026-11-20"), "--why and --since are for a record"),
        (("key", "revoke", "a", "--record", "--why", "x", "--since", "soon"), "not a day, as in 2026-11-20"),
        (
            ("key", "revoke", "a", "--record", "--why", "x", "--since", "9999-01-01"),
            "a day to come, or one before 1970",
        ),
        (
            ("key", "revoke", "a", "--record", "--why", "x", "--since", "1969-12-31"),
            "a day to come, or one before 1970",
        ),
        (("key", "revoke", "a", "--record", "--why", "x\ny"), "not text in one line that can be printed"),
        (("promote", "r", "--shape", "s", "--waive", "\x1b[2J"), "not text in one line that can be printed"),
        (("records", "add", "retired", "r", "--why", "x\ty"), "not text in one line that can be printed"),
        (("release", "r", "--recipe", "s", "--by", " "), "not text in one line that can be printed"),
        (("attest", "a", "--unsigned", "--certificate"), "a certificate is signed"),
        (("attest", "a", "--check", "--certificate"), "--check signs nothing"),
    ],
)
def test_what_makes_no_sense_together_is_refused_before_anything_is_read(words: tuple[str, ...], said: str) -> None:
    try:
        found = run_here(*words)
        code, err = found.code, found.err
    except SystemExit as stop:  # argparse's own way
        code, err = int(str(stop.code)), said
    assert code == 2
    assert said in err
