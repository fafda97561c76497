# SPDX-License-Identifier: Apache-2.0
"""The small project with two recipes, one of which serves a model: what is promoted in tests, with all that is asked.

Edge: the file system, git.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from derive.canonical import Digest
from derive.certificates.folder import write_certificate
from derive.certificates.host import VARIABLE, host_here
from derive.certificates.model import Certificate, Certified, CertifiedImage
from derive.fabric.examples import example
from derive.releases.find import find_release
from derive.trust.dsse import sign
from derive.trust.keyring import Keyring
from derive.trust.statement import PAYLOAD_TYPE
from support.cli import CHECKOUT
from support.doctoring import UPSTREAMS_WISH, upstreams
from support.network_facts import facts_of_site
from support.projects import pinned
from support.releasing import commit, git, released_project
from support.small import Small

MODEL = """\
# Something that is served with a model, by a program that takes none of vLLM's options.
format = 1
image = "small"
default-shape = "four"
platform = "linux/amd64"
transport = "none"

[model]
set = "m"
huggingface = "small"
target = "/model"

[service]
name = "small"
program = "plain"
entrypoint = ["/usr/share/hello/run"]
port = 8080
ready = { path = "/", timeout = 60 }

[container]
memory = "64MiB"

[guard.startup]
floor = "2GiB"
interval = "0.25"
wait = 10

[guard.steady]
floor = "1GiB"
interval = "2"

[shapes.four]
doc = "four nodes"
cabling = "ring4"

[shapes.off]
doc = "three nodes, not launched yet"
cabling = "triangle"

[shapes.off.promotion]
launch-enabled = false
"""

HOSTS = {"ann": "a" * 32, "ben": "b" * 32}
"""What stands for the machines of two builders."""


@contextmanager
def promoted_project(place: Path) -> Iterator[Small]:
    """Write the project, with a model's lock and a second recipe; the keys ann and ben are builders, two are needed."""
    with released_project(place, repository=False) as small:
        small.write("recipes/model.toml", MODEL)
        small.write("lock/m.toml", UPSTREAMS_WISH)
        small.write("lock/m.lock.json", pinned(upstreams(UPSTREAMS_WISH), UPSTREAMS_WISH))
        guard = '[capabilities]\nmemory-guard = { from = "hello", doc = "it watches over memory" }\n\n[config]'
        small.edit("images/small.toml", "[config]", guard)
        keys = [f'{name} = "{small.here("key", "new", name).answer}"\n' for name in HOSTS]
        table = '\n[tool.derive.trust]\nthreshold = 2\nbuilders = ["ann", "ben"]\n\n[tool.derive.trust.keys]\n'
        small.write("pyproject.toml", (small.root / "pyproject.toml").read_text() + table + "".join(keys))
        git(small.root, "init", "--quiet", "--initial-branch", "main")
        git(small.root, "config", "user.name", "tester")
        commit(small.root, "a project")
        yield small


def certify(small: Small, release: str, name: str) -> str:
    """Have a builder certify a release, on this host under a name of theirs; return what is said beside the answer."""
    done = small.here("certify", release, "--key", name, env={"DERIVE_MACHINE_ID": HOSTS[name]})
    assert done.code == 0, done.err
    return done.err


def claim(small: Small, release: str, name: str, *, image: Digest | None = None, made_s: int = 1_800_000_000) -> Path:
    """Write what a builder would sign who had derived a release, or a lie about its image for amd64."""
    known = find_release(small.root, release)
    images: dict[str, CertifiedImage] = {
        platform: CertifiedImage(name=one.name, digest=one.digest, derivation=one.derivation, steps=1)
        for platform, one in known.release.images.items()
    }
    if image is not None:
        images["linux/amd64"] = replace(images["linux/amd64"], digest=image)
    said = Certificate(
        release=Certified(name=known.name, digest=known.digest, recipe=known.release.recipe),
        images=images,
        engine=known.release.engine.digest,
        version=known.release.engine.version,
        host=host_here(known.digest, {VARIABLE: f"elsewhere-{HOSTS[name]}"}, machine(small.root.parent, name)),
        made_s=made_s,
    )
    key = Keyring(small.home / "derive").signing_key(name)
    return write_certificate(small.root, known.name, key.public.id, sign(PAYLOAD_TYPE, said.encoded(), (key,)))


def machine(place: Path, name: str) -> Path:
    """Write what tells another machine's start from the one here, and return the folder that stands for its root."""
    root = place / f"machine-of-{name}"
    boot = root / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True, exist_ok=True)
    boot.write_text(f"boot of {name}\n")
    return root


def write_site_and_facts(folder: Path, gathered_s: int) -> tuple[str, list[str]]:
    """Write the site of the example of a ring and what its machines say; return the paths."""
    path = CHECKOUT / "fabric/examples/ring4.toml"
    site = example({path.relative_to(CHECKOUT).as_posix(): path.read_bytes()}, "ring4")
    (folder / "site.toml").write_bytes(path.read_bytes())
    (folder / "site.toml").chmod(0o600)
    files = []
    for facts in facts_of_site(site):
        file = folder / f"{facts.host}.json"
        body = {**facts.body(), "gathered_s": gathered_s}
        document = {"derive": "record/1", "kind": "site-facts", "subject": facts.host, "previous": None, "body": body}
        file.write_text(json.dumps(document))
        files.append(str(file))
    return str(folder / "site.toml"), files
