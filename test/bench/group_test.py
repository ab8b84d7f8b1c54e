#!/usr/bin/env python3
"""Groups of processes of railyard-bench as a user runs them.  group_test.py PROGRAM CASE PLUGIN_DIR"""
import base64
import http.server
import json
import os
import re
import resource
import socket
import subprocess
import threading
import time

from etcd_server import EtcdServer, free_ports
from program import CASE, FAST, LIMIT, PLUGIN, PROGRAM, expect, results, run, simulated


def group_results(*arguments, world, pattern, points, initiators):
    """Every point is right, and has a result of each initiator, which add up."""
    for found in results(*PLUGIN, "--world", str(world), "--pattern", pattern, *arguments, points=points):
        expect((found["world"], found["pattern"]) == (world, pattern), f"wrong labels: {found}")
        rows = found["processes"]
        expect([row["rank"] for row in rows] == initiators, f"wrong initiators: {rows}")
        expect(sum(row["iterations"] for row in rows) == found["iterations"], f"they do not add up: {found}")
        expect(max(row["seconds"] for row in rows) == found["seconds"], f"not the slowest's time: {found}")


def group_patterns(*more):
    few = ["--op", "both", "--notify", "both", "--sizes", "1,5000,300000", "--batch", "1,3", "--iters", "20",
           "--window", "3", *more]
    group_results(*few, world=4, pattern="all-to-all", points=24, initiators=[0, 1, 2, 3])
    group_results(*few, world=4, pattern="pairwise", points=24, initiators=[0, 1])
    group_results(*few, world=3, pattern="many-to-one", points=24, initiators=[1, 2])
    group_results(*few, world=3, pattern="one-to-many", points=24, initiators=[0])


def group_wrong():
    """What is wrong anywhere is told, by whom, and is everybody's exit status."""
    for op, text in (("write", "has from rank"), ("read", "read from rank")):
        done = run(*PLUGIN, *FAST, "--world", "3", "--op", op, "--sizes", "8", "--corrupt", "data", "--json", "-", status=1)
        expect(re.search(rf"WRONG: .*what rank \d {text} \d: .*wrong data", done.stderr), "does not say what is wrong", done)
        expect(json.loads(done.stdout)["results"][0]["checked"] is False, "the result looks right", done)
        done = run(*PLUGIN, *FAST, "--world", "3", "--op", op, "--sizes", "8", "--corrupt", "reposts", "--json", "-", status=1)
        expect(re.search(rf"WRONG: .*after the timed part: what rank \d {text} \d: .*wrong data", done.stderr), "does not say what is wrong", done)
        expect(json.loads(done.stdout)["results"][0]["checked"] is False, "the result looks right", done)
    done = run(*PLUGIN, *FAST, "--world", "4", "--pattern", "many-to-one", "--sizes", "8", "--per-process")
    rows = [line.split()[3] for line in done.stdout.splitlines()[2:]]
    expect(rows == ["1", "2", "3", "all"], f"rows of {rows}", done)


def group_death():
    """One kills itself while it is timed: all others say who, and end."""
    for pattern, who, told in (("all-to-all", 2, "0134"), ("many-to-one", 3, "0124"), ("one-to-many", 4, "0123"),
                               ("one-to-many", 0, "1234")):
        done = run(*PLUGIN, "--world", "5", "--pattern", pattern, "--die", str(who), "--sizes", "4K", "--timeout", "20",
                   "--seconds", "20", "--json", "-", status=1 if who else -9)
        if who:
            expect(f"rank {who}" in json.loads(done.stdout)["error"], "the JSON does not say who", done)
            expect(f"rank {who} was killed by signal 9" in done.stderr, "does not say how", done)
            for rank in told:
                expect(re.search(rf"railyard-bench: rank {rank}: .*rank {who}", done.stderr), f"rank {rank} is silent", done)


