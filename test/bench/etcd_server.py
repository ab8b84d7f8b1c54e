"""A real etcd server on the loopback interface, for as long as a test needs one."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

LIMIT = 30
SKIPPED = 77


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class EtcdServer:
    """with EtcdServer() as server: its data and its process go at the end. Ends the test as skipped where there is no etcd."""

    def __init__(self):
        self.program = shutil.which("etcd")
        if not self.program:
            print("needs an etcd server (package etcd-server)")
            sys.exit(SKIPPED)
        self.data = tempfile.mkdtemp(prefix="railyard-etcd.")
        self.port, peer_port = free_ports(2)
        self.url = f"http://127.0.0.1:{self.port}"
        with open(os.path.join(self.data, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [self.program, "--data-dir", os.path.join(self.data, "data"), "--listen-client-urls", self.url,
                 "--advertise-client-urls", self.url, "--listen-peer-urls", f"http://127.0.0.1:{peer_port}",
                 "--unsafe-no-fsync"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __enter__(self):
        end = time.monotonic() + LIMIT
        while True:
            try:
                self.keys()
                return self
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None or time.monotonic() > end:
                    with open(os.path.join(self.data, "log"), encoding="utf-8", errors="replace") as log:
                        print(log.read()[-4000:])
                    self.__exit__()
                    sys.exit("the etcd server does not start")
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.data)

    def address(self, group):
        return f"etcd://127.0.0.1:{self.port}/{group}"

    def call(self, method, request):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/v3/{method}", json.dumps(request).encode(), timeout=5) as answer:
            return json.load(answer)

    def keys(self):
        """How many there are."""
        return int(self.call("kv/range", {"key": "AA==", "range_end": "AA==", "count_only": True}).get("count", 0))
