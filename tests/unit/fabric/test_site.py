# SPDX-License-Identifier: Apache-2.0
"""Site files: what they leave out is filled in, and what is wrong in them is said at once, with its place.

The words of refusals are in tests/golden/fabric/, to be read as a person meets them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import pytest

from derive.cli.console import _format
from derive.errors import InputErrors
from derive.fabric.abstract import abstract_site, is_abstract
from derive.fabric.cabling import edges
from derive.fabric.examples import example
from derive.fabric.load import load_site, load_site_input
from derive.fabric.site import Site
from support.fabrics import example_site, launching
from support.golden import check_golden

HEAD = """\
format = 1
name = "lab"
cabling = "{cabling}"
ssh-user = "operator"
home = "/home/operator"
interface = "enP7s7"
"""


def text(count: int = 4, cabling: str = "ring4", more: str = "", head: str = "") -> str:
    nodes = "".join(f'[[nodes]]\nname = "dgx{n}"\naddress = "192.0.2.1{n}"\n' for n in range(1, count + 1))
    return HEAD.format(cabling=cabling) + head + nodes + more


def site(source: str) -> Site:
    return load_site(source.encode(), "site.toml")


def refusals(source: str | bytes) -> str:
    with pytest.raises(InputErrors) as caught:
        load_site(source if isinstance(source, bytes) else source.encode(), "site.toml")
    return "".join(f"{_format(one)}\n" for one in caught.value.problems())


def cable(one: str, other: str, more: str = "") -> str:
    return f'[[cables]]\nbetween = ["{one}", "{other}"]\n{more}'


TRIANGLE = cable("dgx1", "dgx2") + cable("dgx2", "dgx3") + cable("dgx3", "dgx1")


def test_a_ring_has_the_usual_devices_interfaces_and_addresses() -> None:
    found = site(text())
    ends = {
        (here.device, here.interface, path.subnet, here.address, there.rank)
        for _, path, here, there in found.paths_of(3)
    }
    assert ends == {
        ("rocep1s0f0", "enp1s0f0np0", "10.14.1.0/24", "10.14.1.4", 0),
        ("roceP2p1s0f0", "enP2p1s0f0np0", "10.14.2.0/24", "10.14.2.4", 0),
        ("rocep1s0f1", "enp1s0f1np1", "10.34.1.0/24", "10.34.1.4", 2),
        ("roceP2p1s0f1", "enP2p1s0f1np1", "10.34.2.0/24", "10.34.2.4", 2),
    }


@pytest.mark.parametrize(("cabling", "count"), [("triangle", 3), ("ring4", 4)])
def test_cage_0_leads_to_the_next_rank_and_cage_1_to_the_one_before(cabling: str, count: int) -> None:
    found = site(text(count, cabling))
    for one in found.cables:
        for rank, port in zip(one.ranks, one.ports, strict=True):
            other = next(peer for peer in one.ranks if peer != rank)
            assert other == ((rank + 1) if port == 0 else (rank - 1)) % count
    assert tuple(one.ranks for one in found.cables) == edges(count)


def test_what_a_file_leaves_out_is_filled_in() -> None:
    found = site(text())
    assert (found.folder, found.models, found.images) == (
        "/var/lib/derive",
        "/home/operator/.cache/huggingface/hub",
        "127.0.0.1:5170/derive",
    )
    first = found.nodes[0]
    assert (first.rank, first.interface, first.ssh_host, first.gid_index) == (0, "enP7s7", "dgx1", "3")
    assert first.traffic_class is None
    assert found.shapes == ()
    assert not found.example


def test_a_node_may_differ_from_the_others() -> None:
    more = 'ssh-host = "login@dgx4.example"\ninterface = "eno1"\ngid-index = 5\ntraffic-class = 106\n'
    last = site(text(more=more, head="gid-index = 2\n")).nodes[3]
    assert (last.ssh_host, last.interface, last.gid_index, last.traffic_class) == (
        "login@dgx4.example",
        "eno1",
        "5",
        "106",
    )


def test_cables_that_say_nothing_but_their_ends_are_the_usual_ones() -> None:
    assert site(text(3, "triangle", TRIANGLE)).cables == site(text(3, "triangle")).cables


def test_the_ends_of_a_cable_may_be_named_in_either_order() -> None:
    def with_(first: str, one: str, other: str) -> Site:
        paths = f"""[[cables.paths]]
