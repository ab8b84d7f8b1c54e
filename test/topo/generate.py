#!/usr/bin/env python3
"""Writes an hwloc 2 XML for every instance type of instances.py.  generate.py DIRECTORY, or generate.py --check DIRECTORY

Small on purpose: packages, NUMA nodes, the PCI tree with EFAs, GPUs and a few other devices as decoys; one processing
unit a package, because hwloc wants some. hwloc's own XML reader (2.9) refuses a comment before the first element, so there is none.
"""
import pathlib
import sys

from instances import INSTANCES, UNKNOWN

GIB = 1 << 30
PORT_LINK = 15.753846  # GB/s, what EC2's virtual switch ports say


class Writer:
    def __init__(self):
        self.lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE topology SYSTEM "hwloc2.dtd">']
        self.depth = 0
        self.objects = 0

    def line(self, text):
        self.lines.append("  " * self.depth + text)

    def open(self, tag, closed=False, **attributes):
        if tag == "object":
            self.objects += 1
            kind = attributes.pop("type")
            attributes = {"type": kind, "gp_index": self.objects, **attributes}
        text = " ".join(f'{name}="{value}"' for name, value in attributes.items())
        self.line(f"<{tag} {text}{'/' if closed else ''}>")
        if not closed:
            self.depth += 1

    def close(self, tag):
        self.depth -= 1
        self.line(f"</{tag}>")

    def text(self):
        return "\n".join(self.lines) + "\n"


def sets(name, bits):
    value = f"0x{bits:08x}"
    return {name: value, f"complete_{name}": value}


def pci_attributes(address, kind, ids, link):
    subsystem = "1d0f:0000" if ids.startswith("1d0f:cd") else ids
    return {"pci_busid": address, "pci_type": f"{kind} [{ids}] [{subsystem}] 00", "pci_link_speed": f"{link:.6f}"}


def device(out, instance, kind, host, bus, slot):
    domain = host.domain
    address = f"{domain:04x}:{bus:02x}:{slot:02x}.0"
    far = f"P{domain}" if domain else ""
    pci_type, ids, link = {
        "efa": ("0200", f"1d0f:{instance.efa_id}", host.efa_link or instance.efa_link),
        "gpu": ("0302", f"10de:{instance.gpu_id}", instance.gpu_link),
        "ena": ("0200", "1d0f:ec20", UNKNOWN),
        "nvme": ("0108", "1d0f:cd01", UNKNOWN),
    }[kind]
    out.open("object", closed=kind == "gpu", type="PCIDev", **pci_attributes(address, pci_type, ids, link))
    if kind == "gpu":
        return
    name, osdev = {
        "efa": (f"rdma{far}p{bus}s{slot}", {"osdev_type": 3}),
        "ena": (f"ens{slot}" if bus == 0 else f"en{far}p{bus}s{slot}", {"osdev_type": 2}),
        "nvme": (f"nvme{out.objects}n1", {"subtype": "Disk", "osdev_type": 0}),
    }[kind]
    out.open("object", closed=True, type="OSDev", name=name, **osdev)
    out.close("object")


def bridge(out, instance, host):
    devices = sorted([[bus, slot, "efa"] for bus, slot in host.efa] + [[bus, slot, "gpu"] for bus, slot in host.gpu] + host.other)
    out.open("object", type="Bridge", bridge_type="0-1", depth=0, bridge_pci=f"{host.domain:04x}:[{host.first:02x}-{host.last:02x}]")
    if not host.switched:
        for bus, slot, kind in devices:
            device(out, instance, kind, host, bus, slot)
        out.close("object")
        return

    def port(depth, place, secondary, link=PORT_LINK):
        out.open("object", type="Bridge", bridge_type="1-1", depth=depth,
                 bridge_pci=f"{host.domain:04x}:[{secondary:02x}-{host.last if depth < 3 else secondary:02x}]",
                 **pci_attributes(f"{host.domain:04x}:{place}", "0604", "1d0f:0200", link))

    lone = host.last == host.first + 1  # one device, so one port and no switch
    if lone:
        port(3, f"{host.first:02x}:00.0", host.last)
        device(out, instance, devices[0][2], host, devices[0][0], devices[0][1])
        out.close("object")
        out.close("object")
        return
    port(1, f"{host.first:02x}:00.0", host.first + 1)
    port(2, f"{host.first + 1:02x}:00.0", host.first + 2)
    for number, (bus, slot, kind) in enumerate(devices):
        port(3, f"{host.first + 2:02x}:{number // 8:02x}.{number % 8}", bus)
        device(out, instance, kind, host, bus, slot)
        out.close("object")
    for _ in range(3):
        out.close("object")


def machine(instance):
    out = Writer()
    out.line('<topology version="2.0">')
    out.depth += 1
    cpus, nodes = sets("cpuset", 3), sets("nodeset", 3)
    out.open("object", type="Machine", os_index=0, **cpus, allowed_cpuset=cpus["cpuset"], **nodes,
             allowed_nodeset=nodes["nodeset"])
    for node in (0, 1):
        own = {"os_index": node, **sets("cpuset", 1 << node), **sets("nodeset", 1 << node)}
        out.open("object", type="Package", **own)
        out.open("object", closed=True, type="NUMANode", **own, local_memory=instance.memory_gib * GIB // 2)
        out.open("object", closed=True, type="PU", **own)
        for host in instance.bridges:
            if host.node == node:
                bridge(out, instance, host)
        out.close("object")
    for host in instance.bridges:
        if host.node < 0:
            bridge(out, instance, host)
    out.close("object")
    out.close("topology")
    return out.text()


def main():
    check = sys.argv[1] == "--check"
    directory = pathlib.Path(sys.argv[-1])
    stale = []
    for instance in INSTANCES:
        path, text = directory / f"{instance.name}.xml", machine(instance)
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
    if stale:
        print(f"not what generate.py writes: {', '.join(stale)}; run test/topo/generate.py test/topo")
        sys.exit(1)


if __name__ == "__main__":
    main()
