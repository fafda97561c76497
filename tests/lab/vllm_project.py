# SPDX-License-Identifier: Apache-2.0
"""The project that serves a tiny model by vLLM: laid out whole, locked, derived.

``tests/lab/vllm`` holds what is its own. What it shares with this repository is laid beside that: templates, examples
of sites, the memory guard, and the programs that read what a vLLM takes.

Edge: files, commands, loopback servers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.vllm_torch import find_torch, index_with, offer
from support.cli import CHECKOUT, Ran, derive
from support.hf_server import HfServer, Repo

OWN: Final = CHECKOUT / "tests/lab/vllm"
IMAGE: Final = "vllm-cpu"
MODEL: Final = "tiny-llama"
REPOSITORY: Final = "lab/tiny-llama"
PLATFORM: Final = "linux/amd64"
MINUTES_S: Final = 3600
_SHARED: Final = ("render", "fabric/examples", "derivations/memguard")
_LARGE: Final = frozenset({"model.safetensors"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What was derived: the laid project, the image's digest as text, the folder with the model's files."""

    project: Path
    image: str
    model: Path


def lay(folder: Path) -> Path:
    """Write the whole project into a folder, in place of whatever is there, and return it."""
    if folder.exists():
        shutil.rmtree(folder)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(OWN, folder, ignore=ignore)
    for name in _SHARED:
        shutil.copytree(CHECKOUT / name, folder / name, ignore=ignore)
    shutil.copy(CHECKOUT / "derivations/memguard.toml", folder / "derivations")
    for program in (CHECKOUT / "derivations/ds41f-schema").glob("*.py"):
        shutil.copy(program, folder / "derivations/vllm-cpu-schema")
    return folder


def build(folder: Path, store: Path, torch: Path) -> Built:
    """Derive the image, what its vLLM takes, and the model; ``torch`` is offered by hash to whoever asks for it."""
    project = lay(folder / "project")
    there = os.environ.get("DERIVE_ARCHIVES", "")
    settings = {"DERIVE_ARCHIVES": f"{offer(torch, folder / 'archive')} {there}".strip()}

    def run(*arguments: str) -> str:
        where = ("--project", str(project), "--store", str(store))
        return derive(*arguments, *where, env=settings, timeout_s=MINUTES_S).answer

    image = run("image", IMAGE, "--platform", PLATFORM)
    run("schema", IMAGE, "--write")
    return Built(project=project, image=image, model=Path(run("build", MODEL, "--path")))


def lock(folder: Path, store: Path, torch: Path) -> None:
    """Resolve the wishes again where they moved: torch from an index and the model from a hub of this process's own."""
    project = ("--project", str(OWN), "--store", str(store))
    with index_with(torch) as index:
        # An index of its own contents is asked first, and of a project that it has, it alone.
        indices = f"{os.environ.get('PIP_EXTRA_INDEX_URL', '')} {index}".strip()
        _done(derive("lock", "bookworm", "vllm", *project, env={"PIP_EXTRA_INDEX_URL": indices}, timeout_s=MINUTES_S))
    laid = lay(folder / "project")
    where = ("--project", str(laid), "--store", str(store))
    model = Path(derive("build", MODEL, "--path", *where, timeout_s=MINUTES_S).answer)
    files = {path.name: path.read_bytes() for path in sorted(model.iterdir())}
    commit = _commit(files)
    hub = HfServer()
    hub.repos[f"models/{REPOSITORY}"] = Repo(commits={commit: files}, refs={"main": commit}, large=_LARGE)
    with hub:
        _done(derive("lock", "model", "--update", MODEL, *project, env={"DERIVE_MIRROR_HF": hub.url}))


def _commit(files: dict[str, bytes]) -> str:
    """Return what the hub calls this state of its repository: it follows from the files alone."""
    listed = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    return hashlib.sha256(listed.encode()).hexdigest()[:40]


def _done(ran: Ran) -> None:
    sys.stdout.write(f"{ran.answer}\n")


def torch_here(folder: Path) -> Path | None:
    """Return the wheel of torch, brought into a folder once; None where pip finds none."""
    return find_torch(folder / "wheels")
