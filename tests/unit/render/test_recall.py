# SPDX-License-Identifier: Apache-2.0
"""A rendering that was asked for before is not made again; and whatever it was made from is part of the question."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from derive.canonical import Digest
from derive.images.documents import DocumentError
from derive.render import recall, service
from derive.render.chosen import Chosen
from derive.render.inputs import Inputs
from derive.render.service import Rendered, answered
from derive.render.show import Answer
from derive.store.local import LocalStore
from support.cli import CHECKOUT
from support.launching import IMAGE

PROBE = Chosen(recipe="probe")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with LocalStore(tmp_path / "store"):
        return tmp_path / "store"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("recipes", "render", "fabric", "images", "lock"):
        shutil.copytree(CHECKOUT / name, tmp_path / "project" / name)
    return tmp_path / "project"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Rendered]:
    """Collect what is rendered, and not recalled."""
    found: list[Rendered] = []
    render = service.render

    def noting(
        root: Path, chosen: Chosen, environ: dict[str, str], image: Callable[[Inputs], Digest], usual: str
    ) -> Rendered:
        found.append(render(root, chosen, environ, image, usual))
        return found[-1]

    monkeypatch.setattr(service, "render", noting)
    return found


def ask(root: Path, store: Path, *, chosen: Chosen = PROBE, image: Digest = IMAGE, home: str = "/nobody") -> Answer:
    return answered(root, chosen, {"HOME": home}, image, "", pytest.fail, lambda: store)


def test_the_same_question_gets_the_answer_that_was_given(root: Path, store: Path, made: list[Rendered]) -> None:
    first = ask(root, store)
    assert ask(root, store) == first
    assert len(made) == 1


def test_each_thing_that_a_rendering_reads_is_part_of_the_question(
    root: Path, store: Path, made: list[Rendered], tmp_path: Path
) -> None:
    site = tmp_path / "lab.toml"
    text = (root / "fabric/examples/ring4.toml").read_text()
    site.write_text(text)

    def recipe() -> None:
        (root / "recipes/probe.toml").write_text((root / "recipes/probe.toml").read_text() + "\n# a comment\n")

    def template() -> None:
        (root / "render/run.j2").write_text((root / "render/run.j2").read_text() + "# more\n")

    ask(root, store)
    for number, (change, asked) in enumerate(
        [
            (recipe, {}),
            (template, {}),
            (lambda: None, {"image": Digest("0" * 64)}),
            (lambda: None, {"chosen": replace(PROBE, shape="triangle")}),
            (lambda: None, {"chosen": replace(PROBE, site=str(site))}),
            (lambda: site.write_text(text + "\n#\n"), {"chosen": replace(PROBE, site=str(site))}),
        ],
        start=2,
    ):
        change()
        ask(root, store, **asked)  # type: ignore[arg-type]
        assert len(made) == number


def test_an_answer_that_was_collected_or_spoiled_is_made_again(root: Path, store: Path, made: list[Rendered]) -> None:
    first = ask(root, store)
    (blob,) = [path for path in (store / "blobs/sha256").rglob("*") if path.is_file()]
    blob.chmod(0o644)
    blob.write_bytes(b"x" * blob.stat().st_size)
    assert ask(root, store) == first
    blob.unlink()
    assert ask(root, store) == first
    assert len(made) == 3


def test_where_there_is_no_store_none_is_made(root: Path, tmp_path: Path, made: list[Rendered]) -> None:
    for _ in range(2):
        ask(root, tmp_path / "nothing")
    assert len(made) == 2
    assert not (tmp_path / "nothing").exists()


def test_another_engine_asks_another_question(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = recall.question(root, PROBE, {}, "")
    monkeypatch.setattr(recall, "engine_digest", lambda: Digest("0" * 64))
    assert recall.question(root, PROBE, {}, "") != before
    monkeypatch.setattr(recall, "_jinja2", lambda: ["jinja2-9"])
    assert recall.question(root, PROBE, {}, "") != before


def test_an_answer_read_back_is_the_answer(root: Path, store: Path) -> None:
    answer = ask(root, store)
    document = json.loads(answer.to_bytes())
    assert Answer.from_document(document) == replace(answer, body=document["body"])
    with pytest.raises(DocumentError):
        Answer.from_document({**document, "more": 1})