subnet = "10.0.5.0/24"
addresses = {one}
devices = {other}
interfaces = {other.replace("mlx", "en")}
"""
        names = first.split()
        cables = cable(names[0], names[1], paths) + cable("dgx2", "dgx3") + cable("dgx3", "dgx1")
        return site(text(3, "triangle", cables))

    there = with_("dgx1 dgx2", '["10.0.5.1", "10.0.5.2"]', '["mlx1", "mlx2"]')
    back = with_("dgx2 dgx1", '["10.0.5.2", "10.0.5.1"]', '["mlx2", "mlx1"]')
    assert there == back
    assert there.cables[0].paths[0].ends[0].address == "10.0.5.1"


def test_the_order_of_cables_in_a_file_does_not_matter() -> None:
    parts = [cable("dgx1", "dgx2"), cable("dgx2", "dgx3"), cable("dgx3", "dgx1")]
    assert site(text(3, "triangle", "".join(parts))) == site(text(3, "triangle", "".join(parts[::-1])))


def test_swapped_cages_bring_the_devices_behind_them() -> None:
    cables = (
        cable("dgx1", "dgx2", "ports = [1, 1]\n") + cable("dgx2", "dgx3") + cable("dgx3", "dgx1", "ports = [0, 0]\n")
    )
    first = site(text(3, "triangle", cables)).cables[0]
    assert first.paths[0].ends[0].device == "rocep1s0f1"


def test_a_cable_may_have_one_path() -> None:
    paths = 'paths = [{ subnet = "10.0.5.0/24", addresses = ["10.0.5.1", "10.0.5.2"] }]\n'
    cables = cable("dgx1", "dgx2", paths) + cable("dgx2", "dgx3") + cable("dgx3", "dgx1")
    assert [len(one.paths) for one in site(text(3, "triangle", cables)).cables] == [1, 2, 2]


def test_shapes_and_folders_are_read() -> None:
    head = 'folder = "/srv/derive"\nmodels = "{home}/models"\nimages = "registry.example:5000/derive"\n'
    found = site(text(head=head, more='[shapes]\nprobe = "ring4"\nds41f = "tp4-ring"\n'))
    assert (found.folder, found.models) == ("/srv/derive", "/home/operator/models")
    assert found.shapes == (("ds41f", "tp4-ring"), ("probe", "ring4"))
    assert found.images == "registry.example:5000/derive"


@pytest.mark.parametrize(
    ("images", "port"),
    [
        (None, 5170),
        ("localhost:5171/derive", 5171),
        ("127.0.1.1:5172", 5172),
        ("registry.example/derive", None),
        ("host:5000/derive", None),
    ],
)
def test_images_on_loopback_come_through_the_head_and_others_from_their_registry(
    images: str | None, port: int | None
) -> None:
    assert site(text(head="" if images is None else f'images = "{images}"\n')).images_port == port


@pytest.mark.parametrize(
    "images",
    ["host/derive", "localhost/derive", "127.0.0.1:0/derive", "127.0.0.1:22/derive", "host:5000/Derive", "h:٣/d"],
)
def test_images_must_name_a_registry_as_docker_would_read_it(images: str) -> None:
    with pytest.raises(InputErrors) as raised:
        site(text(head=f'images = "{images}"\n'))
    assert [problem.where for problem in raised.value.problems()] == ["site.toml: images"]


def test_places_of_cables_are_those_of_the_file() -> None:
    cables = cable("dgx3", "dgx1") + cable("dgx2", "dgx3") + cable("dgx1", "dgx2")
    given = load_site_input(text(3, "triangle", cables).encode(), "site.toml")
    assert given.at_cable(0, "ports") == "site.toml: cables[2].ports"


@pytest.mark.parametrize("cabling", ["triangle", "ring4"])
def test_the_examples_have_addresses_of_documentation_and_usual_cables(cabling: str) -> None:
    found = example_site(cabling)
    assert found.example
    assert all(node.address.startswith("192.0.2.") for node in found.nodes)
    assert found.cables == site(text(len(found.nodes), cabling)).cables


def test_an_absent_example_is_said_by_name() -> None:
    with pytest.raises(InputErrors) as caught:
        example({}, "ring4")
    assert caught.value.problems()[0].where == "fabric/examples/ring4.toml"


@pytest.mark.parametrize("cabling", ["triangle", "ring4"])
def test_the_abstract_site_has_the_form_of_a_site_and_says_each_key_once(cabling: str) -> None:
    abstract, real = abstract_site(cabling), example_site(cabling)  # type: ignore[arg-type]
    assert is_abstract(abstract)
    assert not is_abstract(real)
    assert [one.ranks for one in abstract.cables] == [one.ranks for one in real.cables]
    assert [one.ports for one in abstract.cables] == [one.ports for one in real.cables]
    ends = [end for one in abstract.cables for path in one.paths for end in path.ends]
    said = [text for end in ends for text in (end.device, end.interface, end.address)]
    assert len(set(said)) == len(said)
    assert all(text.startswith("${site:cables[") and text.endswith("]}") for text in said)
    assert abstract.nodes[1].address == "${site:nodes[1].address}"


REFUSED: dict[str, Callable[[], str | bytes]] = {
    "keys": lambda: (
        HEAD.format(cabling="star").replace("ssh-user", "ssh-usr").replace("format = 1", "format = 2")
        + 'colour = "red"\nhome = 3\n'.replace("home = 3\n", "")
        + '[[nodes]]\nname = "dgx 1"\nadress = "192.0.2.11"\n[[nodes]]\nname = "dgx2"\naddress = "192.0.2"\n'
        '[[nodes]]\nname = "dgx3"\naddress = "169.254.9.9"\ngid-index = "3"\n'
    ),
    "toml": lambda: text().replace('"lab"', '"lab'),
    "bytes": lambda: text().encode() + b"# \xff\n",
    "two": lambda: text(2),
    "five": lambda: text(5),
    "none": lambda: text(0),
    "cabling": lambda: text(4, "triangle"),
    "twice": lambda: text(3, "triangle").replace("dgx3", "dgx1").replace("192.0.2.13", "192.0.2.12"),
    "chain": lambda: text(4, more=cable("dgx1", "dgx2") + cable("dgx2", "dgx3") + cable("dgx3", "dgx4")),
    "diagonal": lambda: text(
        4,
        more=cable("dgx1", "dgx2")
        + cable("dgx2", "dgx4", "ports = [0, 1]\n")
        + cable("dgx4", "dgx3", "ports = [0, 1]\n")
        + cable("dgx3", "dgx1", "ports = [0, 1]\n"),
    ),
    "ends": lambda: text(3, "triangle", TRIANGLE + cable("dgx1", "dgx1") + cable("dgx2", "dgx9")),
    "second": lambda: text(3, "triangle", TRIANGLE + cable("dgx2", "dgx1", "ports = [0, 1]\n")),
    "cages": lambda: text(
        3, "triangle", cable("dgx1", "dgx2", "ports = [1, 1]\n") + cable("dgx2", "dgx3") + cable("dgx3", "dgx1")
    ),
    "devices": lambda: text(
        3,
        "triangle",
        cable(
            "dgx1",
            "dgx2",
            '[[cables.paths]]\ndevices = ["rocep1s0f1", "rocep1s0f1"]\ninterfaces = ["enP7s7", "enp1s0f1np1"]\n',
        )
        + cable("dgx2", "dgx3")
        + cable("dgx3", "dgx1"),
    ),
    "addresses": lambda: text(
        3,
        "triangle",
        cable(
            "dgx1",
            "dgx2",
            '[[cables.paths]]\nsubnet = "10.0.5.0/25"\naddresses = ["10.0.5.1", "10.0.5.2"]\n'
            '[[cables.paths]]\nsubnet = "10.0.6.0/24"\naddresses = ["10.0.6.1", "10.0.7.2"]\n',
        )
        + cable(
            "dgx2",
            "dgx3",
            '[[cables.paths]]\nsubnet = "10.0.6.0/24"\naddresses = ["10.0.6.255", "10.0.6.1"]\n'
            '[[cables.paths]]\nsubnet = "169.254.1.0/24"\naddresses = ["169.254.1.1", "169.254.1.2"]\n',
        )
        + cable(
            "dgx3",
            "dgx1",
            '[[cables.paths]]\nsubnet = "192.0.2.0/24"\naddresses = ["192.0.2.103", "192.0.2.101"]\n'
            '[[cables.paths]]\nsubnet = "10.0.8.0/24"\n',
        ),
    ),
    "paths": lambda: text(
        3,
        "triangle",
        cable("dgx1", "dgx2", "[[cables.paths]]\n" * 3)
        + cable("dgx2", "dgx3", "paths = []\n")
        + cable("dgx3", "dgx1", 'ports = [0, 2]\npaths = [{ devices = ["a"] }]\n'),
    ),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_wrong_site_is_refused_in_words(name: str) -> None:
    check_golden(f"fabric/site-{name}.txt", refusals(REFUSED[name]()))


def test_everything_wrong_is_said_at_once() -> None:
    source = text(3, "triangle", TRIANGLE, head='folder = "derive"\nkind = 1\n').replace("192.0.2.12", "192.0.2.11")
    with pytest.raises(InputErrors) as caught:
        load_site(source.encode(), "site.toml")
    assert [one.where for one in caught.value.problems()] == [
        "site.toml: folder",
        "site.toml: kind",
        "site.toml: nodes[1].address",
    ]


def test_names_that_differ_in_capital_letters_alone_are_refused() -> None:
    assert refusals(text().replace('"dgx3"', '"DGX1"')).splitlines() == [
        "error: site.toml: nodes[2].name: DGX1 is the name of another node, but for capital letters",
        "       dgx1 is   nodes[0]",
    ]


def test_the_example_files_are_what_the_documentation_shows() -> None:
    for cabling in ("triangle", "ring4"):
        table = tomllib.loads(launching()[f"fabric/examples/{cabling}.toml"].decode())
        assert "cables" not in table
        assert table["interface"] == "enP7s7"
