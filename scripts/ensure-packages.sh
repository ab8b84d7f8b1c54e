# shellcheck shell=bash
# Sourced. `ensure_packages NAME...` installs from the distribution what is not installed yet; where it may not
# (neither root nor passwordless sudo), it says what is missing and how to install it, and the script ends with 1.
# Debian and Ubuntu only; anywhere else it checks nothing and says so, and the build tells what is missing.

missing_packages() {
    local name status
    for name in "$@"; do
        status=$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) || status=none
        [[ $status == installed ]] || printf '%s\n' "$name"
    done
}

# Runs apt-get as root or through sudo; needs $_apt_as of ensure_packages.
_apt_get() {
    "${_apt_as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=120 \
        -o Acquire::Retries=2 "$@" </dev/null >&2
}

ensure_packages() {
    local -a missing _apt_as=()
    if ! command -v dpkg-query >/dev/null; then
        echo "note: no dpkg here; install what corresponds to these Debian packages yourself: $*" >&2
        return 0
    fi
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]})) || return 0

    if ((EUID != 0)); then
        if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
            _apt_as=(sudo -n)
        else
            echo "Missing packages: ${missing[*]}" >&2
            echo "Neither root nor passwordless sudo, so nothing was installed. Run this, then try again:" >&2
            echo "    sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}" >&2
            exit 1
        fi
    fi
    echo "Installing: ${missing[*]}" >&2
    local try
    for try in 1 2; do
        # A failed update is not the end: the lists that are here may do.
        _apt_get update || echo "note: apt-get update failed (try $try)" >&2
        if _apt_get install --no-install-recommends "${missing[@]}"; then
            mapfile -t missing < <(missing_packages "${missing[@]}")
            ((${#missing[@]})) || return 0
            break
        fi
        ((try == 2)) || sleep 5
    done
    echo "Could not install: ${missing[*]}" >&2
    exit 1
}

# Packages that every build of this repository needs.
build_packages() {
    printf '%s\n' g++ meson ninja-build pkg-config libfabric-dev libhwloc-dev libabsl-dev nlohmann-json3-dev \
        libcli11-dev libcurl4-openssl-dev python3
}
