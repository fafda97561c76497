#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Writes what `vllm serve` takes, from the sources of the wheel in /in/wheel.
set -eu
umask 022

mkdir "$DERIVE_OUT/schema"
exec python3.13 -B /in/files/options.py /in/wheel "$DERIVE_OUT/schema/options.json"
