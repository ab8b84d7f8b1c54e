# shellcheck shell=bash
# Sourced by the tests that play several machines with network namespaces: makes them, skips where that is not permitted,
# and takes them away at the end, however that comes.
#
# namespaces: those made so far, with devices and processes inside; id: a number for names; work: a folder for files;
# child, children: processes that are killed at the end, if they are still there.

# shellcheck disable=SC2034  # for who sources this
id=$(($$ % 100000))
work=$(mktemp -d "${TMPDIR:-/tmp}/railyard-netns.XXXXXX")
namespaces=()
child=''
children=()

# shellcheck disable=SC2317  # called through the trap
clean_up() {
    local status=$? name process
    trap - EXIT
    for process in ${child:+"$child"} ${children[@]+"${children[@]}"}; do
        kill -KILL "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    for name in ${namespaces[@]+"${namespaces[@]}"}; do # their devices go with them
        ip netns del "$name" 2>/dev/null || true
    done
    rm -rf -- "$work"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 143' TERM INT HUP

# skip REASON: for what this machine lacks
skip() {
    echo "$1"
    exit 77
}

# why: the last error of a command that was run with 2>"$work/why", on one line
why() {
    tr '\n' ' ' <"$work/why"
}

# make_namespace NAME
make_namespace() {
    command -v ip >/dev/null || skip "needs ip (package iproute2)"
    ((EUID == 0)) || skip "needs root to make network namespaces"
    ip netns add "$1" 2>"$work/why" || skip "may not make network namespaces: $(why)"
    namespaces+=("$1")
    ip netns exec "$1" true 2>"$work/why" || skip "may not run in a network namespace: $(why)"
    ip -n "$1" link set lo up
}

# make_cable NAMESPACE DEVICE NAMESPACE DEVICE: a veth pair
make_cable() {
    ip link add "$2" netns "$1" type veth peer name "$4" netns "$3" 2>"$work/why" ||
        skip "may not make veth pairs: $(why)"
}

# bring_up NAMESPACE DEVICE ADDRESS/LENGTH
bring_up() {
    ip -n "$1" address add "$3" dev "$2"
    ip -n "$1" link set "$2" up
}

# await_running NAMESPACE DEVICE: the kernel calls a link running a little after it is up, and libfabric passes over one
# that is not.
await_running() {
    local try
    for ((try = 0; try < 100; try++)); do
        if [[ $(ip netns exec "$1" cat "/sys/class/net/$2/operstate") == up ]]; then
            return 0
        fi
        sleep 0.1
    done
    echo "$2 did not come up within 10 s"
    exit 1
}
