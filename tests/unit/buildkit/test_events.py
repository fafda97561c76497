# SPDX-License-Identifier: Apache-2.0
"""What a client tells of a build: the step's log alone, its exit status, and what was sent."""

from __future__ import annotations

import base64
import json

import pytest

from derive.buildkit.events import Told
from derive.buildkit.loglines import LogLines
from derive.buildkit.refusals import refusal_of
from derive.errors import BuildFailed, HostRefuses

STEP = {"digest": "sha256:aa", "name": "[step 1/2] RUN --network=none x"}
FAILED = 'process "/bin/sh -c x" did not complete successfully: exit code: '


def told(*documents: object, indent: int | None = None) -> tuple[Told, bytes]:
    found = Told()
    log = b""
    for document in documents:
        text = document if isinstance(document, str) else json.dumps(document, indent=indent)
        for line in text.splitlines(keepends=True):
            log += b"".join(found.take(line))
    return found, log


def log(vertex: str, data: bytes) -> dict[str, object]:
    return {"logs": [{"vertex": vertex, "stream": 1, "data": base64.b64encode(data).decode()}]}


@pytest.mark.parametrize("indent", [None, 2], ids=["one line", "many lines"])
def test_the_log_is_that_of_the_step_alone_byte_by_byte(indent: int | None) -> None:
    documents = ({"vertexes": [STEP]}, log("sha256:aa", b"a\xff"), log("sha256:bb", b"no"), log("sha256:aa", b"}\n"))
    _, found = told(*documents, indent=indent)
    assert found == b"a\xff}\n"


def test_a_step_of_a_build_for_several_platforms_is_found_too() -> None:
    found, _ = told({"vertexes": [{**STEP, "name": "[linux/arm64 step 1/2] RUN x", "started": "now"}]})
    assert found.began


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (f"{FAILED}7", 7),
        (f"{FAILED}137: cannot allocate memory", 137),
        (f"{FAILED}137: context canceled: context canceled", None),
        (f"{FAILED}255: transport is closing", None),
        ("failed to copy: EOF", None),
    ],
)
def test_an_exit_status_is_the_steps_own_unless_its_worker_gave_it_up(error: str, status: int | None) -> None:
    found, _ = told({"vertexes": [{**STEP, "started": "now", "completed": "now", "error": error}]})
    assert found.exit_status == status


def test_a_step_that_ended_well_has_status_0_and_one_that_runs_has_none() -> None:
    running, _ = told({"vertexes": [{**STEP, "started": "now"}]})
    ended, _ = told({"vertexes": [{**STEP, "started": "now", "completed": "now"}]})
    assert (running.exit_status, ended.exit_status) == (None, 0)


def test_layers_that_are_sent_count_once_however_often_they_are_told() -> None:
    layer = {"statuses": [{"id": "sha256:cc", "current": 1, "total": 10}, {"id": "extracting sha256:cc", "total": 5}]}
    found, _ = told(layer, layer, {"statuses": [{"id": "sha256:dd", "total": 7}]})
    assert found.sent_bytes == 17


def test_words_of_the_client_are_kept_and_nothing_of_it_breaks_the_reading() -> None:
    found, _ = told("ERROR: no\n", '{"vertexes": 3}', "{ broken\n}\n", "[]\n", *[f"line {n}\n" for n in range(60)])
    assert len(found.words) == 40
    assert found.words[-1] == "line 59"


def test_a_log_is_told_line_by_line_and_its_beginning_kept_aside() -> None:
    lines: list[bytes] = []
    found = LogLines(lines.append, "begins ")
    for piece in (b"beg", b"ins 6.1\na", b"b\n\nc"):
        found.take(piece)
    found.end()
    assert (found.first, lines) == ("6.1", [b"ab\n", b"\n", b"c\n"])


def test_a_log_that_begins_otherwise_shows_that_the_step_has_not_begun() -> None:
    lines: list[bytes] = []
    found = LogLines(lines.append, "begins ")
    found.take(b"runc run failed: no\n")
    assert (found.first, found.last, lines) == (None, b"runc run failed: no", [b"runc run failed: no\n"])


def test_what_can_never_run_there_is_told_from_what_may_run_another_time() -> None:
    started = "runc run failed: unable to start container process: exec: /bin/sh: "
    assert isinstance(refusal_of(f"{started}exec format error", (), "b"), HostRefuses)
    assert isinstance(refusal_of(f"{started}no such file or directory", (), "b"), BuildFailed)
    assert isinstance(refusal_of("", ("ERROR: unknown scheme oci-layout: not found",), "b"), HostRefuses)
    assert refusal_of("context canceled", ("ERROR: closing transport",), "b") is None
