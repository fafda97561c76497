# SPDX-License-Identifier: Apache-2.0
"""What became of releases, and what may be deployed of them."""

from __future__ import annotations

from derive.records.chain import Chain, read_chain
from derive.releases.document import read_release
from derive.releases.listing import document_of, rows_of, table_of
from derive.releases.policy import date_text, may_deploy
from derive.releases.state import open_waivers, shape_state
from support.chained import MADE_S, Chained, two_releases, waiver

NOW = MADE_S + 100


def chain_of(chained: Chained) -> Chain:
    return read_chain(chained.files)


def state(chained: Chained, name: str, shape: str) -> str:
    chain = chain_of(chained)
    candidate = chain.candidate(name)
    assert candidate is not None
    return shape_state(chain, candidate, shape).state


def deploy(chained: Chained, name: str, shape: str, *, published: bool | None = True, now: int = NOW) -> list[str]:
    return [one.message for one in may_deploy(chain_of(chained), name, shape, now_s=now, published=published)]


def promoted(*evidence: int) -> Chained:
    """Return a chain of a promoted release; ``evidence`` are the times at which waivers expire."""
    chained = Chained()
    found, _ = chained.release("demo-1")
    chained.promote("demo-1", found, "ring", [waiver("ring", expires) for expires in evidence])
    return chained


def test_a_shape_is_a_candidate_then_promoted_then_retired() -> None:
    chained = Chained()
    found, _ = chained.release("demo-1")
    assert state(chained, "demo-1", "ring") == "candidate"
    chained.promote("demo-1", found, "ring")
    assert state(chained, "demo-1", "ring") == "promoted"
    assert state(chained, "demo-1", "triangle") == "candidate"
    chained.retire("demo-1", "ring")
    assert state(chained, "demo-1", "ring") == "retired"
    assert state(chained, "demo-1", "triangle") == "candidate"


def test_a_release_that_is_retired_has_no_shape_that_is_not() -> None:
    chained = promoted()
    chained.retire("demo-1")
    assert {state(chained, "demo-1", shape) for shape in ("ring", "triangle")} == {"retired"}


def test_a_shape_that_is_promoted_again_is_no_longer_retired() -> None:
    chained = promoted()
    chained.retire("demo-1", "ring")
    chained.promote("demo-1", read_release(chained.files["demo-1/release.json"]), "ring")
    assert state(chained, "demo-1", "ring") == "promoted"


def test_a_waiver_is_open_until_a_promotion_without_it() -> None:
    chained = Chained()
    found, _ = chained.release("demo-1", evidence=[waiver("ring", NOW), waiver("triangle", NOW)])
    chain = chain_of(chained)
    assert [one.expires_s for one in open_waivers(chain, "demo-1", "ring")] == [NOW]
    chained.promote("demo-1", found, "ring", [waiver("ring", NOW + 1)])
    assert [one.expires_s for one in open_waivers(chain_of(chained), "demo-1", "ring")] == [NOW + 1]
    chained.promote("demo-1", found, "ring")
    assert open_waivers(chain_of(chained), "demo-1", "ring") == ()
    assert len(open_waivers(chain_of(chained), "demo-1", "triangle")) == 1


def test_what_is_promoted_and_published_may_be_deployed() -> None:
    assert deploy(promoted(), "demo-1", "ring") == []
    assert deploy(promoted(NOW + 1), "demo-1", "ring") == []


def test_what_is_not_promoted_retired_or_unknown_may_not() -> None:
    assert deploy(promoted(), "demo-1", "triangle") == ["triangle of demo-1 is not promoted"]
    assert deploy(two_releases(), "demo-1", "ring") == ["ring of demo-1 is retired: a node hung"]
    assert deploy(promoted(), "demo-7", "ring") == ["no release is called 'demo-7'"]


def test_what_is_not_published_or_nobody_knows_may_not() -> None:
    assert deploy(promoted(), "demo-1", "ring", published=False) == ["this record is on no named remote branch"]
    assert deploy(promoted(), "demo-1", "ring", published=None) == ["whether it is published is not known"]


def test_a_waiver_that_has_expired_holds_a_deploy_up() -> None:
    chained = promoted(NOW)
    (problem,) = may_deploy(chain_of(chained), "demo-1", "ring", now_s=NOW, published=True)
    assert problem.message == "a waiver of ring has expired: no machine at hand"
    assert problem.detail == (f"expired   {date_text(NOW)}",)
    assert deploy(chained, "demo-1", "ring", now=NOW - 1) == []


def test_an_experiment_needs_only_a_release() -> None:
    chain = chain_of(two_releases())
    assert may_deploy(chain, "demo-1", "ring", "experiment", now_s=NOW, published=None) == []
    assert len(may_deploy(chain, "demo-9", "ring", "experiment", now_s=NOW, published=None)) == 1


def test_the_table_says_state_images_and_until_when_something_is_waived() -> None:
    chained = promoted(NOW, NOW + 86400 * 9)
    found = read_release(chained.files["demo-1/release.json"])
    chain = chain_of(chained)
    rows = rows_of(chain, {"demo-1": found}, lambda *one: may_deploy(chain, *one, now_s=NOW, published=True))
    _, ring, triangle = table_of(rows, NOW)
    images = " ".join(f"{one[6:]}:{image.digest.short}" for one, image in sorted(found.images.items()))
    until = f"{date_text(NOW - 1)}, expired"
    checked = chain.of("demo-1", "promoted")[-1].record.body["image"]
    (one,) = (f"{one[6:]}:{image.digest.short}" for one, image in found.images.items() if str(image.digest) == checked)
    assert ring == ("demo-1", "demo", "ring", "promoted", one, until, date_text(MADE_S + 1)), (
        "the image that was checked"
    )
    assert triangle[3:5] == ("candidate, not deployable", images)
    whole = table_of(rows, NOW, reasons=True)
    assert [row[-1] for row in whole[2:]] == ["triangle of demo-1 is not promoted"]
    assert whole[1][-1].startswith("a waiver of ring has expired")
    body = document_of(rows, None, NOW)
    assert isinstance(body["releases"], list)
    assert len(body["releases"]) == 2


def test_no_hint_of_the_policy_names_an_option_that_no_command_has() -> None:
    chains = (promoted(NOW), two_releases())
    found = [
        problem
        for chained in chains
        for shape in ("ring", "triangle")
        for published in (True, False, None)
        for problem in may_deploy(chain_of(chained), "demo-1", shape, now_s=NOW, published=published)
    ]
    options = {word for one in found for word in str(one.hint).split() if word.startswith("--")}
    assert options == {"--shape", "--check"}
