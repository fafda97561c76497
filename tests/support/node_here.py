# SPDX-License-Identifier: Apache-2.0
"""A node that is a set of namespaces of this machine: what is sent to it over SSH elsewhere runs in them, as root.

Edge: processes, mounts; needs root.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from derive.canonical import Digest, Json
from derive.deploy.effects import LEASE_S, make_folder, new_nonce, take_lease, this_process
from derive.deploy.lease import Fence
from derive.deploy.model import Served, Target
from derive.deploy.node_errors import EffectFailed
from derive.deploy.programs import COMMAND, payload, read_answer
from derive.deploy.remote import Node, Ran
from derive.deploy.ssh_config import SshSettings
from derive.render.launch import Launch
from derive.render.plan import LAUNCH_BUNDLE_LABEL
from derive.render.templates import Templates
from support.cgroups import wait_until
from support.launching import example_site, node_files, project_files, project_shape, rendered

LAUNCH = Digest("1a" * 32)


class NodeHere(Node):
    """``inside`` is the command that enters its namespaces, ``path`` is what comes first among its programs.

    ``engine_socket`` is where its engine listens.
    """

    def __init__(
        self, name: str, inside: Sequence[str], path: Path, engine_socket: str = "/var/run/docker.sock"
    ) -> None:
        unused: Any = None
        settings = SshSettings(files=(), engine_socket=engine_socket)
        super().__init__(name=name, rank=0, host="here", user="root", _settings=settings, _engine=unused)
        self.inside = tuple(inside)
        self.path = path

    def file(self, path: str) -> Path:
        """Return where a file of the node is seen from here."""
        (target,) = (word.partition("=")[2] for word in self.inside if word.startswith("--target="))
        return Path(f"/proc/{target}/root{path}")

    async def run(self, argv: Sequence[str], *, sudo: bool = False, stdin: bytes = b"", timeout_s: float = 60) -> Ran:
        environment = {**os.environ, "PATH": f"{self.path}:/usr/sbin:/usr/bin:/sbin:/bin"}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self.inside, *argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environment
        )
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate(stdin)
        assert process.returncode is not None
        return Ran(code=process.returncode, out=out, err=err)

    async def effect(
        self, name: str, arguments: Mapping[str, Json], *, sudo: bool = False, timeout_s: float = 60
    ) -> Json:
        ran = await self.run(COMMAND, sudo=sudo, stdin=payload(name, arguments, held=False), timeout_s=timeout_s)
        answer = read_answer(ran.out)
        assert answer is not None, ran.err.decode()
        if "refused" in answer:
            said = answer["refused"]
            raise EffectFailed(said["message"], node=self.name, effect=name, detail=said["detail"], hint=said["hint"])
        done: Json = answer["done"]
        return done


@contextlib.contextmanager
def mounted_apart(script: str) -> Iterator[tuple[str, ...]]:
    """Run a script of mounts in a mount namespace of its own; yields the command that enters it."""
    command = ["unshare", "--mount", "--fork", "--kill-child", "bash", "-ec", f"{script}; echo ready; read -r"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: children.read_text().strip())
        yield ("nsenter", f"--target={children.read_text().split()[0]}", "--mount")
    finally:
        process.kill()
        process.communicate()


def target_of(launch: Launch) -> Target:
    """Return what is to run for one launch alone, with the files that it is rendered to."""
    launch = replace(launch, labels={**launch.labels, LAUNCH_BUNDLE_LABEL: str(LAUNCH)})
    shape = project_shape("probe", "triangle")
    files = node_files(launch, example_site(shape), Templates(project_files()))
    whole = rendered(shape)
    bundle = replace(
        whole, launches=(launch,), launch=LAUNCH, files={f"{launch.node}/{path}": data for path, data in files.items()}
    )
    served = Served(
        release="probe-1",
        release_digest=LAUNCH,
        recipe=launch.recipe,
        shape=launch.shape,
        image=Digest.parse(launch.image),
        shape_bundle=bundle.shape,
        launch_bundle=LAUNCH,
    )
    return Target(served=served, bundle=bundle)


async def fence_of(node: Node, folder: str) -> Fence:
    """Take a node's lease."""
    await make_folder(node, folder)
    nonce = new_nonce()
    await take_lease(node, folder, nonce, this_process("a test"), LEASE_S)
    return Fence(folder=folder, nonce=nonce)
