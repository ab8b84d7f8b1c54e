"""A real etcd server on the loopback interface, for as long as a test needs one."""
import base64
import contextlib
import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

LIMIT = 30
SKIPPED = 77


def free_ports(count):
    """Below those that the kernel gives to who asks for any: other programs ask for hundreds a second."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        end = int(file.read().split()[0])
    ports = []
    while len(ports) < count:
        port = random.randrange(min(15000, end // 2), end)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            ports.append(port)
    return ports


def certificate(folder, name, signer=None, common_name=None):
    """FOLDER/NAME.pem and .key, for 127.0.0.1; of an authority of its own, or of `signer`. Once there are users, etcd's gateway refuses a common name."""
    path = os.path.join(folder, name)
    signed = ["-CA", f"{folder}/{signer}.pem", "-CAkey", f"{folder}/{signer}.key", "-addext", "basicConstraints=critical,CA:FALSE",
              "-addext", "subjectAltName=IP:127.0.0.1"] if signer else []
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", f"/O={name}" + (f"/CN={common_name}" if common_name else ""), "-keyout", f"{path}.key", "-out", f"{path}.pem", *signed],
                   stdin=subprocess.DEVNULL, check=True, capture_output=True, timeout=LIMIT)


class EtcdServer:
    """with EtcdServer() as server: its data and its process go at the end. Ends the test as skipped where there is no etcd.

    `secure`: it speaks TLS alone, with clients that have a certificate of its authority (`environment` names them)."""

    def __init__(self, secure=False):
        self.program = shutil.which("etcd")
        if not self.program:
            print("needs an etcd server (package etcd-server)")
            sys.exit(SKIPPED)
        self.data = tempfile.mkdtemp(prefix="railyard-etcd.")
        self.port, peer_port = free_ports(2)
        self.url = f"http{'s' if secure else ''}://127.0.0.1:{self.port}"
        self.handlers, self.password, self.environment, tls = [urllib.request.ProxyHandler({})], None, {}, []
        if secure:
            if not shutil.which("openssl"):
                print("needs openssl for certificates")
                sys.exit(SKIPPED)
            for name, *more in (("authority",), ("server", "authority"), ("client", "authority"), ("root", "authority", "root")):
                certificate(self.data, name, *more)
            self.environment = {"ETCDCTL_CACERT": f"{self.data}/authority.pem", "ETCDCTL_CERT": f"{self.data}/client.pem",
                                "ETCDCTL_KEY": f"{self.data}/client.key"}
            self.named = {"ETCDCTL_CERT": f"{self.data}/root.pem", "ETCDCTL_KEY": f"{self.data}/root.key"}  # that user's, by its common name
            context = ssl.create_default_context(cafile=self.environment["ETCDCTL_CACERT"])
            context.load_cert_chain(self.environment["ETCDCTL_CERT"], self.environment["ETCDCTL_KEY"])
            self.handlers.append(urllib.request.HTTPSHandler(context=context))
            tls = ["--client-cert-auth", "--trusted-ca-file", f"{self.data}/authority.pem", "--cert-file", f"{self.data}/server.pem",
                   "--key-file", f"{self.data}/server.key", "--auth-token-ttl", "2"]
        self.command = [self.program, "--data-dir", os.path.join(self.data, "data"), "--listen-client-urls", self.url,
                        "--advertise-client-urls", self.url, "--listen-peer-urls", f"http://127.0.0.1:{peer_port}",
                        "--unsafe-no-fsync", *tls]
        self.start()

    def start(self):
        with open(os.path.join(self.data, "log"), "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start_again(self, pause):
        """Killed, away for `pause` seconds, and back with what it knew."""
        self.process.kill()
        self.process.wait()
        time.sleep(pause)
        self.start()

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
        return f"etcd{'s' if self.environment else ''}://127.0.0.1:{self.port}/{group}"

    def call(self, method, request):
        login = {"name": "root", "password": self.password}
        headers = {"Authorization": self.call("auth/authenticate", login)["token"]} if self.password and request != login else {}
        asked = urllib.request.Request(f"{self.url}/v3/{method}", json.dumps(request).encode(), headers)
        with urllib.request.build_opener(*self.handlers).open(asked, timeout=5) as answer:
            return json.load(answer)

    def ask_for_users(self, password):
        """From now on nobody is let in but root, with that password, for 2 s after the last request each time."""
        self.call("auth/user/add", {"name": "root", "password": password})
        self.call("auth/role/add", {"name": "root"})
        self.call("auth/user/grant", {"user": "root", "role": "root"})
        self.call("auth/enable", {})
        self.password = password

    def keys(self):
        """How many there are."""
        return int(self.call("kv/range", {"key": "AA==", "range_end": "AA==", "count_only": True}).get("count", 0))

    def names(self):
        """Of all keys."""
        found = self.call("kv/range", {"key": "AA==", "range_end": "AA==", "keys_only": True}).get("kvs", [])
        return [base64.b64decode(entry["key"]).decode() for entry in found]
