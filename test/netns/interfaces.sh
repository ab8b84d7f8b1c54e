#!/usr/bin/env bash
# Which interface tcp takes where nobody names one, on machines of several interfaces that are network namespaces; and
# what is said where it takes none.
#
#     interfaces.sh RAILYARD_INFO CASE
#
# Exit status 77 with the reason as the last line where namespaces may not be made.
set -euo pipefail

info=$1 case=$2
[[ -x $info ]] || { echo "no railyard-info at $info" >&2; exit 1; }
# shellcheck source=test/netns/namespaces.sh
. "$(dirname "${BASH_SOURCE[0]}")/namespaces.sh"
unset FI_PROVIDER FI_PROVIDER_PATH FI_TCP_IFACE FI_NET_IFACE "${!RAILYARD_@}"

here=ry-$id-a there=ry-$id-b
make_namespace "$here"
make_namespace "$there"

# add DEVICE [ADDRESS/LENGTH]...: up, with these addresses alone; with `link-local` in their place, what the kernel gives
# every interface of IPv6
add() {
    local device=$1 address try
    shift
    make_cable "$here" "$device" "$there" "$device"
    [[ ${1:-} == link-local ]] || ip -n "$here" link set "$device" addrgenmode none
    ip -n "$there" link set "$device" up
    ip -n "$here" link set "$device" up
    await_running "$here" "$device"
    for address; do
        case $address in
            link-local) ;;
            *:*) ip -n "$here" address add "$address" dev "$device" nodad ;;
            *) ip -n "$here" address add "$address" dev "$device" ;;
        esac
    done
    if [[ ${1:-} == link-local ]]; then
        for ((try = 0; try < 100; try++)); do
            [[ $(ip -n "$here" -6 address show dev "$device" -tentative) != *fe80:* ]] || return 0
            sleep 0.1
        done
        echo "$device has no link-local address within 10 s"
        exit 1
    fi
}

# here COMMAND...: in the namespace
here() {
    ip netns exec "$here" "$@"
}

# rails ARGUMENT...: "FAMILY DEVICE..." of what an engine would take, each device once, however many rails it has
rails() {
    here "$info" --json "$@" 2>"$work/log" | python3 -c '
import json, sys
rails = json.load(sys.stdin)["rails"]
print("shm" if rails[0]["provider"] == "shm" else "tcp", *dict.fromkeys(rail["name"] for rail in rails))'
}

# expect WANTED GOT
expect() {
    [[ $1 == "$2" ]] && return
    echo "'$1' is wanted, not '$2'; the log:"
    cat "$work/log"
    exit 1
}

# told FILE PART...: all in one line of it
told() {
    local file=$1 lines part
    shift
    lines=$(<"$file")
    for part; do
        lines=$(grep -F -- "$part" <<<"$lines") || { echo "nothing says '$part':"; cat "$file"; exit 1; }
    done
}

# Another interface that would lead somewhere, if it were offered; nothing is said of it.
quietly_on() {
    expect "tcp $1" "$(rails)"
    expect "tcp $1" "$(rails --provider tcp)"
    expect '' "$(cat "$work/log")"
    here "$info" doctor >"$work/doctor" 2>&1 || (($? == 1)) || { cat "$work/doctor"; exit 1; }
    told "$work/doctor" 'ok       rails: ' ' over tcp'
}

case $case in
unnumbered)
    add eno1
    add bond0 10.9.0.1/24
    quietly_on bond0
    ip -n "$here" route add default via 10.9.0.2
    quietly_on bond0
    ;;
link-local)
    add eno1 link-local
    add usb0 169.254.3.1/24
    add bond0 10.9.0.1/24
    quietly_on bond0
    ;;
ipv6-route)
    add eth0 2001:db8:1::1/64
    add eth1 2001:db8:2::1/64
    quietly_on eth0
    ip -n "$here" -6 route add default via 2001:db8:2::2
    quietly_on eth1
    ;;
loopback)
    expect 'tcp lo' "$(rails)"
    expect '' "$(cat "$work/log")"
    ;;
variable)
    add eth0 10.8.0.1/24
    add ib0 10.9.0.1/24
    ip -n "$here" route add default via 10.8.0.2
    quietly_on eth0
    export FI_TCP_IFACE=ib0 FI_NET_IFACE=ib0 # libfabric 1.17 has two providers for it
    quietly_on ib0
    told "$work/doctor" "tcp-interface: ib0; the default route's is eth0"
    ip -n "$here" address flush dev ib0
    case $(rails) in
        'tcp lo') # libfabric 1.17 offers the loopback all the same
            told "$work/log" 'tcp takes lo, which reaches no other machine' '(eth0)' 'FI_NET_IFACE is "ib0"'
            what='tcp-interface: lo reaches this machine alone'
            ;;
        'shm shm')
            told "$work/log" 'auto takes shm, which reaches no other machine' '(eth0)' 'FI_TCP_IFACE is "ib0"'
            what='rails: 1 rail over shm: no other machine is reached'
            if here "$info" --provider tcp >"$work/report" 2>"$work/log"; then
                echo "tcp was found where libfabric offers none:"
                cat "$work/report"
                exit 1
            fi
            told "$work/log" 'no usable device' 'FI_TCP_IFACE is "ib0"' 'FI_NET_IFACE is "ib0"'
            ;;
        *) expect 'tcp lo, or shm shm' "$(rails)" ;;
    esac
    status=0
    here "$info" doctor >"$work/doctor" 2>"$work/log" || status=$?
    expect 1 "$status"
    told "$work/doctor" "warning  $what"
    told "$work/doctor" '(eth0)'
    told "$work/doctor" '-> unset FI_TCP_IFACE ("ib0" here)'
    expect 'shm shm' "$(rails --provider shm)"
    expect '' "$(cat "$work/log")"
    ;;
*)
    echo "no case $case" >&2
    exit 1
    ;;
esac
