# SPDX-License-Identifier: Apache-2.0
"""Why a node was not reached by SSH, in words, with one next step.

Edge: the exceptions of asyncssh and of sockets.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from derive.deploy.node_errors import NodeUnreachable

if TYPE_CHECKING:
    from derive.deploy.ssh_config import Way


def unreachable(node: str, way: Way, error: Exception) -> NodeUnreachable:
    """Return the error for a connection that could not be opened."""
    message, hint = _words(way, error)
    target = f"{way.user}@{way.host}" + (f" port {way.port}" if way.port != 22 else "")
    said = str(error)
    return NodeUnreachable(
        message,
        node=node,
        effect="ssh",
        detail=(f"host      {target}", *((f"said      {said}",) if said else ())),
        hint=hint,
    )


def _words(way: Way, error: Exception) -> tuple[str, str]:
    import asyncssh

    port = f" -p {way.port}" if way.port != 22 else ""
    files = way.known_files
    if isinstance(error, asyncssh.HostKeyNotVerifiable | asyncssh.KeyExchangeFailed):
        if way.is_known():
            message = "the host shows another key than the one that is known"
            name = f"[{way.host}]:{way.port}" if port else way.host
            return message, f"find out why; if it was set up anew: ssh-keygen -R '{name}', then ssh-keyscan as before"
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            file = files[0] if files else "~/.ssh/known_hosts"
            hint = f"ssh-keyscan{port} {way.host} >> {file}, after comparing it with the node's /etc/ssh/*.pub"
            return "the host's key is not known", hint
    if isinstance(error, asyncssh.PermissionDenied):
        hint = f"ssh-copy-id{port} {way.user}@{way.host}; a key with a passphrase must be in the agent: ssh-add"
        return "none of this user's keys is accepted", hint
    if isinstance(error, socket.gaierror):
        hint = "give the node an ssh-host in the site file, or the host a HostName in ~/.ssh/config"
        return f"no host is called {way.host}", hint
    if isinstance(error, TimeoutError):
        return "the host does not answer", f"ping {way.host}; it may be off, or the management network out"
    if isinstance(error, ConnectionRefusedError):
        return "no sshd listens there", "on the node: sudo systemctl status ssh"
    return "no connection", f"ssh -v{port} {way.user}@{way.host} true"
