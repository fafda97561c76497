# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.images.base import config_of, inherited, mode_problems
from derive.images.modes import ModeTable, Rule
from derive.images.oci import ImageConfig
from derive.store.memory import MemoryStore
from derive.trees.listing import DIRECTORY, Listing
from support.archives import folder, put, tar
from support.oci_registry import image

BASE = ImageConfig(
    environment={"A": "1", "B": "1"},
    entrypoint=("/base",),
    command=("serve",),
    user="7",
    working_folder="/srv",
    labels={"x": "1", "io.derive.capabilities": "rdma", "io.derive.derivation": "sha256:0", "io.derive.native": "x"},
    stop_signal="SIGINT",
)


def test_what_an_image_does_not_say_its_base_says() -> None:
    made = inherited(BASE, ImageConfig(environment={"B": "2"}, labels={"y": "2"}))
    assert made.environment == {"A": "1", "B": "2"}
    assert (made.entrypoint, made.command) == (("/base",), ("serve",))
    assert (made.user, made.working_folder, made.stop_signal) == ("7", "/srv", "SIGINT")


def test_what_a_base_says_of_itself_alone_is_not_inherited() -> None:
    assert inherited(BASE, ImageConfig()).labels == {"x": "1"}


def test_an_own_entry_point_comes_without_the_base_s_command() -> None:
    assert inherited(BASE, ImageConfig(entrypoint=("/own",))).command == ()
    assert inherited(BASE, ImageConfig(command=("own",))).entrypoint == ("/base",)


def test_to_inherit_twice_changes_nothing() -> None:
    own = ImageConfig(entrypoint=("/own",), environment={"B": "2"})
    assert inherited(BASE, inherited(BASE, own)) == inherited(BASE, own)


def problems_of(own: Listing, *rules: Rule) -> list[str]:
    store = MemoryStore()
    made = image(tar(folder(b"tmp", 0o1777), folder(b"usr")))
    for data in made.blobs.values():
        put(store, data)
    manifest = put(store, made.manifest)
    found = mode_problems(store, manifest, own, ModeTable.of(rules), name="base", where="images/x.toml")
    return [problem.where for problem in found]


def test_a_layer_upon_a_base_leaves_the_bits_of_the_base_s_folders() -> None:
    own = Listing.of({b"tmp": DIRECTORY, b"tmp/x": DIRECTORY, b"usr": DIRECTORY})
    assert problems_of(own) == ['images/x.toml: modes."/tmp"']
    assert problems_of(own, Rule(path=b"tmp", mode=0o1777)) == []


def test_a_rule_for_a_path_that_only_the_base_has_would_change_nothing_and_is_refused() -> None:
    assert problems_of(Listing.of({}), Rule(path=b"usr", mode=0o700)) == ['images/x.toml: modes."/usr"']


def test_a_config_that_says_little_is_read_as_it_is_meant() -> None:
    read = config_of(b'{"config":{"ExposedPorts":{"80":{}},"Env":["A=b=c"]}}')
    assert (read.working_folder, read.exposed_ports, read.environment) == ("/", ("80/tcp",), {"A": "b=c"})
