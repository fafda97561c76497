# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from derive.canonical import Digest, Json, encode, sha256
from derive.certificates.order import last_before, order_of
from derive.errors import Problem
from derive.promotion.part import NotPromoted, Part, joined
from derive.promotion.requirements import (
    certified_part,
    chain_part,
    checked_part,
    image_asked,
    other_platforms,
    release_part,
    shape_part,
)
from derive.recipes.deployable import Missing
from derive.recipes.resolved import Promotion
from derive.records.chain import Chain, read_chain
from derive.records.model import record
from derive.releases.document import Release, ReleasedEngine, ReleasedImage, ReleasedShape
from derive.releases.shapes import Judged
from derive.render.judgement import Judgement
from support.certificates import ANN, BEN, OTHER, certificate, held, host, standing
from support.doctoring import sound

BUNDLE = sha256(b"bundle")
IMAGE = ReleasedImage(name="image", digest=sha256(b"image"), derivation=sha256(b"derivation"))


def release(**shapes: ReleasedShape) -> Release:
    return Release(
        recipe="small",
        recipe_digest=sha256(b"recipe"),
        images={"linux/arm64": IMAGE, "linux/amd64": IMAGE},
        build_platform="linux/amd64",
        default_image="image",
        lock={},
        content={},
        recipes={},
        model=None,
        shapes=shapes or {"four": ReleasedShape(bundle=BUNDLE, deployable=True, needs=())},
        engine=ReleasedEngine(digest=sha256(b"e"), version="1", source=sha256(b"s"), derivations={}),
    )


def judged(judgement: Judgement | None = None, **changes: object) -> Judged:
    resolved = replace(sound().shapes[0], **changes)  # type: ignore[arg-type]
    return Judged(resolved=resolved, judgement=judgement or Judgement())


def chain(*bodies: tuple[str, Mapping[str, Json]]) -> Chain:
    files: dict[str, bytes] = {}
    head: Digest | None = None
    for number, (kind, body) in enumerate(bodies, 1):
        document = record(kind, "r-1", body, head)
        files[f"{number:04d}-r-1-{number}.json"] = encode(document) + b"\n"
        head = sha256(encode(document))
    return read_chain(files)


def messages(part: Part) -> list[str]:
    return [one.message for one in part.problems]


def test_a_chain_that_was_edited_stands_against_every_promotion() -> None:
    problem = Problem(where="records/releases/0001-r.json", message="edited since it was written")
    assert chain_part([problem]).problems == (problem,)
    assert chain_part([]).problems == ()


@pytest.mark.parametrize("shape", [None, "four"])
def test_what_was_retired_is_promoted_again_only_where_all_is_asked(shape: str | None) -> None:
    retired: Mapping[str, Json] = {"release": "r-1", "shape": shape, "by": "a", "why": "slow", "retired_s": 1}
    said = f"r-1 was retired{'' if shape is None else ' for four'}"
    part = release_part(chain(("retired", retired)), "r-1", release(), "four")
    assert part.problems == ()
    assert part.checked == (f"{said}, in 0001-r-1-1.json: slow; this promotion takes that back for four",)
    part = release_part(chain(("retired", retired)), "r-1", release(), "four", whole=False)
    assert messages(part) == [said]
    assert part.problems[0].detail == ("why       slow",)
    other = chain(("retired", {**retired, "shape": "three"}))
    assert release_part(other, "r-1", release(), "four", whole=False) == Part()


def test_a_shape_that_the_release_has_not_is_named_with_the_nearest() -> None:
    (problem,) = release_part(chain(), "r-1", release(), "fuor").problems
    assert (problem.message, problem.hint) == ("the release has no shape 'fuor'", "did you mean four?")


def test_a_shape_that_is_rendered_as_recorded_and_can_be_deployed_is_well() -> None:
    part = shape_part(release(), "four", judged(), BUNDLE)
    assert part.problems == ()
    assert "the model is pinned" in part.checked


