# SPDX-License-Identifier: Apache-2.0
"""What scenarios do and see at a lab: deploys that go on or are cut off, and what runs, asked past the product.

Edge: runs commands in a lab, asks its engines.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from derive.canonical import Json
from lab.host import Running
from lab.project import FIRST, SECOND, Project
from lab.testbed import Lab, LabError
from support.cli import Ran

Facts = dict[str, Json]
"""What of a scenario is worth recording."""
SERVICE: Final = "probe"
PORT: Final = 8080
LABEL: Final = "io.derive.launch-bundle"
FOLDER: Final = Path("/var/lib/derive")
STEPS: Final = (
    "lease", "facts", "preflight", "distribute", "stage", "stop", "activate", "arm", "start", "ready", "steady",
    "observe", "record",
)  # fmt: skip
"""In which order a deploy takes its steps; up to ``stage``, what serves goes on serving."""
UNTOUCHED: Final = STEPS[: STEPS.index("stop")]
_ASK = (
    f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{PORT}/manifest.json', timeout=3).read().decode())"
)


@dataclass(slots=True)
class Cut:
    """A command that was watched: the lines that it wrote, and its exit code."""

    code: int
    lines: list[str]

    @property
    def text(self) -> str:
        """All that it wrote."""
        return "\n".join(self.lines)


@dataclass(frozen=True, slots=True)
class Scene:
    """A lab with its project."""

    lab: Lab
    project: Project

    def command(self, release: str, *more: str) -> tuple[str, ...]:
        """Return the arguments of a deploy that is carried out."""
        return ("deploy", release, "--shape", self.project.shape, "--apply", *more)

    def deploy(self, release: str, *more: str) -> Ran:
        """Deploy a release, in place of whatever serves."""
        return self.lab.derive(*self.command(release, "--replace", *more))

    def status(self) -> dict[str, Any]:
        """Return what ``derive status`` says of the service."""
        said = self.lab.derive("status", SERVICE, "--json")
        assert said.code in {0, 1, 3}, said.err
        (service,) = json.loads(said.out)["body"]["services"]
        assert isinstance(service, dict)
        return service

    def kind(self) -> str:
        """Return in one word what the site is in."""
        return str(self.status()["situation"]["kind"])

    def launches(self, nodes: Iterable[str] | None = None) -> dict[str, str | None]:
        """Return the launch of the service's running container on each node, as the engines say; None: none runs."""
        found: dict[str, str | None] = {}
        for name in nodes or self.lab.names:
            with self.lab.engine(name) as client:
                there = client.containers.list(filters={"name": f"^{SERVICE}$"})
                found[name] = str(there[0].labels.get(LABEL)) if there else None
        return found

    def answers(self, node: str) -> bool:
        """Say whether the service answers on a node with the manifest of the launch that its container has."""
        said = self.lab.run(node, ["python3", "-c", _ASK])
        return said.code == 0 and str(self.launches([node])[node]) in said.out

    def expect(self, release: str) -> None:
        """Hold that a release serves on every node: by status, by the engines, and by an answer of each."""
        found = self.status()
        situation = found["situation"]
        assert situation["kind"] == "serving", situation
        assert situation["served"]["release"] == release, situation
        assert found["well"], found["amiss"]
        launches = self.launches()
        assert set(launches.values()) == {situation["served"]["launch-bundle"]}, launches
        for name in self.lab.names:
            assert self.answers(name), f"{name} does not answer"

    def settle(self, release: str = FIRST) -> None:
        """Bring a release up, whatever the site is in; nothing is done where it serves already."""
        said = self.lab.derive("status", SERVICE, "--json")
        if said.code == 0:
            services = json.loads(said.out)["body"]["services"]
            if services and _serves(services[0]["situation"]) == release:
                return
        self.deploy(release, "--change-shape").answer  # noqa: B018 - it must succeed

    def watched(self, running: Running, act: Callable[[str], bool], timeout_s: float = 240) -> Cut:
        """Read a command's lines until it ends, and give each to ``act`` until that has said once that it acted."""
        lines, done = [], False
        stream = running.process.stdout
        assert stream is not None
        deadline = time.monotonic() + timeout_s
        with stream:
            for raw in stream:
                line = raw.decode(errors="replace").rstrip()
                lines.append(line)
                if not done:
                    done = act(line)
                if time.monotonic() > deadline:
                    running.signal(signal.SIGKILL)
                    raise LabError("the command does not end:\n" + "\n".join(lines[-20:]))
        cut = Cut(running.process.wait(timeout=60), lines)
        assert done, f"the command ended before it was cut off:\n{cut.text}"
        return cut

    def at_step(self, step: str, act: Callable[[], None], release: str = SECOND, *more: str) -> Cut:
        """Deploy a release, and act as soon as the deploy first tells of a step."""
        running = self.lab.start(*self.command(release, "--replace", *more))

        def look(line: str) -> bool:
            words = line.partition("] ")[2].split()
            if len(words) > 1 and words[1] == step and line.startswith("["):
                act()
                return True
            return False

        return self.watched(running, look)

    def killed_at(self, step: str, release: str = SECOND, *more: str) -> Cut:
        """Deploy a release, and kill the deploy with -9 as soon as it first tells of a step."""
        running = self.lab.start(*self.command(release, "--replace", *more))

        def look(line: str) -> bool:
            words = line.partition("] ")[2].split()
            if len(words) > 1 and words[1] == step and line.startswith("["):
                running.signal(signal.SIGKILL)
                return True
            return False

        return self.watched(running, look)

    def start_foreign(self, node: str, name: str = SERVICE, restart: str = "no") -> None:
        """Run a container that no deploy started, of the service's name if not said, with the guard of such a one."""
        listed = "docker image ls --digests --format '{{.Repository}}@{{.Digest}}' | head -1"
        reference = self.by_hand(node, listed).answer
        # Python is its first process, which TERM ends only where that is asked for.
        serve = (
            "import http.server as h, signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit());"
            f" h.test(h.SimpleHTTPRequestHandler, port={PORT})"
        )
        start = (
            f"docker rm -f {SERVICE} 2>/dev/null || true; docker run --detach --name {name} --restart {restart}"
            f" --network host --entrypoint /usr/bin/python3.13 {reference} -c '{serve}' --port {PORT};"
            f" systemd-run --unit={name}-memguard -- sleep 100000"
        )
        self.end_foreign(node, name)
        self.by_hand(node, start).answer  # noqa: B018 - it must succeed

    def end_foreign(self, node: str, name: str = SERVICE) -> None:
        """Take away what is left of such a container, and its guard; not what runs under the service's name."""
        gone = f"{name}-before-derive" if name == SERVICE else f"{name} {name}-before-derive"
        # A deploy that brought it back has written the guard's unit into a file: systemd had forgotten it.
        unit = f"{name}-memguard.service"
        ended = (
            f"docker rm -f {gone} || true; systemctl stop {unit} || true;"
            f" rm -f /run/systemd/system/{unit}; systemctl daemon-reload; systemctl reset-failed {unit} || true"
        )
        self.by_hand(node, ended).answer  # noqa: B018 - it must succeed

    def guards_foreign(self, node: str, name: str = SERVICE) -> bool:
        """Say whether that guard is active."""
        asked = f"systemctl is-active {name}-memguard.service || true"
        return self.by_hand(node, asked).answer == "active"

    def expect_foreign(self, node: str) -> None:
        """Hold that such a container runs below its guard."""
        shown = "docker inspect --format '{{.State.Running}} {{json .Config.Labels}}' " + SERVICE
        back = self.by_hand(node, shown).answer
        assert back.startswith("true "), back
        assert "io.derive.launch" not in back, back
        assert self.guards_foreign(node), "its guard is not at work"

    def link(self, node: str) -> str | None:
        """Return to which launch a node's link leads; None where there is none."""
        path = self.lab.hosts[node].root / FOLDER.relative_to("/") / SERVICE / "current"
        try:
            return path.readlink().name
        except OSError:
            return None

    def by_hand(self, node: str, script: str, user: str = "root") -> Ran:
        """Do something on a node as a person would, past the product."""
        return self.lab.run(node, ["bash", "-euc", script], user=user)


def _serves(situation: Mapping[str, Any]) -> str | None:
    return str(situation["served"]["release"]) if situation["kind"] == "serving" else None
