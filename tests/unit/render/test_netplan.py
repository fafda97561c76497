# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.render.netplan import netplan_file
from support.launching import example_site, project_shape

SITE = example_site(project_shape("probe", "triangle"))


def test_a_node_has_an_address_on_each_of_its_paths_and_no_other() -> None:
    for node in SITE.nodes:
        text = netplan_file(SITE, node.rank).decode()
        wanted = {f'- "{here.address}/24"' for _, _, here, _ in SITE.paths_of(node.rank)}
        assert {line.strip() for line in text.splitlines() if "/24" in line} == wanted
        assert node.interface not in text


def test_every_interface_has_large_frames_and_takes_nothing_from_the_network() -> None:
    text = netplan_file(SITE, 0).decode()
    for line in ("mtu: 9000", "dhcp4: false", "dhcp6: false", "accept-ra: false", "link-local: []", "optional: true"):
        assert text.count(line) == 4
