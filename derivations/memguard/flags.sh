# SPDX-License-Identifier: Apache-2.0
#
# What build.sh and tests.sh compile with: every warning is an error.
warnings="-Wall -Wextra -Werror -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes
	-Wvla -Wformat=2 -Wcast-align -Wcast-qual -Wwrite-strings -Wundef -Wnull-dereference -Wimplicit-fallthrough"
language="-std=c17 -D_GNU_SOURCE"
