# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest

from derive.canonical import decode, encode
from derive.images.documents import DocumentError
from derive.recipes.resolved import Container
from derive.render.documents import laid_out, launch_document, launch_from_document
from support.launching import small_launch


@pytest.mark.parametrize("changes", [{}, {"container": Container(), "entrypoint": (), "guard": (), "mounts": ()}])
def test_a_launch_read_back_is_the_launch_that_was_written(changes: dict[str, Any]) -> None:
    launch = small_launch(**changes)
    assert launch_from_document(decode(laid_out(launch_document(launch)))) == launch


def test_what_is_laid_out_for_people_is_the_canonical_document_when_it_is_read() -> None:
    document = launch_document(small_launch(environment={"A": "é \u2028 ☃"}))
    assert encode(decode(laid_out(document))) == encode(document)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("derive",), "launch/2"),
        (("more",), 1),
        (("rank",), "0"),
        (("environment", "A"), 1),
        (("container", "more"), 1),
        (("container", "gpus"), 1),
        (("mounts", 0, "read-only"), "true"),
        (("guard", 0, "phase"), "later"),
        (("ready", "path"), None),
    ],
)
def test_a_document_that_this_program_would_not_write_is_refused(path: tuple[Any, ...], value: object) -> None:
    document = json.loads(json.dumps(launch_document(small_launch())))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(DocumentError):
        launch_from_document(document)
