#!/bin/sh
# The power-cut test records system calls with strace. Install it where we may; otherwise say so and go on: only that test needs it.
if command -v strace >/dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends strace >/dev/null && exit 0
fi
echo "note: strace was not found, so the power-cut test is skipped. On Debian and Ubuntu: sudo apt-get install strace"
exit 0
