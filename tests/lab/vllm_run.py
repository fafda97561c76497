# SPDX-License-Identifier: Apache-2.0
"""Derives the CPU build of vLLM with a tiny model as an image of our own, and deploys it by release at labs.

    .venv/bin/python tests/lab/vllm_run.py                     # two ranks, four, three
    .venv/bin/python tests/lab/vllm_run.py --cabling ring4     # one of them
    .venv/bin/python tests/lab/vllm_run.py --image             # derive it, and stop
    .venv/bin/python tests/lab/vllm_run.py --lock              # resolve its wishes again

It needs the CPU build of torch, which pip finds by its find-links; without that it says so and stops with exit code 3.
In a ring of four: two ranks on each pair of neighbours, then four; in a triangle, three. Of each the first release
is deployed and answers completions, the second takes its place and answers, a rollback brings the first back, and it
answers as before.

Edge: processes, namespaces, standard streams; needs root.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:1] = [str(CHECKOUT / folder) for folder in ("tests", "bench/engine", "src")]

from derive.build.engine import engine_digest  # noqa: E402 - found in the folders above
from derive.canonical import Json  # noqa: E402
from lab.everything import FAKE, RECORDS  # noqa: E402
from lab.places import Cabling  # noqa: E402
from lab.testbed import LabError, lab, why_unavailable  # noqa: E402
from lab.vllm_project import IMAGE, Built, build, lock, torch_here  # noqa: E402
from lab.vllm_site import Answer, Site, make  # noqa: E402
from lab.vllm_torch import WANTED  # noqa: E402
from speed.machine import facts_of, load  # noqa: E402
from support.cli import Ran  # noqa: E402

CABLINGS: tuple[Cabling, ...] = ("ring4", "triangle")
_LAST = 6000
"""Characters of what a command said that are shown where it failed."""
CACHE = CHECKOUT / ".cache/lab-vllm"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/lab/vllm_run.py")
    parser.add_argument("--cabling", choices=CABLINGS, action="append", default=[])
    parser.add_argument("--image", action="store_true", help="derive the image and the model, and print their places")
    parser.add_argument("--lock", action="store_true", help="resolve the project's wishes again, where they moved")
    parser.add_argument("--folder", type=Path, default=CACHE, help="holds what is fetched, laid and derived")
    parser.add_argument("--store", type=Path, help="default: store in that folder")
    return parser.parse_args()


class _Story:
    """What is done with one shape at one lab, told as it goes; ``steps`` are what was done, each with its time."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._served = site.served
        self._texts: set[str] = set()
        self.steps: list[Json] = []

    def tell(self) -> None:
        """Deploy, replace, roll back, with answers after each; stop. Raises LabError where something fails."""
        first, second = self._served.first, self._served.second
        self._do("deploy", first, lambda: self._site.deploy(first))
        self._do("replace", second, lambda: self._site.deploy(second, "--replace"))
        self._do("rollback", first, self._site.rollback)
        if len(self._texts) != 1:
            raise LabError(f"one prompt, ranks on the same machines, and other texts: {sorted(self._texts)}")

    def _do(self, step: str, release: str, act: Callable[[], Ran]) -> None:
        began = time.monotonic_ns()
        ran = act()
        took = time.monotonic_ns() - began
        if ran.code != 0:
            raise LabError(f"{step} of {release} ended with {ran.code}:\n{ran.err[-_LAST:]}")
        self._site.expect(release)
        answers = self._site.complete()
        self._texts |= {answer.text for answer in answers}
        _say(f"{self._served.shape}  {step} {release}  {took / 1e9:.1f} s  answered {answers[0].text!r}")
        told: list[Json] = [_answer(one) for one in answers]
        self.steps.append({"step": step, "release": release, "duration_ns": took, "answers": told})


def _answer(answer: Answer) -> dict[str, Json]:
    return {"text": answer.text, "tokens": answer.tokens, "duration_ns": answer.duration_ns}


def _at(cabling: Cabling, built: Built, store: Path) -> Iterator[dict[str, Json]]:
    """Build a lab, and yield how each shape went there."""
    with lab(cabling, store=store) as made:
        try:
            sites = make(made, built)
        except Exception as error:  # noqa: BLE001 - the other cabling is tried all the same
            traceback.print_exc()
            yield {"shape": cabling, "passed": False, "why": f"no site: {error}", "duration_ns": 0, "steps": []}
            return
        _say(f"{cabling}  {', '.join(made.names)} are up, with the project")
        for site in sites:
            yield _told(site)


def _told(site: Site) -> dict[str, Json]:
    story, why = _Story(site), None
    began = time.monotonic_ns()
    try:
        story.tell()
    except Exception as error:  # noqa: BLE001 - the next one is tried all the same
        why = str(error) or repr(error)
        traceback.print_exc()
        for place, text in site.said().items():
            _say(f"what {place} said last:\n{text}")
    stopped = site.stop()
    if stopped.code != 0 and why is None:
        why = f"it does not stop:\n{stopped.err[-_LAST:]}"
    took = time.monotonic_ns() - began
    shape = site.served.shape
    _say(f"{shape}  {'as it should be' if why is None else 'FAILED'}  {took / 1e9:.1f} s")
    return {"shape": shape, "passed": why is None, "why": why, "duration_ns": took, "steps": story.steps}


def _record(outcomes: list[dict[str, Json]], built: Built, before: str) -> Path:
    body: dict[str, Json] = {
        "engine": str(engine_digest()),
        "machine": dict(facts_of(Path("/var/tmp"))),
        "load": {"before": before, "after": load()},
        "fake": [*FAKE, "the model's weights"],
        "image": built.image,
        "outcomes": list(outcomes),
    }
    return RECORDS.add(CHECKOUT, "vllm", body)


def _say(text: str) -> None:
    sys.stderr.write(f"lab-vllm: {text}\n")


def main() -> int:
    """Run what is asked for."""
    args = _arguments()
    torch = torch_here(args.folder)
    if torch is None:
        _say(f"pip finds no {WANTED} for Python 3.11; where its find-links have the wheel, this target goes on")
        return 3
    store = args.store or args.folder / "store"
    if args.lock:
        lock(args.folder, store, torch)
        return 0
    before = load()
    _say(f"deriving the image {IMAGE}, where the store has it not: half a gigabyte to fetch, minutes")
    built = build(args.folder, store, torch)
    sys.stdout.write(f"image  {built.image}\nmodel  {built.model}\n")
    if args.image:
        return 0
    if (reason := why_unavailable()) is not None:
        _say(reason)
        return 3
    outcomes = [one for cabling in args.cabling or CABLINGS for one in _at(cabling, built, store)]
    if not args.cabling:
        path = _record(outcomes, built, before)
        sys.stdout.write(f"{path.relative_to(CHECKOUT)}\n")
    return int(any(not one["passed"] for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
