#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
set -eu
umask 022

mkdir -p "$DERIVE_OUT/usr/local/libexec"
cp /in/files/serve_pair.py "$DERIVE_OUT/usr/local/libexec/serve_pair.py"
