#!/usr/bin/env bash
# Two machines with two network devices each, played by two network namespaces joined by two veth pairs: a transfer has
# one rail on each device, its data is verified, and both devices carried a fair part of it.
#
#     two_devices.sh RAILYARD_BENCH PLUGIN_DIR
#
# Exit status 77 with the reason as the last line where namespaces may not be made.
set -euo pipefail

bench=$1 plugin_dir=$2
size_mib=4 iterations=40
[[ -x $bench ]] || { echo "no benchmark at $bench" >&2; exit 1; }
# shellcheck source=test/netns/namespaces.sh
. "$(dirname "${BASH_SOURCE[0]}")/namespaces.sh"

left=ry-$id-l right=ry-$id-r
make_namespace "$left"
make_namespace "$right"
make_cable "$left" "ry${id}p" "$right" "ry${id}q"
make_cable "$left" "ry${id}s" "$right" "ry${id}t"
bring_up "$left" "ry${id}p" 10.211.1.1/24
bring_up "$right" "ry${id}q" 10.211.1.2/24
bring_up "$left" "ry${id}s" 10.211.2.1/24
bring_up "$right" "ry${id}t" 10.211.2.2/24
for entry in "$left ry${id}p" "$right ry${id}q" "$left ry${id}s" "$right ry${id}t"; do
    read -r name dev <<<"$entry"
    await_running "$name" "$dev"
done

# received NAMESPACE DEVICE: bytes
received() {
    ip netns exec "$1" cat "/sys/class/net/$2/statistics/rx_bytes"
}

common=(--plugin-dir "$plugin_dir" --param provider=tcp --timeout 30)
echo "target in $right on ry${id}q,ry${id}t; initiator in $left on ry${id}p,ry${id}s"
ip netns exec "$right" "$bench" --role target --peer 10.211.1.2:18515 \
    --param "devices=ry${id}q,ry${id}t" "${common[@]}" >"$work/target" 2>&1 &
child=$!
status=0
ip netns exec "$left" timeout --kill-after=5 90 "$bench" --role initiator --peer 10.211.1.2:18515 \
    --param "devices=ry${id}p,ry${id}s" "${common[@]}" --op both --sizes "${size_mib}M" --iters "$iterations" \
    --window 4 --notify on --json "$work/result.json" || status=$?
wait "$child" || { echo "target: exit status $?"; status=1; }
child=''
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
