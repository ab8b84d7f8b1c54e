# shellcheck shell=bash
# shellcheck disable=SC2154  # suite, tree and cache, of whoever sources this
# Sourced, after ensure-packages.sh: what chroots of Debian are made with. The script sets `suite` (the release), `tree` (where
# the root is or is to be) and `cache` (for logs), and mounts only in a mount namespace of its own, which takes the mounts along
# however it ends.

# shellcheck disable=SC2034  # for the scripts
environment=(DEBIAN_FRONTEND=noninteractive HOME=/tmp LC_ALL=C.UTF-8
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)

fail() {
    echo "no $suite chroot: $1" >&2
    exit 125
}

need_chroot() {
    ((EUID == 0)) || fail "needs root, for chroot and mounts"
    command -v apt-get >/dev/null || fail "needs Debian's apt-get on this machine"
    (ensure_packages debootstrap debian-archive-keyring util-linux) || fail "debootstrap is not installed"
    unshare --mount true 2>/dev/null || fail "may not make a mount namespace here"
}

# The address that this machine's own apt gets Debian from.
mirror() {
    if [[ -n ${RAILYARD_DEBIAN_MIRROR:-} ]]; then
        echo "$RAILYARD_DEBIAN_MIRROR"
        return
    fi
    # shellcheck disable=SC2016  # apt's own placeholders
    apt-get indextargets --format '$(RELEASE) $(ORIGIN) $(REPO_URI)' 'Created-By: Packages' 'Component: main' |
        awk '$1 !~ /-/ && ($2 == "Debian" || NF == 2) && !found { print $NF; found = 1 }'
}

# bind SOURCE [TARGET]: shows a file or directory of this machine in the chroot, where it is there.
bind() {
    local target=$tree${2:-$1}
    if [[ -d $1 ]]; then
        mkdir -p "$target"
    elif [[ -e $1 ]]; then
        mkdir -p "$(dirname "$target")"
        [[ -e $target ]] || : >"$target"
    else
        return 0
    fi
    mount --bind "$1" "$target"
}

# Only ever called in a mount namespace of our own.
mount_system() {
    local name
    mount --bind /proc "$tree/proc"
    mount --rbind /sys "$tree/sys"
    mount -t tmpfs -o mode=1777 none "$tree/tmp"
    mount -t tmpfs -o mode=755 none "$tree/dev"
    for name in null zero full random urandom tty net/tun; do
        bind "/dev/$name"
    done
    bind /dev/shm
    ln -s /proc/self/fd "$tree/dev/fd"
    for name in /etc/resolv.conf /etc/hosts /etc/pip.conf; do
        bind "$name"
    done
    if [[ -s /etc/ssl/certs/ca-certificates.crt ]]; then
        for name in /etc/ssl/certs /usr/share/ca-certificates /usr/local/share/ca-certificates; do
            bind "$name"
        done
    fi
}

# Makes a minimal Debian in $tree, with this machine's mirror and settings of apt.
bootstrap() {
    local from
    from=$(mirror)
    [[ -n $from ]] || fail "apt knows no Debian mirror here; name one in RAILYARD_DEBIAN_MIRROR"
    debootstrap --variant=minbase "$suite" "$tree" "$from" >"$cache/debootstrap.log" 2>&1 ||
        fail "debootstrap says: $(tail -n 1 "$cache/debootstrap.log")"
    apt-config dump | grep -iE '^Acquire::[a-z]*::?(Proxy|CaInfo|Verify|Timeout|Retries)' \
        >"$tree/etc/apt/apt.conf.d/90host" || true
    echo force-unsafe-io >"$tree/etc/dpkg/dpkg.cfg.d/90fast"
}
