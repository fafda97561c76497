# SPDX-License-Identifier: Apache-2.0
"""What git says when it fails becomes one of few kinds, and one error for a person."""

from __future__ import annotations

import pytest

from derive.errors import Unavailable, UpstreamGone
from derive.git.failures import GitFailure, Kind, Subject, Tried, classify, no_answer

DEMO = Subject(name="demo", what="tag v1")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("fatal: remote error: upload-pack: not our ref " + "a" * 40, "refused-id"),
        ("error: Server does not allow request for unadvertised object " + "a" * 40, "refused-id"),
        ("fatal: remote error: want " + "a" * 40 + " not valid", "refused-id"),
        ("fatal: couldn't find remote ref refs/tags/v1", "no-ref"),
        ("fatal: dumb http transport does not support shallow capabilities", "dumb"),
        ("fatal: mismatched algorithms: client sha1; server sha256", "format"),
        ("fatal: could not read Username for 'https://h': terminal prompts disabled", "denied"),
        ("git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.", "denied"),
        ("Host key verification failed.\nfatal: Could not read from remote repository.", "denied"),
        ("fatal: transport 'file' not allowed", "denied"),
        ("fatal: unable to access 'x': The requested URL returned error: 403", "denied"),
        ("remote: Repository not found.\nfatal: repository 'https://h/x/' not found", "no-repository"),
        ("fatal: '/srv/x.git' does not appear to be a git repository", "no-repository"),
        ("fatal: unable to access 'x': Could not resolve host: h", "silent"),
        ("fatal: unable to access 'x': Failed to connect to h port 80: Connection refused", "silent"),
        ("ssh: connect to host h port 22: Connection timed out", "silent"),
        ("error: RPC failed; curl 56 GnuTLS recv error\nfatal: early EOF", "transient"),
        ("fatal: unable to access 'x': The requested URL returned error: 502", "transient"),
        ("fatal: the remote end hung up unexpectedly", "transient"),
        ("fatal: write error: No space left on device\nfatal: fetch-pack: invalid index-pack output", "space"),
        ("fatal: something new", "other"),
        ("", "other"),
    ],
)
def test_gits_words_have_a_kind(said: str, kind: Kind) -> None:
    assert classify(said).kind == kind


def test_a_reason_is_short_and_without_progress() -> None:
    said = (
        "remote: Counting objects: 100% (5/5), done.\rReceiving objects:  50% (1/2)\nhint: try this\n"
        "fatal: early EOF\nfatal: early EOF\nerror: " + "x" * 400
    )
    reason = classify(said).reason
    assert reason.startswith("early EOF; xxx")
    assert len(reason) < 320


def test_what_a_server_says_cannot_steer_a_terminal() -> None:
    assert classify("remote: \x1b[2Jgone\x07\nfatal: no").reason == "?[2Jgone?; no"


@pytest.mark.parametrize(
    ("kinds", "error", "words"),
    [
        (["no-ref", "no-repository"], UpstreamGone, "nobody serves tag v1"),
        (["no-commit", "no-repository"], UpstreamGone, "no server gives tag v1"),
        (["no-ref", "silent"], Unavailable, "could not be had"),
        (["denied"], Unavailable, "could not be had"),
        ([], Unavailable, "could not be had"),
    ],
)
def test_all_failures_together_mean_one_thing(kinds: list[Kind], error: type[Exception], words: str) -> None:
    tried = [Tried(shown=f"h{number}", failure=GitFailure(kind, "why")) for number, kind in enumerate(kinds)]
    found = no_answer(DEMO, tried)
    assert type(found) is error
    assert words in found.message
    assert list(found.detail) == [f"tried     h{number}: why" for number in range(len(kinds))]
    assert found.hint


@pytest.mark.parametrize(
    ("what", "kind", "hint"),
    [
        ("branch nope", "no-ref", "correct the name of the branch"),
        ("tag v1", "no-ref", "correct the name of the tag"),
        ("default branch", "no-ref", "name a branch, tag or commit of it"),
        ("tag v1", "no-repository", "correct its URL"),
        ("branches and tags", "no-repository", "correct its URL"),
        ("commit 1234", "no-repository", "run: derive lock --update demo"),
    ],
)
def test_the_next_step_is_never_the_command_that_failed(what: str, kind: Kind, hint: str) -> None:
    found = no_answer(Subject(name="demo", what=what), [Tried(shown="h", failure=GitFailure(kind, "why"))])
    assert found.hint == f"{hint}, or name a mirror that has it in DERIVE_MIRROR_GIT"
