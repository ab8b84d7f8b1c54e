"""A simulated EFA machine for programs of others: its NICs, the files they look for them in, the environment of a process."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree

EFA_VENDOR_DEVICE = "[1d0f:efa"
OPENFABRICS = "3"  # hwloc's kind of an OS device that is an RDMA device
LIMIT_S = 60


def nics_of(topology):
    """(name, PCI address) of each EFA device in an hwloc XML file, in the file's order."""
    found = []
    for function in ElementTree.parse(topology).getroot().iter("object"):
        if function.get("type") != "PCIDev" or EFA_VENDOR_DEVICE not in function.get("pci_type", ""):
            continue
        found += [(device.get("name"), function.get("pci_busid")) for device in function.findall("object")
                  if device.get("osdev_type") == OPENFABRICS]
    return found


def keep_first_nics(topology, rails, path):
    """Writes an hwloc XML file with the first `rails` EFA devices of another, for programs that take all they find."""
    tree = ElementTree.parse(topology)
    left = rails
    for parent in list(tree.iter("object")):
        for function in parent.findall("object"):
            if function.get("type") == "PCIDev" and EFA_VENDOR_DEVICE in function.get("pci_type", ""):
                left -= 1
                if left < 0:
                    parent.remove(function)
    text = ElementTree.tostring(tree.getroot(), encoding="unicode")
    path.write_text(f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n{text}\n', encoding="utf-8")


class SimulatedMachine:
    """One instance type, or its first `rails` NICs. Processes, each a host of its own, find each other in one namespace.

    Make it in a chroot of our own only: it adds nodes to /dev. A context manager: leaving it removes what it made and what
    the provider left of its namespace.
    """

    def __init__(self, topology, provider_dir, preload, simefactl, rails=None):
        self.topology = pathlib.Path(topology).resolve()
        self.nics = nics_of(self.topology)[:rails]
        self.provider_dir, self.preload, self.simefactl = provider_dir, preload, simefactl
        self.namespace = f"strangers-{os.getpid()}-{self.topology.name.split('.')[0]}"
        self.devices = pathlib.Path(tempfile.mkdtemp(prefix="railyard-devices-"))
        for number, (name, pci) in enumerate(self.nics):
            # No numa_node: a program then prefers no NIC, and all of them carry.
            (self.devices / pci / "infiniband" / name).mkdir(parents=True)
            node = pathlib.Path("/dev/infiniband") / f"uverbs{number}"
            node.parent.mkdir(exist_ok=True)
            with contextlib.suppress(FileExistsError):
                node.symlink_to("/dev/null")  # programs check that it is a character device

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.devices, ignore_errors=True)
        self.control("sweep", "--all")

    def environment(self, host, program=None):
        """What a process needs on host `host`: `program` is the end of the path of a library that looks for devices by itself."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("FI_", "SIMEFA_"))}
        environment.update({
            "FI_PROVIDER_PATH": str(self.provider_dir), "FI_PROVIDER": "efa", "HWLOC_XMLFILE": str(self.topology),
            "SIMEFA_NAMESPACE": self.namespace, "SIMEFA_HOST": str(host),
            "RAILYARD_LOCAL_RAIL": "off"})  # hosts are processes of one kernel
        if program:
            environment.update({"LD_PRELOAD": str(self.preload), "RAILYARD_VERBS_DEVICES": str(self.devices),
                                "RAILYARD_VERBS_FOR": program})
        return environment

    def control_command(self, *arguments):
        return [str(self.simefactl), "--namespace", self.namespace, *arguments]

    def counters(self, host):
        """{NIC: {counter: value}} of the NICs that processes on `host` have open or had, while any process is there."""
        shown = json.loads(self.control("show", "--host", str(host)))
        return {row["nic"]: row["counters"] for row in shown["nics"]}

    def control(self, *arguments):
        return subprocess.run(self.control_command(*arguments), check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S).stdout
