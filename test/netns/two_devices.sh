#!/usr/bin/env bash
# Two machines with two network devices each, played by two network namespaces joined by two veth pairs: a transfer has
# one rail on each device, its data is verified, and both devices carried a fair part of it.
#
#     two_devices.sh RAILYARD_BENCH PLUGIN_DIR
#
# Exit status 77 with the reason as the last line where namespaces may not be made.
set -euo pipefail

bench=$1 plugin_dir=$2
id=$(($$ % 100000))
left=ry-$id-l right=ry-$id-r
size_mib=4 iterations=40
work=$(mktemp -d "${TMPDIR:-/tmp}/railyard-netns.XXXXXX")
target_pid=''

skip() {
    echo "$1"
    exit 77
}

# shellcheck disable=SC2317  # called through the trap
clean_up() {
    local status=$? name
    trap - EXIT
    if [[ -n $target_pid ]]; then
        kill -KILL "$target_pid" 2>/dev/null || true
        wait "$target_pid" 2>/dev/null || true
    fi
    for name in "$left" "$right"; do # their ends of the veth pairs go with them
        ip netns del "$name" 2>/dev/null || true
    done
    rm -rf -- "$work"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 143' TERM INT HUP

command -v ip >/dev/null || skip "needs ip (package iproute2)"
((EUID == 0)) || skip "needs root to make network namespaces"
[[ -x $bench ]] || { echo "no benchmark at $bench" >&2; exit 1; }
ip netns add "$left" 2>"$work/why" || skip "may not make network namespaces: $(tr '\n' ' ' <"$work/why")"
ip netns exec "$left" true 2>"$work/why" || skip "may not run in a network namespace: $(tr '\n' ' ' <"$work/why")"
ip netns add "$right"
ip link add "ry${id}p" netns "$left" type veth peer name "ry${id}q" netns "$right" 2>"$work/why" ||
    skip "may not make veth pairs: $(tr '\n' ' ' <"$work/why")"
ip link add "ry${id}s" netns "$left" type veth peer name "ry${id}t" netns "$right"

# device NAMESPACE NAME ADDRESS
device() {
    ip -n "$1" address add "$3/24" dev "$2"
    ip -n "$1" link set "$2" up
}
device "$left" "ry${id}p" 10.211.1.1
device "$right" "ry${id}q" 10.211.1.2
device "$left" "ry${id}s" 10.211.2.1
device "$right" "ry${id}t" 10.211.2.2
for name in "$left" "$right"; do
    ip -n "$name" link set lo up
done

# The kernel calls a link running a little after it is up, and libfabric passes over one that is not.
running() {
    [[ $(ip netns exec "$1" cat "/sys/class/net/$2/operstate") == up ]]
}
for entry in "$left ry${id}p" "$right ry${id}q" "$left ry${id}s" "$right ry${id}t"; do
    read -r name dev <<<"$entry"
    for ((try = 0; try < 100; try++)); do
        ! running "$name" "$dev" || break
        sleep 0.1
    done
    running "$name" "$dev" || { echo "$dev did not come up within 10 s"; exit 1; }
done

# received NAMESPACE DEVICE: bytes
received() {
    ip netns exec "$1" cat "/sys/class/net/$2/statistics/rx_bytes"
}

common=(--plugin-dir "$plugin_dir" --param provider=tcp --timeout 30)
echo "target in $right on ry${id}q,ry${id}t; initiator in $left on ry${id}p,ry${id}s"
ip netns exec "$right" "$bench" --role target --peer 10.211.1.2:18515 \
    --param "devices=ry${id}q,ry${id}t" "${common[@]}" >"$work/target" 2>&1 &
target_pid=$!
status=0
ip netns exec "$left" timeout --kill-after=5 90 "$bench" --role initiator --peer 10.211.1.2:18515 \
    --param "devices=ry${id}p,ry${id}s" "${common[@]}" --op both --sizes "${size_mib}M" --iters "$iterations" \
    --window 4 --notify on --json "$work/result.json" || status=$?
wait "$target_pid" || { echo "target: exit status $?"; status=1; }
target_pid=''
if ((status)); then
    echo "----- target"
    cat "$work/target"
    exit 1
fi

python3 - "$work/result.json" <<'CHECK'
import json, sys
results = json.load(open(sys.argv[1], encoding="utf-8"))["results"]
assert {row["op"] for row in results} == {"write", "read"}, results
for row in results:
    assert row["rails"] == 2, f"{row['rails']} rails, not 2: {row}"
    assert row["checked"], f"not verified: {row}"
    print(f"{row['op']}: 2 rails, verified, {row['mb_per_s']} MB/s")
CHECK

# WRITE fills the target's devices, READ the initiator's; a tenth of the data on each is far more than chatter.
least=$((size_mib * 1024 * 1024 * iterations / 10))
for entry in "$right ry${id}q" "$right ry${id}t" "$left ry${id}p" "$left ry${id}s"; do
    read -r name dev <<<"$entry"
    bytes=$(received "$name" "$dev")
    echo "$dev received $bytes bytes"
    if ((bytes < least)); then
        echo "$dev carried next to nothing (at least $least bytes expected)"
        exit 1
    fi
done
echo "both devices carried data both ways"
