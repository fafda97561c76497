# SPDX-License-Identifier: Apache-2.0
"""What a lab's operator has to deploy a tiny model: its project, releases, the model's files on every node.

Edge: runs commands in a lab, writes into its nodes.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from lab.places import HOME, OPERATOR_ID, PROJECT, Cabling, address
from lab.project import _KEY, _git, _publish, _trust, make_site
from lab.testbed import Lab, LabError
from lab.vllm_project import PLATFORM, REPOSITORY, Built
from support.cli import CHECKOUT, Ran

PORT: Final = 8000
MODEL_NAME: Final = "tiny"
PROMPT: Final = "You may add Your own copyright"
WORDS: Final = 24
_LONGEST_S = 2400
_LINES = 60
_MODELS = HOME / ".cache/huggingface/hub"
_EDIT = ("stop = 20", "stop = 21")
"""The second release is another bundle of the same image: nothing has to be moved for it."""
_ASK = """
import json, sys, urllib.request
request = urllib.request.Request(sys.argv[1], sys.argv[2].encode(), {"Content-Type": "application/json"})
sys.stdout.write(urllib.request.urlopen(request, timeout=120).read().decode())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A shape of a recipe that is deployed: ``everywhere`` says whether each node answers, or the head alone.

    What serves by the recipe's vLLM cannot be promoted: that asks for a ledger of memory, which knows one kind of model
    and not this. It is deployed as an experiment. A plain service is promoted, with a waiver of measurements.
    """

    recipe: str
    shape: str
    cabling: Cabling
    everywhere: bool
    is_promoted: bool

    @property
    def consents(self) -> tuple[str, ...]:
        """What a deploy of it has to be told."""
        return ("--unqualified-shape",) if self.is_promoted else ("--unqualified-shape", "--experiment")

    @property
    def first(self) -> str:
        """The release that is deployed first."""
        return f"{self.recipe}-1"

    @property
    def second(self) -> str:
        """The release that takes its place."""
        return f"{self.recipe}-2"


SERVED: Final = (
    Served(recipe="pairs", shape="tp2-pairs", cabling="ring4", everywhere=True, is_promoted=True),
    Served(recipe="tiny", shape="tp4-ring", cabling="ring4", everywhere=False, is_promoted=False),
    Served(recipe="tiny", shape="tp3-triangle", cabling="triangle", everywhere=False, is_promoted=False),
)
"""Ranks of two, four and three machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A completion: its text, how many tokens it has, and the nanoseconds that it took."""

    text: str
    tokens: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Site:
    """A lab with the project on its head, and what is deployed at it."""

    lab: Lab
    served: Served

    def deploy(self, release: str, *more: str) -> Ran:
        """Deploy a release by name."""
        return self.lab.derive(
            "deploy",
            release,
            "--shape",
            self.served.shape,
            "--apply",
            *self.served.consents,
            *more,
            timeout_s=_LONGEST_S,
        )

    def rollback(self) -> Ran:
        """Go back to the release before."""
        return self.lab.derive("rollback", self.served.recipe, "--apply", *self.served.consents, timeout_s=_LONGEST_S)

    def stop(self) -> Ran:
        """Stop the service."""
        return self.lab.derive("stop", self.served.recipe, "--apply", timeout_s=_LONGEST_S)

    def said(self) -> dict[str, str]:
        """Return the last lines of every container of the service, by node and name."""
        found = {}
        for name in self.lab.names:
            with self.lab.engine(name) as client:
                for one in client.containers.list(all=True, filters={"name": self.served.recipe}):
                    found[f"{name} {one.name}"] = one.logs(tail=_LINES).decode(errors="replace")
        return found

    def complete(self) -> tuple[Answer, ...]:
        """Ask each node that answers for a completion, from the head; raises LabError where one does not."""
        nodes = self.lab.names if self.served.everywhere else self.lab.names[:1]
        return tuple(map(self._completion, nodes))

    def _completion(self, node: str) -> Answer:
        url = f"http://{address(node)}:{PORT}/v1/completions"
        body = {"model": MODEL_NAME, "prompt": PROMPT, "max_tokens": WORDS, "temperature": 0}
        began = time.monotonic_ns()
        said = self.lab.run(self.lab.head, ["python3", "-c", _ASK, url, json.dumps(body)])
        took = time.monotonic_ns() - began
        if said.code != 0:
            raise LabError(f"no completion of {node}: {said.err.strip().splitlines()[-1:]}")
        found = json.loads(said.out)
        return Answer(text=found["choices"][0]["text"], tokens=found["usage"]["completion_tokens"], duration_ns=took)

    def status(self) -> dict[str, Any]:
        """Return what ``derive status`` says of the service."""
        said = self.lab.derive("status", self.served.recipe, "--json")
        if said.code not in {0, 1}:
            raise LabError(said.err)
        (service,) = json.loads(said.out)["body"]["services"]
        assert isinstance(service, dict)
        return service

    def expect(self, release: str) -> None:
        """Hold that a release serves on every node, each with its rank; raises LabError where it does not."""
        found = self.status()
        situation = found["situation"]
        if situation["kind"] != "serving" or situation["served"]["release"] != release or not found["well"]:
            raise LabError(f"{release} does not serve well: {situation}, {found['amiss']}")
        for rank, name in enumerate(self.lab.names):
            with self.lab.engine(name) as client:
                running = client.containers.list(filters={"name": f"^{self.served.recipe}$"})
                ranks = [one.labels.get("io.derive.rank") for one in running]
                if ranks != [str(rank)]:
                    raise LabError(f"{name} runs ranks {ranks}, and is rank {rank}")


def make(lab: Lab, built: Built) -> tuple[Site, ...]:
    """Write project, site file, model and all releases of the cabling, published."""
    place = lab.hosts[lab.head].root / PROJECT.relative_to("/")
    shutil.copytree(built.project, place)
    _own(place)
    _git(lab, "init", "--quiet", "--bare", str(HOME / "origin.git"), cwd=HOME)
    for argv in (
        ("init", "--quiet", "--initial-branch", "main"),
        ("config", "user.name", "operator"),
        ("config", "user.email", "operator@example.org"),
        ("remote", "add", "origin", str(HOME / "origin.git")),
    ):
        _git(lab, *argv)
    _trust(lab, place)
    make_site(lab)
    _place_model(lab, built)
    sites = tuple(Site(lab, one) for one in SERVED if one.cabling == lab.cabling)
    for site in sites:
        _release(site, built, place, site.served.first, ("", ""))
        _release(site, built, place, site.served.second, _EDIT)
    return sites


def revision_of(built: Built) -> str:
    """Return the revision that the project's lock names; raises LabError where its files are not those derived."""
    document = json.loads((built.project / "lock/model.lock.json").read_text())
    (entry,) = document["entries"]
    sizes = {one["path"]: one["size"] for one in entry["files"]}
    there = {path.name: path.stat().st_size for path in built.model.iterdir()}
    if sizes != there:
        raise LabError(f"the model is another than the locked one: {there}, locked {sizes} (make lab-vllm ARGS=--lock)")
    return str(entry["revision"])


