"""The instance types, as small tables: what is plugged in where, and what rail selection must make of it.

generate.py writes hwloc XML from the first half; the tests take what they expect from the second. All buses are hexadecimal.
"""
from dataclasses import dataclass, field

GEN1X8, GEN3X16, GEN4X16, GEN5X16 = 2.0, 15.753846, 31.507692, 63.015385  # GB/s, as hwloc prints a PCIe link
UNKNOWN = 0.0  # what the kernel says for many virtual functions


@dataclass
class Bridge:
    """A host bridge. `switched`: every device behind a port of one PCIe switch; else directly on the bridge's bus."""
    first: int               # its first bus
    last: int                # its last bus
    node: int                # NUMA node; -1: the machine as a whole
    efa: list                # [bus, slot] each; slot 0 behind a switch
    gpu: list
    other: list = field(default_factory=list)  # [bus, slot, "ena" or "nvme"]
    switched: bool = True
    domain: int = 0
    efa_link: float = 0.0    # GB/s; 0: the instance's, as the next
    gbps: int = 0


@dataclass
class Instance:
    name: str
    efa_id: str              # device id; the vendor is 1d0f
    efa_link: float          # GB/s
    gbps: int                # of one EFA
    gpu_id: str              # device id; the vendor is 10de
    gpu_link: float
    memory_gib: int
    bridges: list
    gpu_rails: dict          # "bus" or "bus:slot", "domain/" before it where not 0, of each GPU -> the same of its EFAs
    host_rails: int          # rails for host memory, on each NUMA node
    far_gpus: int = 0        # notes of GPUs without a NIC on their way up: one for each node whose NICs they use


def at(bus, *slots):
    return [[bus, slot] for slot in slots]


def on(*buses):
    return [[bus, 0] for bus in buses]


def small():
    """The system devices that every instance has at bus 0."""
    return [[0x00, 0x04, "nvme"], [0x00, 0x05, "ena"]]


def flat(node, bus, efa, gpus):
    return Bridge(bus, bus, node, at(bus, *efa), at(bus, *gpus), [[bus, 0x01, "ena"], [bus, 0x1e, "nvme"]], switched=False)


def switch(node, first, last, efa, gpus, ena=None, nvme=None):
    other = [[bus, 0, kind] for bus, kind in ((ena, "ena"), (nvme, "nvme")) if bus is not None]
    return Bridge(first, last, node, on(*efa), on(*gpus), other)


def root(node, efa=(), gpus=()):
    return Bridge(0x00, 0x00, node, at(0x00, *efa), at(0x00, *gpus), small(), switched=False)


def p5_bridge(node, first):
    return switch(node, first, first + 0x10, range(first + 0x0b, first + 0x0f), [first + 0x0f], first + 0x03, first + 0x10)


def p5en_bridge(node, first):
    return switch(node, first, first + 0x12, range(first + 0x0b, first + 0x0f), [first + 0x0f, first + 0x10], first + 0x03,
                  first + 0x11)


def gb200_pair(node, first):
    """A GPU with its EFAs below one switch, and EFAs that reach it by way of the CPU."""
    own, cpu = switch(node, first, first + 5, [first + 3, first + 4], [first + 5]), first + 0x0b
    apart = Bridge(cpu, cpu + 8, node, on(cpu + 7, cpu + 8), [], [[cpu + 3, 0, "ena"], [cpu + 4, 0, "ena"]], efa_link=GEN4X16, gbps=200)
    return own, apart


