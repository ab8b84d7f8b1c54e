#!/usr/bin/env bash
# Eight machines, each played by a network namespace with one device on a switch, and a process of railyard-bench on each:
# all patterns, with every byte verified, and a process that dies while it is timed, whom all others name. They meet in a
# real etcd server, which has an address on the switch, or at a plain socket of rank 0.
#
#     many_nodes.sh RAILYARD_BENCH PLUGIN_DIR etcd|tcp
#
# Exit status 77 with the reason as the last line where there is no etcd, or namespaces may not be made.
set -euo pipefail

bench=$1 plugin_dir=$2 meeting=$3
world=8 port=5500
[[ -x $bench ]] || { echo "no benchmark at $bench" >&2; exit 1; }
# shellcheck source=test/netns/namespaces.sh
. "$(dirname "${BASH_SOURCE[0]}")/namespaces.sh"
if [[ $meeting == etcd ]]; then
    command -v etcd >/dev/null || skip "needs an etcd server (package etcd-server)"
fi

hub=ry-$id-hub
make_namespace "$hub"
ip -n "$hub" link add switch type bridge 2>"$work/why" || skip "may not make bridges: $(why)"
bring_up "$hub" switch 10.213.0.100/24
for ((rank = 0; rank < world; rank++)); do
    make_namespace "ry-$id-$rank"
    make_cable "ry-$id-$rank" e1 "$hub" "node$rank"
    ip -n "$hub" link set "node$rank" master switch up
    bring_up "ry-$id-$rank" e1 "10.213.0.$((rank + 1))/24"
done
for ((rank = 0; rank < world; rank++)); do
    await_running "ry-$id-$rank" e1
done

start_etcd() {
    local url=http://10.213.0.100:2379 try
    ip netns exec "$hub" etcd --data-dir "$work/etcd" --listen-client-urls "$url" --advertise-client-urls "$url" \
        --listen-peer-urls http://127.0.0.1:2380 --unsafe-no-fsync >"$work/etcd.log" 2>&1 &
    children+=("$!")
    for ((try = 0; try < 100; try++)); do
        if keys >/dev/null; then
            return 0
        fi
        kill -0 "${children[0]}" 2>/dev/null || break
        sleep 0.1
    done
    echo "the etcd server does not start:"
    tail -n 20 "$work/etcd.log"
    exit 1
}

# keys: how many there are in etcd
keys() {
    ip netns exec "$hub" python3 - 2>/dev/null <<'COUNT'
import json, urllib.request
request = json.dumps({"key": "AA==", "range_end": "AA==", "count_only": True}).encode()
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print(json.load(opener.open("http://10.213.0.100:2379/v3/kv/range", request, timeout=5)).get("count", 0))
COUNT
}

# start_group NAME ARGUMENT...: a process on each machine; pids in $group
start_group() {
    local name=$1 rank
    local -a meet
    shift
    group=()
    for ((rank = 0; rank < world; rank++)); do
        if [[ $meeting == etcd ]]; then
            meet=(--rendezvous "etcd://10.213.0.100:2379/$name")
        else
            meet=(--rendezvous "tcp://10.213.0.1:$port" --rank "$rank")
        fi
        ip netns exec "ry-$id-$rank" "$bench" --plugin-dir "$plugin_dir" --param provider=tcp --param devices=e1 \
            --world "$world" "${meet[@]}" --json "$work/$name.json" "$@" >"$work/$name.$rank" 2>&1 &
        group+=("$!")
        children+=("$!")
    done
}

show() {
    local rank
    for ((rank = 0; rank < world; rank++)); do
        echo "----- process $rank of $1"
        cat "$work/$1.$rank"
    done
    exit 1
}

run_pattern() {
    local pattern=$1 process bad=0
    start_group "$pattern" --pattern "$pattern" --op both --sizes 8,64K,1M --batch 3 --notify on --iters 10 --window 2 \
        --timeout 30
    for process in "${group[@]}"; do
        wait "$process" || bad=1
    done
    ((bad == 0)) || show "$pattern"
    python3 - "$work/$pattern.json" "$pattern" <<'CHECK' || show "$pattern"
import json, sys
document = json.load(open(sys.argv[1], encoding="utf-8"))
initiators = {"all-to-all": list(range(8)), "many-to-one": list(range(1, 8)), "one-to-many": [0], "pairwise": [0, 1, 2, 3]}
targets = {"all-to-all": 7, "many-to-one": 1, "one-to-many": 7, "pairwise": 1}
assert len(document["results"]) == 6 and "error" not in document, document
assert len(set(document["group"]["members"])) == 8, document["group"]
for row in document["results"]:
    assert row["checked"] and "wrong" not in row, f"not verified: {row}"
    assert [each["rank"] for each in row["processes"]] == initiators[sys.argv[2]], row
    assert all(each["iterations"] == 10 * targets[sys.argv[2]] for each in row["processes"]), row
    assert row["mb_per_s"] > 0 and all(each["mb_per_s"] > 0 for each in row["processes"]), row
print(f"{sys.argv[2]}: 8 processes, {len(document['results'])} points, verified")
CHECK
}

# Rank 5 of those that meet at a socket is the sixth machine; in etcd they arrive as they come.
run_death() {
    local pattern=$1 process number=0 status dead=0 began=$SECONDS
    start_group "death-$pattern" --pattern "$pattern" --die 5 --sizes 64K --seconds 60 --timeout 9
    for process in "${group[@]}"; do
        status=0
        wait "$process" || status=$?
        if ((status == 137)); then
            dead=$((dead + 1))
        elif ((status != 1)) || ! grep -q "railyard-bench: .*rank 5\b" "$work/death-$pattern.$number"; then
            echo "process $number, exit status $status, does not say that rank 5 has gone"
            show "death-$pattern"
        fi
        number=$((number + 1))
    done
    ((dead == 1)) || { echo "$dead died, not one"; show "death-$pattern"; }
    ((SECONDS - began < 30)) || { echo "$pattern: that took $((SECONDS - began)) s"; show "death-$pattern"; }
    echo "$pattern: rank 5 died, and all others said so within $((SECONDS - began)) s"
}

[[ $meeting != etcd ]] || start_etcd
for pattern in all-to-all many-to-one one-to-many pairwise; do
    run_pattern "$pattern"
done
for ((rank = 0; rank < world; rank++)); do
    bytes=$(ip netns exec "ry-$id-$rank" cat /sys/class/net/e1/statistics/rx_bytes)
    # Alone the slices of one point of 1 MiB that a rank gets from all others.
    ((bytes > 7 * 2 * 3 * 1024 * 1024)) || { echo "machine $rank received $bytes bytes only"; exit 1; }
done
if [[ $meeting == etcd ]] && (($(keys) != 0)); then
    echo "$(keys) keys are left in etcd"
    exit 1
fi
for pattern in all-to-all pairwise; do
    run_death "$pattern"
done
