#!/bin/sh
# Tests of pages run in Chromium. Install Debian's where we may; otherwise say so and go on: only those tests are skipped.
if command -v chromium >/dev/null || command -v google-chrome >/dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null && exit 0
fi
echo "note: no Chromium was found, so tests of pages are skipped. On Debian: sudo apt-get install chromium"
exit 0
