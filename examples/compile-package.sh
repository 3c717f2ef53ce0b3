#!/bin/sh
# Write $TESTROOT/package.tar.gz: a small C program with a configure script and a
# Makefile, so that the compile example needs nothing from the network.
#
# Usage: compile-package.sh      (a PRESETUP command)
# Reads: TESTROOT   absolute path of the directory to work in; made if missing
#        MODULES    how many C files the program has (default 12)
set -eu

modules=${MODULES:-12}
mkdir -p -- "${TESTROOT:?is not set}"
work=$(mktemp -d -- "$TESTROOT/package.XXXXXX")
trap 'rm -rf -- "$work"' EXIT
trap 'exit 143' TERM INT HUP
mkdir -- "$work/sorts"
cd -- "$work/sorts"

# Asks the compiler a few questions, as autoconf's scripts do, one run for each.
cat >configure <<'CONFIGURE'
#!/bin/sh
set -eu
: "${CC:=cc}"
: >config.h
for header in stddef.h stdint.h unistd.h sys/epoll.h sys/event.h threads.h; do
    name=HAVE_$(echo "$header" | tr 'a-z./' 'A-Z__')
    printf '#include <%s>\nint main(void) { return 0; }\n' "$header" >conftest.c
    if "$CC" -o conftest conftest.c 2>/dev/null; then
        echo "checking for $header... yes"
        echo "#define $name 1" >>config.h
    else
        echo "checking for $header... no"
    fi
done
rm -f conftest conftest.c
echo "CC = $CC" >config.mk
CONFIGURE
chmod +x configure

cat >Makefile <<'MAKEFILE'
include config.mk
OBJECTS = main.o $(patsubst %.c,%.o,$(wildcard module*.c))
sorts: $(OBJECTS)
	$(CC) -o $@ $(OBJECTS)
%.o: %.c config.h
	$(CC) -O2 -Wall -c -o $@ $<
check: sorts
	./sorts
MAKEFILE

{
    echo '#include <stdio.h>'
    for i in $(seq "$modules"); do echo "int check$i(void);"; done
    echo 'int main(void) { int wrong = 0;'
    for i in $(seq "$modules"); do echo "    wrong += check$i();"; done
    printf '    printf("%%d wrong\\n", wrong); return wrong != 0; }\n'
} >main.c

for i in $(seq "$modules"); do
    cat >"module$i.c" <<MODULE
#include "config.h"
#include <stddef.h>
#include <stdint.h>
enum { COUNT = 100 + $i };
int check$i(void);
static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}
static void insert(uint32_t *values, size_t n) {
    for (size_t i = 1; i < n; i++) {
        uint32_t value = values[i];
        size_t j = i;
        for (; j > 0 && values[j - 1] > value; j--) values[j] = values[j - 1];
        values[j] = value;
    }
}
static void heap(uint32_t *values, size_t n) {
    for (size_t start = n / 2, end = n; end > 1;) {
        if (start > 0) start--;
        else { end--; uint32_t t = values[end]; values[end] = values[0]; values[0] = t; }
        for (size_t root = start, child; (child = 2 * root + 1) < end; root = child) {
            if (child + 1 < end && values[child] < values[child + 1]) child++;
            if (values[root] >= values[child]) break;
            uint32_t t = values[root]; values[root] = values[child]; values[child] = t;
        }
    }
}
int check$i(void) {
    uint32_t one[COUNT], two[COUNT], state = $i;
    for (size_t i = 0; i < COUNT; i++) one[i] = two[i] = next(&state);
    insert(one, COUNT);
    heap(two, COUNT);
    for (size_t i = 0; i < COUNT; i++) if (one[i] != two[i]) return 1;
    return 0;
}
MODULE
done

cd ..
tar -czf package.tar.gz sorts
mv -- package.tar.gz "$TESTROOT/package.tar.gz"