def test_everything_against_a_shape_is_said_at_once() -> None:
    lacking = Judgement(missing=(Missing(capability="engram-disk", because="memory.engram = disk"),), unpinned="nobody")
    part = shape_part(release(), "four", judged(lacking, promotion=Promotion(launch_enabled=False)), sha256(b"another"))
    assert messages(part) == [
        "not deployable: needs engram-disk (memory.engram = disk)",
        "not deployable: the model is not pinned: nobody",
        "the recipe does not let it be launched",
        "the shape bundle is not rendered as it was recorded",
    ]
    assert part.checked == ()
    assert all(one.hint for one in part.problems)


def test_what_was_not_deployable_when_it_was_released_is_not_promoted() -> None:
    then = release(four=ReleasedShape(bundle=BUNDLE, deployable=False, needs=("engram-disk",)))
    assert messages(shape_part(then, "four", judged(), BUNDLE)) == [
        "was not deployable when it was released: needed engram-disk"
    ]


def test_without_any_proof_of_the_image_both_ways_to_one_are_named() -> None:
    (problem,) = image_asked("r-1", "linux/arm64").problems
    assert "--check" in str(problem.hint)
    assert "--certified" in str(problem.hint)


def test_an_image_that_comes_out_otherwise_here_or_the_second_time_stands_against_it() -> None:
    well = checked_part(IMAGE, "linux/arm64", IMAGE.digest, 7, [], same_engine=True)
    assert (well.problems, well.unchecked) == ((), ())
    assert checked_part(IMAGE, "linux/arm64", IMAGE.digest, 7, [], same_engine=False).unchecked
    wrong = checked_part(IMAGE, "linux/arm64", OTHER, 7, [f"differs   {n}" for n in range(9)], same_engine=True)
    assert messages(wrong) == ["derived here, it is another image", "9 outputs came out otherwise the second time"]
    assert wrong.problems[1].detail[-1] == "and 4 more"


def test_too_few_builders_and_one_who_contradicts_stand_against_it() -> None:
    enough = [held(certificate(host("one")), ANN), held(certificate(host("two")), BEN)]
    assert certified_part(standing(*enough), "r-1", 2).problems == ()
    assert messages(certified_part(standing(enough[0]), "r-1", 2)) == ["not certified by 2 builders on unlike hosts"]
    (alarm,) = certified_part(standing(*enough, held(certificate(host("x"), OTHER), ANN)), "r-1", 2).problems
    assert alarm.message.startswith("a builder contradicts the release")


@pytest.mark.parametrize(("threshold", "lowered"), [(1, False), (2, False), (3, True)])
def test_fewer_builders_than_the_projects_threshold_are_told_as_unchecked(threshold: int, lowered: bool) -> None:
    enough = [held(certificate(host("one")), ANN), held(certificate(host("two")), BEN)]
    unchecked = certified_part(standing(*enough), "r-1", threshold).unchecked
    assert (f"the project's threshold of {threshold} was lowered to 2" in unchecked) is lowered


def test_images_that_the_shape_does_not_run_are_told_as_unchecked() -> None:
    assert other_platforms(release(), "linux/arm64").unchecked == (
        "the image of linux/amd64: the shape does not run it",
    )


def test_requirements_are_joined_in_their_order() -> None:
    first, second = (Part(problems=(Problem(where=name, message="m"),), checked=(name,)) for name in "ba")
    found = joined([first, second])
    assert ([one.where for one in found.problems], found.checked) == (["b", "a"], ("b", "a"))
    assert NotPromoted("x is not promoted", found.problems).message == "x is not promoted: 2 things are missing"


# What the chain says of early and late


def test_a_certificate_is_as_old_as_the_first_record_that_names_it() -> None:
    one, two = (str(sha256(text)) for text in (b"1", b"2"))
    found = chain(("candidate", {}), ("promoted", {"certificates": [one]}), ("promoted", {"certificates": [one, two]}))
    order = order_of(found)
    assert order.named == {Digest.parse(one): 2, Digest.parse(two): 3}
    assert sorted(order.numbers.values()) == [1, 2, 3]


def test_the_last_record_before_a_day_ends_at_the_first_that_is_not_before_it() -> None:
    found = chain(("a", {"made_s": 10}), ("b", {}), ("c", {"promoted_s": 30}), ("d", {"made_s": 5}))
    digests = [entry.digest for entry in found.entries]
    assert last_before(found, 30) == digests[1]
    assert last_before(found, 10) is None
    assert last_before(found, None) == digests[3]
    assert last_before(chain(), None) is None
