# SPDX-License-Identifier: Apache-2.0
"""A real registry (Debian's docker-registry) on loopback, open or behind a login, and small images to put into it.

Edge: starts processes and a server of tokens, writes folders.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import parse_qs, urlsplit

import requests

from derive.canonical import sha256
from derive.images.oci import CONFIG_TYPE, INDEX_TYPE, MANIFEST_TYPE
from derive.oci.documents import DOCKER_CONFIG_TYPE, DOCKER_INDEX_TYPE, DOCKER_MANIFEST_TYPE
from support.require import skip_or_fail

Auth: TypeAlias = Literal["none", "basic", "token"]

USER, PASSWORD = "deploy", "sec:ret"
_BCRYPT = "$2y$05$abcdefghijklmnopqrstuu"  # the salt; the hash is computed by the C library
_SERVICE = "the-registry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image's bytes: manifest, and blobs by digest."""

    platform: str
    media_type: str
    manifest: bytes
    blobs: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        return str(sha256(self.manifest))

    def entry(self) -> dict[str, object]:
        """Return what an index says of the image."""
        os_name, architecture = self.platform.split("/")[:2]
        return {
            "mediaType": self.media_type,
            "digest": self.digest,
            "size": len(self.manifest),
            "platform": {"os": os_name, "architecture": architecture},
        }


def image(*layers: bytes, platform: str = "linux/amd64", docker: bool = False, packed: bool = True) -> Image:
    """Make an image of tar archives, in OCI's types or in Docker's."""
    os_name, architecture = platform.split("/")[:2]
    streams = [gzip.compress(layer, mtime=0) if packed else layer for layer in layers]
    config = json.dumps(
        {
            "os": os_name,
            "architecture": architecture,
            "config": {"Env": ["A=1"]},
            "rootfs": {"type": "layers", "diff_ids": [str(sha256(layer)) for layer in layers]},
        }
    ).encode()
    plain = "application/vnd.docker.image.rootfs.diff.tar" if docker else "application/vnd.oci.image.layer.v1.tar"
    kind = plain + ((".gzip" if docker else "+gzip") if packed else "")
    media_type = DOCKER_MANIFEST_TYPE if docker else MANIFEST_TYPE
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": media_type,
            "config": _descriptor(DOCKER_CONFIG_TYPE if docker else CONFIG_TYPE, config),
            "layers": [_descriptor(kind, stream) for stream in streams],
        },
        indent=3,
    ).encode()
    blobs = {str(sha256(data)): data for data in (config, *streams)}
    return Image(platform=platform, media_type=media_type, manifest=manifest, blobs=blobs)


def index(*images: Image, docker: bool = False, extra: Sequence[Mapping[str, object]] = ()) -> tuple[str, bytes]:
    """Return the media type and the bytes of an index over images."""
    media_type = DOCKER_INDEX_TYPE if docker else INDEX_TYPE
    entries = [*(item.entry() for item in images), *extra]
    document = {"schemaVersion": 2, "mediaType": media_type, "manifests": entries}
    return media_type, json.dumps(document, indent=3).encode()


@dataclass(slots=True, kw_only=True)
class Registry:
    """A registry that runs. ``tokens`` are the scopes that its server of tokens was asked for, and by whom."""

    host: str
    process: subprocess.Popen[bytes]
    tokens: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def push(self, repository: str, tag: str, *images: Image, docker: bool = False, indexed: bool = True) -> str:
        """Upload images, under a tag when they stand in an index; return the digest of what the tag names."""
        for item in images:
            for digest, data in item.blobs.items():
                self.push_blob(repository, digest, data)
            self.push_manifest(repository, item.digest, item.media_type, item.manifest)
        if not indexed:
            self.push_manifest(repository, tag, images[0].media_type, images[0].manifest)
            return images[0].digest
        media_type, body = index(*images, docker=docker)
        self.push_manifest(repository, tag, media_type, body)
        return str(sha256(body))

    def push_blob(self, repository: str, digest: str, data: bytes) -> None:
        begun = requests.post(f"{self.url}/v2/{repository}/blobs/uploads/", timeout=10)
        begun.raise_for_status()
        place = begun.headers["location"]
        requests.put(f"{place}&digest={digest}", data=data, timeout=10).raise_for_status()

    def push_manifest(self, repository: str, name: str, media_type: str, body: bytes) -> None:
        url = f"{self.url}/v2/{repository}/manifests/{name}"
        requests.put(url, data=body, headers={"Content-Type": media_type}, timeout=10).raise_for_status()


