#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs one of the programs that read what a wheel takes.
set -eu
umask 022

mkdir -p "$DERIVE_OUT/schema/variables"
[ "$RESULT" = variables ] || rmdir "$DERIVE_OUT/schema/variables"
# shellcheck disable=SC2086 # a program and its argument
cd /in/files && exec python3.11 -B $PROGRAM "$DERIVE_OUT/schema/$RESULT"
