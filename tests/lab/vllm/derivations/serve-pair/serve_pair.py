# SPDX-License-Identifier: Apache-2.0
"""Serves a model from two neighbours of a ring: the node of even rank is the head, the next one the other rank.

    serve_pair.py PORT MODEL [OPTION...]

Which node this is stands in the launch that every container is given. The two reach each other over the first path of
the cable between them, whose subnet and interfaces are those that a site has unless it says otherwise. The head is
vLLM itself. The other one runs vLLM without a server, and hands requests that it gets on to the head: so each node of
the site answers, as whoever deploys a plain service expects.
"""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LAUNCH = pathlib.Path("/run/derive/launch/manifest.json")
VLLM = "/usr/local/bin/vllm"
MASTER_PORT = 9999
TO_NEXT, TO_FORMER = "enp1s0f0np0", "enp1s0f1np1"
_ADDRESS_OF = 0x8915  # SIOCGIFADDR
_PATIENCE_S = 120


def address_of(interface: str) -> str:
    """Return the IPv4 address of an interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, _ADDRESS_OF, struct.pack("256s", interface.encode()))
    return socket.inet_ntoa(answer[20:24])


def command(rank: int, port: str, model: str, options: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return what a node runs and the variables that it sets; an address's last number is the node's, from 1."""
    is_head = rank % 2 == 0
    interface = TO_NEXT if is_head else TO_FORMER
    own = address_of(interface)
    head = own if is_head else f"{own.rpartition('.')[0]}.{rank}"
    argv = [VLLM, "serve", model, *options, "--nnodes", "2", "--tensor-parallel-size", "2"]
    argv += ["--node-rank", str(rank % 2), "--master-addr", head, "--master-port", str(MASTER_PORT)]
    argv += ["--host", "0.0.0.0", "--port", port] if is_head else ["--headless"]
    return argv, {"VLLM_HOST_IP": own, "GLOO_SOCKET_IFNAME": interface, "PAIR_HEAD": head}


class _HandOn(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Ask the head, and answer as it does; 503 where it does not."""
        size = int(self.headers.get("Content-Length", "0"))
        body = self.rfile.read(size) if size else None
        kind = {"Content-Type": self.headers.get("Content-Type", "application/json")}
        request = urllib.request.Request(f"{self.server.head}{self.path}", body, kind, method=self.command)
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
                self._send(answer.status, answer.read())
        except urllib.error.HTTPError as error:
            self._send(error.code, error.read())
        except OSError as error:
            self._send(503, json.dumps({"error": str(error)}).encode())

    do_POST = do_GET  # noqa: N815 - the names of http.server

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of http.server
        """Say nothing: the head says it."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    head = ""


def main() -> int:
    """Become the head, or run the other rank and hand requests on until it ends."""
    port, model, *options = sys.argv[1:]
    argv, variables = command(json.loads(LAUNCH.read_text())["rank"], port, model, options)
    environment = {**os.environ, **variables}
    if "--headless" not in argv:
        os.execve(argv[0], argv, environment)
    rank = subprocess.Popen(argv, env=environment)
    signal.signal(signal.SIGTERM, lambda *_: rank.terminate())
    server = _Server(("", int(port)), _HandOn)
    server.head = f"http://{variables['PAIR_HEAD']}:{port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    code = rank.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main())
