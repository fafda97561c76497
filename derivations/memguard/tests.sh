#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the guard's unit tests, under the address and undefined behaviour sanitizers; the output says what passed.
set -eu
umask 022

. /in/files/flags.sh
cd /in/files
# shellcheck disable=SC2086 # lists of flags
gcc $language $warnings -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all \
	judge.c parse.c tests.c text.c -o /build/tests
# No leaks to look for: nothing is allocated, and looking needs ptrace.
ASAN_OPTIONS=detect_leaks=0 /build/tests > "$DERIVE_OUT/results.txt"
cat "$DERIVE_OUT/results.txt"