INSTANCES = [
    Instance("p3dn.24xl", "efa0", UNKNOWN, 100, "1db5", GEN3X16, 768,
             [root(-1, [0x15], range(0x16, 0x1e))],
             {f"00:{slot:02x}": ["00:15"] for slot in range(0x16, 0x1e)}, 1),
    Instance("g5.48xl", "efa0", UNKNOWN, 100, "2237", GEN4X16, 768,
             [root(-1, [0x15], range(0x16, 0x1e))],
             {f"00:{slot:02x}": ["00:15"] for slot in range(0x16, 0x1e)}, 1),
    Instance("p4d.24xl", "efa0", UNKNOWN, 100, "20b0", GEN4X16, 1152,
             [root(-1)] + [flat(node, bus, [0x1b], [0x1c, 0x1d])
                           for node, bus in ((0, 0x10), (0, 0x20), (1, 0x90), (1, 0xa0))],
             {f"{bus}:{slot}": [f"{bus}:1b"] for bus in ("10", "20", "90", "a0") for slot in ("1c", "1d")}, 4),
    Instance("p5.48xl", "efa1", GEN3X16, 100, "2330", GEN5X16, 2048,
             [root(0)] + [p5_bridge(node, first) for node, first in (
                 (0, 0x44), (0, 0x55), (0, 0x66), (0, 0x77), (1, 0x88), (1, 0x99), (1, 0xaa), (1, 0xbb))],
             {"53": ["4f", "50", "51", "52"], "64": ["60", "61", "62", "63"], "75": ["71", "72", "73", "74"],
              "86": ["82", "83", "84", "85"], "97": ["93", "94", "95", "96"], "a8": ["a4", "a5", "a6", "a7"],
              "b9": ["b5", "b6", "b7", "b8"], "ca": ["c6", "c7", "c8", "c9"]}, 4),
    Instance("p5en.48xl", "efa2", GEN4X16, 200, "2335", GEN5X16, 2048,
             [root(0)] + [p5en_bridge(node, first) for node, first in ((0, 0x4a), (0, 0x63), (1, 0x7c), (1, 0x95))],
             {"59": ["55", "56"], "5a": ["57", "58"], "72": ["6e", "6f"], "73": ["70", "71"],
              "8b": ["87", "88"], "8c": ["89", "8a"], "a4": ["a0", "a1"], "a5": ["a2", "a3"]}, 4),
    Instance("p6-b200.48xl", "efa3", GEN5X16, 400, "2901", GEN5X16, 2048,
             [root(0),
              switch(0, 0x44, 0x53, [0x4f, 0x50], [0x51, 0x52], 0x47, 0x53),
              switch(0, 0x55, 0x64, [0x60, 0x61], [0x62, 0x63], 0x58, 0x64),
              switch(1, 0x66, 0x77, [0x71, 0x72], [0x75, 0x76], 0x69, 0x77),
              switch(1, 0x79, 0x88, [0x84, 0x85], [0x86, 0x87], 0x7c, 0x88)],
             {"51": ["4f"], "52": ["50"], "62": ["60"], "63": ["61"], "75": ["71"], "76": ["72"], "86": ["84"], "87": ["85"]},
             2),
    Instance("g6.48xl", "efa1", UNKNOWN, 100, "27b8", GEN1X8, 768,
             [root(0), switch(0, 0x84, 0x96, [0x96], [], 0x87, None)]
             + [switch(0 if bus < 0xa6 else 1, bus - 1, bus, [], [bus])
                for bus in (0x9f, 0xa1, 0xa3, 0xa5, 0xae, 0xb0, 0xb2, 0xb4)],
             {bus: ["96"] for bus in ("9f", "a1", "a3", "a5", "ae", "b0", "b2", "b4")}, 1, 1),
    # A compute tray, from what others have published of theirs: no capture. Each device has a PCI domain of its own.
    Instance("gb200", "efa3", GEN5X16, 400, "2941", GEN5X16, 960,
             [Bridge(0, 1, node, on(*[1] * (kind == "efa")), on(*[1] * (kind == "gpu")), [[1, 0, "ena"]] * (kind == "ena"), domain=domain)
              for node, domain, kind in ((0, 0x00, "efa"), (0, 0x02, "efa"), (0, 0x06, "ena"), (0, 0x08, "gpu"), (0, 0x09, "gpu"),
                                         (1, 0x10, "efa"), (1, 0x12, "efa"), (1, 0x18, "gpu"), (1, 0x19, "gpu"))],
             {"8/01": ["01", "2/01"], "9/01": ["01", "2/01"], "18/01": ["10/01", "12/01"], "19/01": ["10/01", "12/01"]}, 2, 2),
    # By the capture that NIXL tests with: two EFAs below the switch of each GPU, and four that reach them by way of each CPU.
    Instance("p6e-gb200.36xl", "efa3", GEN5X16, 400, "2941", GEN5X16, 928,
             [root(-1)] + [bridge for node, first in ((0, 0x24), (0, 0x3a), (1, 0x97), (1, 0xad))
                           for bridge in gb200_pair(node, first)],
             {"29": ["27", "28"], "3f": ["3d", "3e"], "9c": ["9a", "9b"], "b2": ["b0", "b1"]}, 2),
    Instance("c5n.18xl", "efa0", UNKNOWN, 100, "", UNKNOWN, 192, [root(-1, [0x1f])], {}, 1),
]
