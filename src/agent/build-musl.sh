#!/bin/sh
# build-musl.sh MUSL_GCC SRC_DIR PRIVATE_DIR VERSION DEPFILE OUTPUT SOURCE...
# Compiles the agent as one static program, and checks that it is static: musl's -static-pie, for
# one, would quietly give a program that needs an interpreter.
set -eu

cc=$1 src=$2 private=$3 version=$4 depfile=$5 output=$6
shift 6

# musl-gcc does not look where the kernel's headers are, and must not find glibc's next to them.
headers=$private/kernel-headers
mkdir -p "$headers"
for d in linux asm-generic; do
	ln -sfn "/usr/include/$d" "$headers/$d"
done
asm=/usr/include/asm
[ -d "$asm" ] || asm=/usr/include/$(gcc -print-multiarch)/asm
ln -sfn "$asm" "$headers/asm"

flags="-std=gnu17 -D_GNU_SOURCE -Os -Wall -Wextra -Wno-unused-parameter
	-Wno-missing-field-initializers -Werror=implicit-function-declaration -fno-strict-aliasing
	-fno-common -fstack-protector-strong -ffunction-sections -fdata-sections -fno-pie
	-fno-asynchronous-unwind-tables -fno-unwind-tables"

: >"$private/deps"
objects=
n=0
for source; do
	n=$((n + 1))
	object=$private/$n.o
	# shellcheck disable=SC2086 # flags are words
	"$cc" $flags "-DMAYFLY_VERSION=\"$version\"" -I"$src" -idirafter "$headers" -MD -MF "$private/$n.d" -c "$source" \
		-o "$object"
	sed -e 's/^[^:]*://' "$private/$n.d" | tr -d '\\' | tr -s ' \n' '\n' >>"$private/deps"
	objects="$objects $object"
done
# shellcheck disable=SC2086
"$cc" -static -no-pie -s -Wl,--gc-sections -Wl,-z,norelro -Wl,-z,noexecstack -Wl,-z,noseparate-code \
	-Wl,--build-id=none $objects -o "$output"

if readelf -lW "$output" | grep -q INTERP; then
	echo "build-musl.sh: $output is not static" >&2
	rm -f "$output"
	exit 1
fi
{
	printf '%s:' "$output"
	sort -u "$private/deps" | grep . | tr '\n' ' ' | sed 's/^/ /'
	echo
} >"$depfile"
