#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds perftest from /in/source for $DERIVE_HOST_TRIPLET and installs it under
# $DERIVE_OUT with the prefix /usr. One script for the native and the cross build.
set -eu
umask 022

host=$DERIVE_HOST_TRIPLET
out=${DERIVE_OUT:-/out}
work=/build/perftest

# The sources are read-only, and so is what a plain copy of them would be.
cp -R /in/source "$work"
chmod -R u+w "$work"
cd "$work"

# The tarball carries the output of autotools of another time. It is made anew
# from what people wrote, since the patches add to Makefile.am.
rm -rf autom4te.cache config m4 aclocal.m4 config.h.in configure Makefile.in
mkdir m4
autoreconf --force --install --warnings=no-obsolete

# -g0: no debug information, so no paths; -O3 and the warnings are upstream's.
./configure \
	--build="${DERIVE_BUILD_TRIPLET:-x86_64-linux-gnu}" \
	--host="$host" \
	--prefix=/usr \
	--disable-dependency-tracking \
	CC="$host-gcc" \
	CFLAGS="-g0 -ffile-prefix-map=$work=. -fstack-protector-strong -D_FORTIFY_SOURCE=2" \
	LDFLAGS="-Wl,-z,relro,-z,now"

# What configure does not find is left out in silence: name what must be there.
for feature in HAVE_GID_TYPE_DECLARED HAVE_IBV_WR_API HAVE_MLX5DV HAVE_RO; do
	grep -q "^#define $feature 1\$" config.h || {
		echo "build.sh: configure did not find $feature" >&2
		exit 1
	}
done

make -j "$DERIVE_JOBS"
make install DESTDIR="$out"

"$host-strip" --strip-unneeded "$out"/usr/bin/ib_* "$out"/usr/bin/raw_ethernet_*
install -D -m 0644 COPYING "$out/usr/share/doc/perftest/copyright"