@contextlib.contextmanager
def registry(folder: Path, *, auth: Auth = "none") -> Iterator[Registry]:
    """Run a registry over a folder, which stays: one that was filled open can be run again behind a login."""
    if shutil.which("docker-registry") is None:
        skip_or_fail("docker-registry is not installed")
    folder.mkdir(exist_ok=True)
    port = _free_port()
    asked: list[tuple[str, str | None]] = []
    with contextlib.ExitStack() as stack:
        settings: dict[str, object] = {
            "version": "0.1",
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
            "http": {"addr": f"127.0.0.1:{port}"},
        }
        if auth == "basic":
            settings["auth"] = {"htpasswd": {"realm": "here", "path": _htpasswd(folder)}}
        if auth == "token":
            server = stack.enter_context(_token_server(folder, asked))
            keys = {"issuer": "tests", "rootcertbundle": str(folder / "cert.pem")}
            settings["auth"] = {"token": {"realm": f"{server}/token?x=1", "service": _SERVICE, **keys}}
        config = folder / "config.json"  # JSON is YAML
        config.write_text(json.dumps(settings))
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                ["docker-registry", "serve", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        stack.callback(process.wait)
        stack.callback(process.kill)
        found = Registry(host=f"127.0.0.1:{port}", process=process, tokens=asked)
        _wait(found, folder / "log")
        yield found


def _descriptor(media_type: str, data: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": str(sha256(data)), "size": len(data)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(found: Registry, log: Path) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            if requests.get(f"{found.url}/v2/", timeout=5).status_code in (200, 401):
                return
        except requests.ConnectionError:
            assert found.process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)


def _htpasswd(folder: Path) -> str:
    program = "print crypt($ARGV[0], $ARGV[1])"
    done = subprocess.run(["perl", "-e", program, PASSWORD, _BCRYPT], stdout=subprocess.PIPE, check=True)
    file = folder / "htpasswd"
    file.write_text(f"{USER}:{done.stdout.decode()}\n")
    return str(file)


@contextlib.contextmanager
def _token_server(folder: Path, asked: list[tuple[str, str | None]]) -> Iterator[str]:
    """Sign tokens for whoever logs in, and tokens to pull for everybody from repositories below ``open/``."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    if not key.exists():
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=tests", "-days", "2"]
        subprocess.run([*make, "-keyout", str(key), "-out", str(cert)], check=True, stderr=subprocess.DEVNULL)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            scope = query["scope"][0]
            login = self.headers.get("Authorization")
            asked.append((scope, login))
            wanted = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            repository = scope.split(":")[1]
            if login not in (None, wanted) or query["service"] != [_SERVICE] or query["x"] != ["1"]:
                self._answer(401, b"{}")
                return
            asked_for = scope.rpartition(":")[2].split(",") if login == wanted else ["pull"]
            actions = asked_for if login == wanted or repository.startswith("open/") else []
            self._answer(200, json.dumps({"token": _token(key, cert, repository, actions)}).encode())

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _token(key: Path, cert: Path, repository: str, actions: Sequence[str]) -> str:
    now = int(time.time())
    der = subprocess.run(
        ["openssl", "x509", "-in", str(cert), "-outform", "DER"], stdout=subprocess.PIPE, check=True
    ).stdout
    header = {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(der).decode()]}
    access = [{"type": "repository", "name": repository, "actions": actions}] if actions else []
    claims = {
        "iss": "tests",
        "sub": USER,
        "aud": _SERVICE,
        "exp": now + 600,
        "nbf": now - 60,
        "iat": now,
        "jti": os.urandom(8).hex(),
        "access": access,
    }
    text = ".".join(_base64url(json.dumps(part).encode()) for part in (header, claims))
    signed = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", str(key)], input=text.encode(), stdout=subprocess.PIPE, check=True
    )
    return f"{text}.{_base64url(signed.stdout)}"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
