# SPDX-License-Identifier: Apache-2.0
"""What looks like a secret is found by its shape, and what only speaks of one is not. No secret stands in this file."""

from __future__ import annotations

import pytest

from derive.doctor.secrets import KINDS, is_secret_name, secrets_in
from support.cli import CHECKOUT

_DASHES = "-" * 5
_LINE = "A1b2" * 16

FOUND = {
    "private key": f"{_DASHES}BEGIN OPENSSH PRIVATE KEY{_DASHES}\n{_LINE}\n",
    "age key": "AGE-SECRET-" + "KEY-1" + "Q" * 58,
    "GitHub token": "ghp" + "_" + "a1" * 18,
    "GitLab token": "glpat" + "-" + "a1" * 10,
    "Hugging Face token": "hf" + "_" + "aB" * 17,
    "Tailscale key": "tskey" + "-auth-" + "k1" * 8 + "-" + "a1" * 16,
    "AWS access key": "AKIA" + "A1" * 8,
    "NVIDIA key": "nvapi" + "-" + "a1" * 32,
    "Docker token": "dckr" + "_pat_" + "a1" * 13,
    "Slack token": "xoxb" + "-" + "12345678901" * 2,
    "npm token": "npm" + "_" + "a1" * 18,
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_found_with_its_line(kind: str) -> None:
    data = f"first\nsecond = '{FOUND[kind]}'\n".encode()
    assert list(secrets_in(data)) == [(kind, 2)]


@pytest.mark.parametrize(
    "text",
    [
        "github" + "_pat_" + "A1" * 20,
        "gho" + "_" + "a1" * 18,
        f"{_DASHES}BEGIN PRIVATE KEY{_DASHES}\\n{_LINE}",
        f"{_DASHES}BEGIN RSA PRIVATE KEY{_DASHES}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n{_LINE}",
        f"{_DASHES}BEGIN PGP PRIVATE KEY BLOCK{_DASHES}\n\n{_LINE}",
    ],
)
def test_other_ways_to_write_one_are_found(text: str) -> None:
    assert len(list(secrets_in(text.encode()))) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"{_DASHES}BEGIN PRIVATE KEY{_DASHES}\n{_DASHES}END PRIVATE KEY{_DASHES}\n{_LINE}",
        f"{_DASHES}BEGIN PUBLIC KEY{_DASHES}\n{_LINE}",
        "a token begins with ghp_ or github_pat_, and one of Hugging Face's with hf_",
        "hf_hub_download(repository) and hf_transfer_of_a_file",
        "half_" + "a1" * 20,
        "x" + "AKIA" + "A1" * 8,
    ],
)
def test_what_only_speaks_of_one_is_not_found(text: str) -> None:
    assert list(secrets_in(text.encode())) == []


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        (".env", True),
        ("deploy/.env", True),
        ("ssh/id_ed25519", True),
        ("ssh/id_ed25519.pub", False),
        ("keys/site.pem", True),
        ("keys/SITE.KEY", True),
        ("lab.local.toml", True),
        ("lab.local.json", True),
        ("nodes.local.env", True),
        ("credentials.json", True),
        ("src/credentials.py", False),
        ("env", False),
        ("monkey", False),
    ],
)
def test_names_of_files_with_secrets_are_known(path: str, *, secret: bool) -> None:
    assert is_secret_name(path) is secret


def test_the_module_that_knows_them_and_this_one_hold_none() -> None:
    for path in (CHECKOUT / "src/derive/doctor/secrets.py", CHECKOUT / "tests/unit/doctor/test_secrets.py"):
        assert list(secrets_in(path.read_bytes())) == []
