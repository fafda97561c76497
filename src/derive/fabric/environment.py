# SPDX-License-Identifier: Apache-2.0
"""What a rank's variables get from the site: its address and interface, its devices, and who is behind them.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from derive.fabric.site import Site
from derive.fabric.transports import FILE, Fabric, Transport, find_transport
from derive.recipes.resolved import Origin, Resolved
from derive.recipes.values import json_text

SOCKET_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
HOST_ADDRESS = "VLLM_HOST_IP"
DEVICES = "NCCL_IB_HCA"
GID_INDEX = "NCCL_IB_GID_INDEX"
TRAFFIC_CLASS = "NCCL_IB_TC"
PROGRAM = "vllm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sited:
    """A variable's value on one node, and the rule and keys of the site that made it."""

    value: str
    origin: Origin


def node_environment(resolved: Resolved, site: Site, rank: int, fabric: Fabric) -> dict[str, str]:
    """Return the variables that a rank gets from the site, sorted by name; none for services without collectives."""
    return {name: one.value for name, one in node_settings(resolved, site, rank, fabric).items()}


def node_settings(
    resolved: Resolved, site: Site, rank: int, fabric: Fabric, site_file: str = "site"
) -> dict[str, Sited]:
    """Return the same with the origin of each; ``site_file`` is what origins call the site's file."""
    transport = find_transport(fabric, resolved.transport, f"recipes/{resolved.recipe}.toml: transport")
    if resolved.schema != PROGRAM or not transport.collectives:
        return {}
    node = site.nodes[rank]
    place = f"nodes[{rank}]"

    def sited(value: str, key: str, doc: str, *inputs: str) -> Sited:
        return Sited(value=value, origin=Origin(file=site_file, key=key, rule="site", inputs=inputs, doc=doc))

    found = {
        HOST_ADDRESS: sited(node.address, f"{place}.address", "the management address, which ranks announce"),
        DEVICES: sited(
            "=" + ",".join(sorted({here.device for _, _, here, _ in site.paths_of(rank)})),
            "cables",
            "every cabled device by its exact name, sorted",
        ),
        GID_INDEX: sited(node.gid_index, f"{place}.gid-index", "where devices have their RoCE v2 address"),
    }
    for name in SOCKET_INTERFACES:
        found[name] = sited(node.interface, f"{place}.interface", "the interface of the management network")
    if node.traffic_class is not None:
        found[TRAFFIC_CLASS] = sited(node.traffic_class, f"{place}.traffic-class", "the traffic class of RoCE")
    if transport.engine is not None:
        engine = fabric.engines[transport.engine]
        inputs = (f"{FILE}: transports.{transport.name}",)
        doc = "the devices to each peer, in the order of the paths"
        found[engine.peers] = sited(peer_map(site, rank, transport), "cables", doc, *inputs)
        found[engine.gid_index] = sited(node.gid_index, f"{place}.gid-index", found[GID_INDEX].origin.doc, *inputs)
        if node.traffic_class is not None:
            doc = "the traffic class of RoCE"
            found[engine.traffic_class] = sited(node.traffic_class, f"{place}.traffic-class", doc, *inputs)
    return dict(sorted(found.items()))


def peer_map(site: Site, rank: int, transport: Transport) -> str:
    """Return the local devices to each peer, in the order of the paths, as JSON without spaces.

    Where network cards forward, the peer without a cable is reached by the devices to the next rank.
    """
    peers: dict[int, list[str]] = {}
    for _, path, here, there in sorted(site.paths_of(rank), key=lambda one: (one[3].rank, one[1].number)):
        del path
        peers.setdefault(there.rank, []).append(here.device)
    if transport.peers == "all":
        following = peers[(rank + 1) % len(site.nodes)]
        for other in range(len(site.nodes)):
            if other != rank:
                peers.setdefault(other, list(following))
    return json_text({str(peer): devices for peer, devices in peers.items()})