def _place_model(lab: Lab, built: Built) -> None:
    """Lay the model on every node, as Hugging Face's cache has a revision."""
    revision = revision_of(built)
    for name in lab.names:
        top = lab.hosts[name].root / _MODELS.relative_to("/") / f"models--{REPOSITORY.replace('/', '--')}"
        shutil.copytree(built.model, top / "snapshots" / revision)
        (top / "refs").mkdir()
        (top / "refs/main").write_text(revision)
        home = lab.hosts[name].root / HOME.relative_to("/")
        _own(home / ".cache")


def _release(site: Site, built: Built, place: Path, name: str, edit: tuple[str, str]) -> None:
    lab, recipe = site.lab, site.served.recipe
    file = f"recipes/{recipe}.toml"
    old, new = edit
    text = (built.project / file).read_text()
    if old not in text:
        raise LabError(f"{file} has no {old!r}")
    (place / file).write_text(text.replace(old, new))
    _publish(lab, f"what {name} is")
    lab.derive("release", name, "--recipe", recipe, "--platform", PLATFORM, "--offline").answer  # noqa: B018 - it must succeed
    program = CHECKOUT / "tests/lab/certificate.py"
    settings = {"PYTHONPATH": str(CHECKOUT / "src")}
    lab.run(lab.head, [sys.executable, "-P", str(program), name, _KEY], cwd=PROJECT, env=settings).answer  # noqa: B018
    _publish(lab, f"{name} is released")
    if not site.served.is_promoted:
        return
    facts = [str(HOME / f"{node}.json") for node in lab.names]
    until = (datetime.now(UTC).date() + timedelta(days=30)).isoformat()
    waiver = ("--waive", "weights are arbitrary: there is nothing to measure", "--expires", until)
    promote = ("promote", name, "--shape", site.served.shape, "--certified", "--facts", *facts, *waiver)
    lab.derive(*promote).answer  # noqa: B018 - it must succeed
    _publish(lab, f"{name} is promoted")


def _own(folder: Path) -> None:
    """Give a folder and all below it to the operator, who may change it."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, OPERATOR_ID, OPERATOR_ID)
        path.chmod(0o755 if path.is_dir() else 0o644)