def group_descriptors():
    """The soft limit of open files is raised. Where the hard one leaves no room for all, that is said, and nothing goes on."""
    def limited(soft, hard, *arguments):
        return subprocess.run([PROGRAM, *PLUGIN, *FAST, "--sizes", "4K", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=LIMIT, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
    done = limited(16, 1024, "--world", "6")
    expect(done.returncode == 0, f"status {done.returncode} with a soft limit of 16", done)
    begin = time.monotonic()
    done = limited(24, 24, "--world", "40", "--timeout", "30")
    expect(time.monotonic() - begin < 25, f"that took {time.monotonic() - begin:.1f} s", done)
    expect(done.returncode == 1, f"status {done.returncode} without room", done)
    expect(re.search(r"no room for more than \d+ of 40 processes at rank 0, .*limit 24.*ulimit -n", done.stderr), "does not say what is short", done)
    expect(len(done.stderr.splitlines()) < 200, "says it over and over", done)


def start(world, *arguments, address):
    return subprocess.Popen([PROGRAM, *PLUGIN, "--world", str(world), "--rendezvous", address, "--provider", "tcp", "--param",
                             "devices=lo", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def ends_of(started):
    """(status, output, errors) of each."""
    try:
        ends = [process.communicate(timeout=LIMIT) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    return [(process.returncode, *end) for process, end in zip(started, ends)]


def group_of(count, *arguments, address, world=0):
    """Processes of their own that meet at `address`."""
    return ends_of([start(world or count, *FAST, "--sizes", "4K", *arguments, address=address) for _ in range(count)])


def expect_errors(ends, text):
    for status, _, errors in ends:
        expect(status == 1 and re.search(text, errors), f"no '{text}': {ends}")


def meet_anywhere(address):
    """What holds wherever they meet: without ranks they get those of their arrival, and rank 0 alone prints."""
    ends = group_of(4, "--notify", "on", "--op", "both", address=address)
    expect([status for status, _, _ in ends] == [0] * 4, f"not all well: {ends}")
    expect(sorted(len(output.splitlines()) for _, output, _ in ends) == [0, 0, 0, 7], f"not one table: {ends}")
    expect_errors(group_of(2, "--timeout", "4", address=address, world=3), "rank 2 of 3 has not arrived .*within 4 s")
    told = ends_of([start(2, "--rank", str(rank), "--sizes", size, address=address) for rank, size in enumerate(("8", "16"))])
    expect_errors(told, r"rank 1 was started with another --sizes than rank 0 \(\[16\] and \[8\]\)")
    told = ends_of([start(2, "--rank", str(rank), *FAST, "--sizes", "8", *more, address=address) for rank, more in enumerate(([], ["--pt", "on"]))])
    expect_errors(told, 'rank 1 was started with another --pt than rank 0 \\("on" and "off"\\)')


def group_socket():
    meet_anywhere(f"tcp://127.0.0.1:{free_ports(1)[0]}")
    for rank in ([], ["--rank", "0"]):
        (status, output, errors), = group_of(1, *rank, "--timeout", "1", "--json", "-", address=f"tcp://127.0.0.1:{free_ports(1)[0]}", world=2)
        expect(status == 1 and "rank 1 of 2 has not arrived" in json.loads(output)["error"], f"no document of a group that never met: {errors}")
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        place = f"127.0.0.1:{stranger.getsockname()[1]}"
        began = time.monotonic()
        expect_errors(group_of(1, "--rank", "1", "--timeout", "4", address=f"tcp://{place}", world=2),
                      f"rank 0, which coordinates the group at {place}, is silent")
        expect(time.monotonic() - began < 7, f"took {time.monotonic() - began} s")


def group_closing():
    """One that dies while it closes the plugin is an error of all, wherever they are."""
    address = f"tcp://127.0.0.1:{free_ports(1)[0]}"
    ends = ends_of([start(3, "--rank", str(rank), *FAST, "--sizes", "4K", "--die-closing", "1", address=address) for rank in range(3)])
    expect(ends[1][0] == -9, f"rank 1 did not die: {ends}")
    expect_errors(ends[::2], r"rank 1 \(host .*\) has gone")


def group_etcd():
    with EtcdServer() as server:
        before = server.keys()
        meet_anywhere(server.address("meeting"))
        for pattern in ("pairwise", "many-to-one", "one-to-many"):
            ends = group_of(4, "--pattern", pattern, "--op", "both", "--pt", "on", address=server.address("meeting"))
            expect([status for status, _, _ in ends] == [0] * 4, f"not all well: {ends}")
        long = [start(2, "--seconds", "7", "--timeout", "15", "--sizes", "4K", address=server.address("long")) for _ in range(2)]
        ends = ends_of(long)
        expect([status for status, _, _ in ends] == [0, 0], f"leases of 5 s were not renewed: {ends}")
        await_keys(server, before)


def await_keys(server, count):
    """Those of processes that ended well go with them, and all others when their leases run out."""
    end = time.monotonic() + 15
    while server.keys() != count:
        expect(time.monotonic() < end, f"{server.keys()} keys are left, {count} were there before")
        time.sleep(0.1)


def group_etcd_death():
    """Others learn of it when the lease has run out at the latest, and a group of that name begins at once."""
    with EtcdServer() as server:
        for number, (pattern, who) in enumerate((("all-to-all", 2), ("many-to-one", 0), ("pairwise", 3))):
            address = server.address(f"death-{number}")
            started = [start(4, "--rank", str(rank), "--die", str(who), "--pattern", pattern, "--sizes", "4K", "--timeout", "15",
                             "--seconds", "30", address=address) for rank in range(4)]
            begin = time.monotonic()
            ends = ends_of(started)
            expect(time.monotonic() - begin < 20, f"that took {time.monotonic() - begin:.1f} s")
            expect(ends[who][0] == -9, f"rank {who} did not die: {ends}")
            expect_errors(ends[:who] + ends[who + 1:], f"rank {who}")
            ends = group_of(4, "--timeout", "10", address=address)
            expect([status for status, _, _ in ends] == [0] * 4, f"the next group is not well: {ends}")


def group_etcd_stale():
    """An earlier run is not mistaken for this one: one that is gathering and dies is waited for, a live one is told of."""
    with EtcdServer() as server:
        address = server.address("stale")
        early = [start(3, "--timeout", "30", address=address) for _ in range(2)]
        end = time.monotonic() + 10
        while server.keys() < 3:  # the run and two ranks
            expect(time.monotonic() < end, "the first two do not arrive")
            time.sleep(0.02)
        other = group_of(1, "--timeout", "2", address=address, world=4)
        expect_errors(other, "is in use by a run of 3 processes.*--world says 4.*another GROUP")
        taken = group_of(1, "--timeout", "2", "--rank", "0", address=address, world=3)
        expect_errors(taken, "rank 0 is taken by host .*another GROUP")
        for process in early:
            process.kill()
        ends_of(early)
        ends = group_of(3, "--timeout", "25", address=address)
        expect([status for status, _, _ in ends] == [0] * 3, f"the next group is not well: {ends}")
        server.call("kv/put", {"key": base64.b64encode(b"railyard-bench/other/run").decode(), "value": "eA=="})
        expect_errors(group_of(1, address=server.address("other"), world=2), "another program than railyard-bench")


def group_etcd_again():
    """A server that is started again while the others move data, and rank 0 waits for them, ends nothing."""
    with EtcdServer() as server:
        for pattern in ("many-to-one", "all-to-all"):
            started = [start(3, "--pattern", pattern, "--seconds", "4", "--timeout", "15", "--sizes", "4K", address=server.address(pattern))
                       for _ in range(3)]
            end = time.monotonic() + 20
            while pattern == "many-to-one" and not any("/point 0 timed/" in name for name in server.names()):
                expect(time.monotonic() < end, "rank 0 does not wait for the others")
                time.sleep(0.05)
            while not any("/point 0 verified/" in name for name in server.names()):
                expect(time.monotonic() < end, "nothing is moved")
                time.sleep(0.05)
            server.start_again(0.3)
            ends = ends_of(started)
            expect([status for status, _, _ in ends] == [0] * 3, f"not all well: {ends}")


class NotEtcd(http.server.BaseHTTPRequestHandler):
    """A server of something else, which may take every question."""
    answer = None

    def do_POST(self):
        if self.answer is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_):
        pass


def group_etcd_secure():
    """Over TLS, with etcdctl's environment: certificates, then users, too. Who lacks one of them is told so."""
    with EtcdServer(secure=True) as server:
        address = server.address("secure")
        expect_errors(group_of(1, address=address, world=2), "does not answer: .*certificate.*; ETCDCTL_CACERT names")
        os.environ.update(server.environment)
        before = server.keys()
        expect([end[0] for end in group_of(3, address=address)] == [0] * 3, "not all well with certificates")
        plain = address.replace("etcds", "etcd")
        expect_errors(group_of(1, address=plain, world=2), "the etcd server at http://.*; .*speaks TLS,.* say etcds://")
        server.ask_for_users("to:guess")
        expect_errors(group_of(1, address=address, world=2), "refuses .* HTTP status 400: .*user name is empty.*ETCDCTL_USER=NAME")
        os.environ["ETCDCTL_USER"] = "root:wrong"
        expect_errors(group_of(1, address=address, world=2), "does not let in the user of ETCDCTL_USER: .*authentication failed")
        for variables in ({"ETCDCTL_USER": "root:to:guess"}, {"ETCDCTL_USER": "root", "ETCDCTL_PASSWORD": "to:guess"}):
            os.environ.update(variables)
            ends = group_of(3, address=address)
            expect([end[0] for end in ends] == [0] * 3, f"not all well with a user: {ends}")
        long = [start(2, "--seconds", "5", "--timeout", "15", "--sizes", "4K", address=address) for _ in range(2)]
        ends = ends_of(long)
        expect([end[0] for end in ends] == [0, 0], f"who was silent while it measured is not let in again: {ends}")
        await_keys(server, before)


def group_etcd_common_name():
    """A certificate that names its user is as good as another until etcd has users; then its gateway refuses it, and what helps is told."""
    with EtcdServer(secure=True) as server:
        address = server.address("named")
        os.environ.update({**server.environment, **server.named})
        before = server.keys()
        expect([end[0] for end in group_of(2, address=address)] == [0] * 2, "not all well with a common name")
        server.ask_for_users("secret")
        remedy = "HTTP status 400: .*CommonName.*without a common name.*ETCDCTL_CERT.*ETCDCTL_USER=NAME:PASSWORD"
        expect_errors(group_of(1, address=address, world=2), f"refuses .* {remedy}")
        os.environ["ETCDCTL_USER"] = "root:secret"
        expect_errors(group_of(1, address=address, world=2), f"does not let in the user of ETCDCTL_USER: {remedy}")
        os.environ.update(server.environment)
        expect([end[0] for end in group_of(2, address=address)] == [0] * 2, "what is told does not help")
        await_keys(server, before)


def group_etcd_unreachable():
    """Nobody there, somebody else there, and a server that goes while it is needed."""
    port = free_ports(1)[0]
    begin = time.monotonic()
    expect_errors(group_of(1, address=f"etcd://127.0.0.1:{port}/x", world=2),
                  f"the etcd server at http://127.0.0.1:{port} does not answer: .*onnect.*; see that it runs there, as --rendezvous says")
    expect_errors(group_of(1, address="etcd://no-such-host.invalid:2379/x", world=2), "no-such-host.invalid.*; no host is called so")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        expect_errors(group_of(1, "--timeout", "1", address=f"etcd://127.0.0.1:{silent.getsockname()[1]}/x", world=2),
                      "does not answer: .*timed out")
    other = http.server.HTTPServer(("127.0.0.1", 0), NotEtcd)
    serving = threading.Thread(target=other.serve_forever)
    serving.start()
    place = f"127.0.0.1:{other.server_port}"
    expect_errors(group_of(1, address=f"etcd://{place}/x", world=2), "HTTP status 404")
    for NotEtcd.answer in (b"{}", b'{"ID": "7", "TTL": "9"}', b'{"header": {}, "ID": 7}', b'{"header": {}, "ID": "7", "TTL": "soon"}'):
        expect_errors(group_of(1, address=f"etcd://{place}/x", world=2), f"the server at http://{place} answers .* as no etcd does: see that --rendezvous")
    expect_errors(group_of(1, address=f"etcds://{place}/x", world=2), "does not answer: .*; where it does not speak TLS, say etcd://")
    other.shutdown()
    serving.join()
    other.server_close()
    expect(time.monotonic() - begin < 30, "that took its time")
    with EtcdServer() as server:
        started = [start(2, "--seconds", "20", "--sizes", "4K", "--timeout", "6", address=server.address("going"))
                   for _ in range(2)]
        end = time.monotonic() + 20
        while server.keys() < 10 and time.monotonic() < end:
            time.sleep(0.02)
        server.process.kill()
        begin = time.monotonic()
        ends = ends_of(started)
        # Who asks it first goes first, and the other one may meet that before it asks: it says both.
        expect_errors(ends, f"the etcd server at {server.url} does not answer")
        expect(time.monotonic() - begin < 15, f"that took {time.monotonic() - begin:.1f} s")


CASES = {"tcp": lambda: group_patterns("--provider", "tcp", "--rails-per-device", "2"),
         "shm": lambda: group_patterns("--provider", "shm"), "progress-thread": lambda: group_patterns("--pt", "on"),
         "efa-direct": lambda: simulated(
             lambda: group_patterns("--provider", "efa-direct", "--target-env", "SIMEFA_HOST=node-{rank}")), "wrong": group_wrong, "death": group_death, "descriptors": group_descriptors, "socket": group_socket,
         "closing": group_closing, "etcd": group_etcd,
         "etcd-death": group_etcd_death, "etcd-again": group_etcd_again, "etcd-stale": group_etcd_stale, "etcd-secure": group_etcd_secure,
         "etcd-common-name": group_etcd_common_name, "etcd-unreachable": group_etcd_unreachable}

CASES[CASE]()
print(f"{CASE}: passed")
