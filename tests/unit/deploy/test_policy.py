# SPDX-License-Identifier: Apache-2.0
"""What refuses a deploy before any node is asked: records, the recipe's promotion keys, the bundle, the site."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from derive.canonical import Digest, Json
from derive.deploy.consents import Qualified
from derive.deploy.model import Target
from derive.deploy.policy import Standing, qualified, refusals
from derive.recipes.resolved import Promotion
from derive.records.folder import sound
from derive.releases.document import Release, ReleasedShape
from derive.render.judgement import Judgement
from support.chained import MADE_S, Chained, candidate, waiver
from support.deploying import target, with_site
from support.launching import IMAGE
from support.reported import release

OTHER = Digest("9" * 64)


def released(**changes: Any) -> Release:
    """Return the release of which the target is a shape."""
    found, _ = release("demo")
    first = next(iter(found.images.values()))
    whole = {
        "images": {"linux/arm64": replace(first, digest=IMAGE)},
        "shapes": {"triangle": ReleasedShape(bundle=target().bundle.shape, deployable=True, needs=())},
    }
    return replace(found, **{**whole, **changes})


def meant(found: Release) -> Target:
    """Return the target of a release."""
    probe = target()
    return replace(probe, served=replace(probe.served, release_digest=found.digest))


def standing(
    found: Release | None = None, *, promoted: bool = True, evidence: Iterable[Json] = (), **changes: Any
) -> Standing:
    """Return how a release stands that is promoted and published, with changes."""
    made = released() if found is None else found
    chained = Chained()
    documents = {"release.json": made.encoded(), "facts.json": release("demo")[1].encoded()}
    chained.files |= {f"probe-2/{name}": data for name, data in documents.items()}
    chained.add("candidate", "probe-2", candidate(made, documents, ()))
    if promoted:
        chained.promote("probe-2", made, "triangle", evidence)
    one = Standing(
        chain=sound(chained.files),
        release=made,
        promotion=Promotion(),
        published=True,
        now_s=MADE_S + 2,
        branch="origin/main",
    )
    return replace(one, **changes)


def messages(wanted: Target, found: Standing, **more: Any) -> list[str]:
    return [one.message for one in refusals(wanted, found, **more)]


GOOD = meant(released())


def test_what_is_promoted_published_and_as_it_was_released_may_be_deployed() -> None:
    assert refusals(GOOD, standing()) == ()
    assert qualified(GOOD, standing()) == Qualified(promoted=True)


def test_what_is_not_promoted_is_for_experiments_alone() -> None:
    found = standing(promoted=False)
    assert messages(GOOD, found) == ["triangle of probe-2 is not promoted"]
    assert messages(GOOD, found, experiment=True) == []
    assert qualified(GOOD, found) == Qualified(promoted=False)


@pytest.mark.parametrize(
    ("published", "message"),
    [(False, "this record is on no named remote branch"), (None, "whether it is published is not known")],
)
def test_what_is_not_published_is_refused(published: bool | None, message: str) -> None:
    assert messages(GOOD, standing(published=published)) == [message]
    assert messages(GOOD, standing(published=published), experiment=True) == []


def test_without_a_branch_that_counts_as_published_nothing_is() -> None:
    (one,) = refusals(GOOD, standing(published=None, branch=None))
    assert one.where == "pyproject.toml: tool.derive.deploy.published-branch"
    assert messages(GOOD, standing(published=None, branch=None), experiment=True) == []


def test_a_recipe_that_does_not_let_it_be_launched_refuses_as_it_stands_now() -> None:
    (one,) = refusals(GOOD, standing(promotion=Promotion(launch_enabled=False)), experiment=True)
    assert one.where == "recipes/probe.toml: shapes.triangle.promotion.launch-enabled"
    assert one.message == "the recipe does not let it be launched"


def test_where_the_recipe_is_gone_what_was_released_says_whether_it_may_be_launched() -> None:
    resolved = replace(GOOD.bundle.resolved, promotion=Promotion(launch_enabled=False))
    then = replace(GOOD, bundle=replace(GOOD.bundle, resolved=resolved))
    assert messages(then, standing(promotion=None)) == ["the recipe does not let it be launched"]
    assert messages(then, standing()) == []


def test_another_bundle_than_was_released_is_refused() -> None:
    moved = released(shapes={"triangle": ReleasedShape(bundle=OTHER, deployable=True, needs=())})
    (one,) = refusals(meant(moved), standing(moved))
    assert one.message == "triangle renders to another bundle than was released"
    assert one.detail == (f"expected  {OTHER}", f"got       {GOOD.bundle.shape}")


def test_another_document_or_image_than_was_released_is_refused() -> None:
    served = replace(GOOD.served, release_digest=OTHER, image=OTHER)
    assert messages(replace(GOOD, served=served), standing()) == [
        "its document has another digest",
        "it has no such image",
    ]


def test_a_shape_that_cannot_be_deployed_says_why() -> None:
    unpinned = replace(GOOD, bundle=replace(GOOD.bundle, judgement=Judgement(unpinned="nobody looked")))
    assert messages(unpinned, standing()) == ["not deployable: the model is not pinned: nobody looked"]
    lacking = released(
        shapes={"triangle": ReleasedShape(bundle=GOOD.bundle.shape, deployable=False, needs=("engram-disk",))}
    )
    assert messages(meant(lacking), standing(lacking)) == [
        "triangle was not deployable when it was released: needs engram-disk"
    ]


def test_an_example_is_no_site() -> None:
    example = with_site(GOOD, replace(GOOD.bundle.site, example=True))
    (one,) = refusals(example, standing())
    assert (one.where, one.hint) == ("site:lab", "write one: derive site init")


def test_a_waiver_is_let_pass_until_it_expires_and_then_refuses() -> None:
    found = standing(evidence=[waiver("triangle", MADE_S + 10, "no third machine")])
    assert messages(GOOD, found) == []
    assert qualified(GOOD, found) == Qualified(promoted=True, waived=("no third machine",))
    assert messages(GOOD, replace(found, now_s=MADE_S + 10)) == ["a waiver of triangle has expired: no third machine"]
