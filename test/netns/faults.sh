#!/usr/bin/env bash
# Faults of the kernel's own network under engines over tcp: links that go down and come back, black holes, loss and
# reordering. Three machines, played by network namespaces (-a, -b, -c), are joined by two switches, bridges in a fourth
# one (-hub), with a device of each machine on each: e1 and e2. Machines a and b also have a wire of their own, e3, whose
# packets the test program carries itself.
#
#     faults.sh TEST_PROGRAM
#
# Exit status 77 with the reason as the last line where namespaces may not be made.
set -euo pipefail

program=$1
# shellcheck source=test/netns/namespaces.sh
. "$(dirname "${BASH_SOURCE[0]}")/namespaces.sh"

hub=ry-$id-hub
make_namespace "$hub"
for switch in 1 2; do
    ip -n "$hub" link add "br$switch" type bridge 2>"$work/why" || skip "may not make bridges: $(why)"
    ip -n "$hub" link set "br$switch" up
done
number=0
for host in a b c; do
    number=$((number + 1))
    make_namespace "ry-$id-$host"
    for switch in 1 2; do
        make_cable "ry-$id-$host" "e$switch" "$hub" "$host$switch"
        ip -n "$hub" link set "$host$switch" master "br$switch" up
        bring_up "ry-$id-$host" "e$switch" "10.212.$switch.$number/24"
    done
done
for host in a b c; do
    for switch in 1 2; do
        await_running "ry-$id-$host" "e$switch"
    done
done

RAILYARD_NETNS=ry-$id ip netns exec "ry-$id-a" "$program" &
child=$!
status=0
wait "$child" || status=$?
child=''
exit "$status"
