#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Puts the variables that are declared by hand beside those that are read from wheels.
set -eu
umask 022

mkdir -p "$DERIVE_OUT/schema/variables"
exec python3.13 -B /in/files/declared.py /in/files/declared.toml "$DERIVE_OUT/schema/variables"
