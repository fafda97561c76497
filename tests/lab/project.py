# SPDX-License-Identifier: Apache-2.0
"""What the operator of a lab has on the head: a copy of this checkout's content, releases of ``probe``, a site file.

All with the product's own commands, but for one thing: a certificate is signed without building (``certificate.py``).

Edge: runs commands in a lab.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.places import HOME, OPERATOR_ID, PROJECT, SITE
from lab.testbed import Lab, LabError
from support.cli import CHECKOUT
from support.variants import CONTENT

FOLDERS = (*CONTENT, "fabric", "render")
RECIPE = "recipes/probe.toml"
FIRST, SECOND, BAD = "probe-1", "probe-2", "probe-bad"
SHAPE = {"triangle": "triangle", "ring4": "ring4"}
_KEY = "builder"
_EDITS = {
    FIRST: (),
    # Another bundle of the same image: nothing has to be moved for it.
    SECOND: (("stop = 5", "stop = 6"),),
    # Its program ends at once.
    BAD: (('"http.server"]', '"http.server", "--no-such-option"]'),),
}


@dataclass(frozen=True, slots=True)
class Project:
    """What is there to deploy: digests of releases by name, and the shape that fits the site."""

    releases: dict[str, str]
    shape: str


def make_project(lab: Lab, releases: tuple[str, ...] = (FIRST, SECOND)) -> Project:
    """Write the project, its site file and releases, each promoted for the site's shape and published."""
    place = lab.hosts[lab.head].root / PROJECT.relative_to("/")
    _copy_content(place)
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
    digests = {name: _release(lab, place, name) for name in releases}
    return Project(digests, SHAPE[lab.cabling])


def make_site(lab: Lab) -> None:
    """Write the site file from what the nodes say of themselves."""
    here = lab.hosts[lab.head].root
    facts = []
    for name in lab.names:
        said = lab.run(
            name, [sys.executable, "-P", "-m", "derive", "site", "facts"], env={"PYTHONPATH": str(CHECKOUT / "src")}
        )
        file = HOME / f"{name}.json"
        (here / file.relative_to("/")).write_text(said.answer)
        facts.append(str(file))
    lab.run(lab.head, ["mkdir", "--parents", str(SITE.parent)]).answer  # noqa: B018 - it must succeed
    lab.derive("site", "init", "--name", "lab", "--facts", *facts, str(SITE)).answer  # noqa: B018 - likewise


def _copy_content(place: Path) -> None:
    place.mkdir()
    for name in FOLDERS:
        shutil.copytree(CHECKOUT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    (place / "recipes").mkdir()
    (place / RECIPE).write_text(_recipe(()))
    shutil.copy(CHECKOUT / "pyproject.toml", place)
    for path in (place, *place.rglob("*")):
        os.chown(path, OPERATOR_ID, OPERATOR_ID)


def _trust(lab: Lab, place: Path) -> None:
    key = lab.derive("key", "new", _KEY).answer
    lines = (
        "[tool.derive.trust]", "threshold = 1",
        f'builders = ["{_KEY}"]', "", "[tool.derive.trust.keys]", f'{_KEY} = "{key}"', "",
    )  # fmt: skip
    with (place / "pyproject.toml").open("a") as file:
        file.write("\n" + "\n".join(lines))
    _publish(lab, "a project")


def _release(lab: Lab, place: Path, name: str) -> str:
    (place / RECIPE).write_text(_recipe(_EDITS[name]))
    _publish(lab, f"what {name} is")
    digest = lab.derive("release", name, "--recipe", "probe", "--platform", "linux/amd64", "--offline").answer
    program = CHECKOUT / "tests/lab/certificate.py"
    settings = {"PYTHONPATH": str(CHECKOUT / "src")}
    lab.run(lab.head, [sys.executable, "-P", str(program), name, _KEY], cwd=PROJECT, env=settings).answer  # noqa: B018
    _publish(lab, f"{name} is released")
    lab.derive("promote", name, "--shape", SHAPE[lab.cabling], "--certified").answer  # noqa: B018 - it must succeed
    _publish(lab, f"{name} is promoted")
    return digest


def _recipe(edits: tuple[tuple[str, str], ...]) -> str:
    """Return the recipe with edits, for this machine's platform.

    Nodes share two cores here, and a guard waits while all containers before its own start.
    """
    text = (CHECKOUT / RECIPE).read_text()
    platform = ('default-shape = "ring4"\n', 'default-shape = "ring4"\nplatform = "linux/amd64"\n')
    for old, new in (platform, ("wait = 10", "wait = 40"), *edits):
        if old not in text:
            raise LabError(f"{RECIPE} has no {old!r}")
        text = text.replace(old, new)
    return text


def _publish(lab: Lab, message: str) -> None:
    _git(lab, "add", "--all")
    _git(lab, "commit", "--quiet", "--allow-empty", "--message", message)
    _git(lab, "push", "--quiet", "origin", "main")


def _git(lab: Lab, *arguments: str, cwd: Path = PROJECT) -> str:
    return lab.run(lab.head, ["git", *arguments], cwd=cwd).answer
