#!/bin/sh
# ManiSkill needs a Vulkan device even when nothing is drawn. Where there is no GPU, Mesa's software device (lavapipe) serves,
# from version 24.3 on: older ones lack what SAPIEN asks for. Debian 12 has it in its backports.
needed=24.3
enough() { [ -n "$1" ] && dpkg --compare-versions "$1" ge "$needed"; }
version() { dpkg-query -W -f '${Version}' mesa-vulkan-drivers 2>/dev/null; }

if [ -n "$(ls /usr/share/vulkan/icd.d/nvidia_icd*.json /etc/vulkan/icd.d/nvidia_icd*.json 2>/dev/null)" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "note: ManiSkill needs a Vulkan device: a GPU's driver, or Mesa's lavapipe >= $needed (mesa-vulkan-drivers)."
    exit 1
fi
enough "$(version)" && exit 0
if [ "$(id -u)" != 0 ]; then
    echo "note: ManiSkill needs a Vulkan device. Install Mesa's with: sudo sh scripts/install_vulkan.sh"
    exit 1
fi

. /etc/os-release
backports="$VERSION_CODENAME-backports"
apt-get update -qq
offered=$(apt-cache policy mesa-vulkan-drivers | sed -n 's/ *Candidate: //p')
from=
if ! enough "$offered" && [ "$ID" = debian ]; then
    # From the mirror this machine uses already.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Release: $VERSION_CODENAME" | head -n 1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $backports main" \
        >"/etc/apt/sources.list.d/$backports.list"
    apt-get update -qq
    from="-t $backports"
fi
apt-get install -y -qq --no-install-recommends $from mesa-vulkan-drivers libvulkan1 >/dev/null
if ! enough "$(version)"; then
    echo "note: Mesa >= $needed is needed for ManiSkill, but this system has only '$(version)'. Take a newer release, or a machine with a GPU."
    exit 1
fi
