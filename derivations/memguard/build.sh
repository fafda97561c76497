#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds the memory guard from /in/files for $DERIVE_HOST_TRIPLET: one script for the native and the cross build.
set -eu
umask 022

. /in/files/flags.sh
host=$DERIVE_HOST_TRIPLET
program=$DERIVE_OUT/usr/libexec/derive/memguard

case $host in
aarch64-*) control_flow=-mbranch-protection=standard ;;
*) control_flow=-fcf-protection=full ;;
esac

# It runs on the host, whose libraries are not ours: static, and position-independent all the same. The compiler is
# called where the sources lie, with their names alone, and -g0 leaves none of those in the program.
cd /in/files
mkdir -p "${program%/*}"
# shellcheck disable=SC2086 # lists of flags
"$host-gcc" $language $warnings -O2 -g0 -fPIE -static-pie $control_flow \
	-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection -ftrivial-auto-var-init=zero \
	-Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code \
	cgroup.c evidence.c files.c guard.c judge.c kill.c memguard.c options.c parse.c ready.c sampler.c say.c text.c whose.c \
	-o "$program"
"$host-strip" --strip-all "$program"
