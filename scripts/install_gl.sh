#!/bin/sh
# Videos need a GL library. Install Mesa's where we may; otherwise say so and go on: training does not need it.
if ldconfig -p 2>/dev/null | grep -q 'libEGL\.so\.1\|libOSMesa\.so'; then
    exit 0
fi
packages="libegl1 libgl1-mesa-dri"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages >/dev/null && exit 0
fi
echo "note: no GL library was found, so no videos can be made. On Debian and Ubuntu: sudo apt-get install $packages"
exit 0
