#!/usr/bin/env python3
"""railyard-info as a user runs it.  info_test.py PROGRAM CASE [PROVIDER_DIRECTORY [DRIVER_DIRECTORY]]

What is expected of the instance types is computed here from the tables of instances.py, by rules written down anew, so that a
mistake has to be made twice to pass.
"""
import collections
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

from instances import INSTANCES

HERE = pathlib.Path(__file__).resolve().parent


def run(program, *arguments, status=0, **environment):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **environment})
    assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
    return done


def expect_lost_output(program, *arguments, status):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([program, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == status, (arguments, done)
    assert "railyard-info: cannot write to standard output" in done.stderr, (arguments, done)


def xml_of(instance):
    return str(HERE / f"{instance.name}.xml")


def address(domain, bus, slot):
    return f"{domain:04x}:{bus:02x}:{slot:02x}.0"


def efa_name(domain, bus, slot):
    return f"rdma{f'P{domain}' if domain else ''}p{bus}s{slot}"


def efas_of(instance):
    """((domain, bus, slot), node, position of its host bridge) in bus order."""
    return sorted(((host.domain, bus, slot), host.node, index) for index, host in enumerate(instance.bridges) for bus, slot in host.efa)


def place(text):
    """"53", "10:1c" or "8/01" of the table's right half, as (domain, bus, slot)."""
    domain, _, rest = text.rpartition("/")
    bus, _, slot = rest.partition(":")
    return int(domain or "0", 16), int(bus, 16), int(slot or "0", 16)


def host_rails(instance, node):
    """Of the node's NICs, then of the others', as many as the table says, or more slower ones; of each bridge and each GPU one in turn.
    Then as many of those of the node that come next, and so on around."""
    position = {}  # of an EFA among those of its GPU
    for names in instance.gpu_rails.values():
        for turn, name in enumerate(names):
            position[place(name)] = turn
    chosen = []
    for wanted in [node, -1] + [other for other in (0, 1) if other != node]:
        of_bridge, turns = collections.Counter(), []
        for efa in sorted((efa for efa in efas_of(instance) if efa[1] == wanted), key=lambda efa: position.get(efa[0], 0)):
            turns.append((of_bridge[efa[2]], efa))
            of_bridge[efa[2]] += 1
        chosen += [efa for _, efa in sorted(turns, key=lambda each: each[0])]
    own, windows, start = [efa for efa in chosen if efa[1] == chosen[0][1]], [], 0
    while start < len(own):
        around = own[start:] + own[:start] + chosen[len(own):]
        sums = list(itertools.accumulate(instance.bridges[efa[2]].gbps or instance.gbps for efa in around))
        windows.append([efa for efa, total in zip(around, sums) if total <= instance.host_rails * instance.gbps])
        start += len(windows[-1])
    return [[efa_name(*where) for where, _, _ in sorted(window)] for window in windows]


def host_memory(instance, node):
    windows = host_rails(instance, node)
    order = [efa_name(*where) for where, _, _ in efas_of(instance)]
    return {"node": node, "rails": sorted({name for window in windows for name in window}, key=order.index), "in_turn": windows}


def expected(instance):
    fabric = "efa" if instance.efa_id == "efa0" else "efa-direct"
    gpus = sorted(((host.domain, bus, slot), host.node) for host in instance.bridges for bus, slot in host.gpu)
    rails_of = {place(gpu): [efa_name(*place(name)) for name in names] for gpu, names in instance.gpu_rails.items()}
    return {
        "rails": [{"name": efa_name(*where), "pci": address(*where), "numa": node, "gbps": instance.bridges[at].gbps or instance.gbps,
                   "provider": "efa", "fabric": fabric} for where, node, at in efas_of(instance)],
        "gpus": [{"pci": address(*where), "numa": node, "rails": rails_of[where]} for where, node in gpus],
        "numa": [host_memory(instance, node) for node in (0, 1)],
    }


def case_json(program):
    for instance in INSTANCES:
        found = json.loads(run(program, "--offline", "--xml", xml_of(instance), "--json").stdout)
        wanted = expected(instance)
        for part in ("rails", "gpus", "numa"):
            assert found[part] == wanted[part], (instance.name, part, found[part], wanted[part])
        assert list(found) == list(wanted), (instance.name, list(found))


def case_environment(program):
    for instance in INSTANCES:
        by_option = run(program, "--offline", "--json", "--xml", xml_of(instance))
        assert by_option.stdout == run(program, "--offline", "--json", HWLOC_XMLFILE=xml_of(instance)).stdout, instance.name


def case_text(program):
    for instance in INSTANCES:
        done = run(program, "--offline", "--xml", xml_of(instance))
        wanted = expected(instance)
        lines = done.stdout.splitlines()
        for rail in wanted["rails"]:
            row = [line.split() for line in lines if rail["pci"] in line and rail["name"] in line]
            assert row and rail["fabric"] in row[0] and str(rail["gbps"]) in row[0], (instance.name, rail, row)
        for gpu in wanted["gpus"]:
            row = [line for line in lines if f" {gpu['pci']} " in line and "efa" not in line.split()]
            assert len(row) == 1 and all(name in row[0] for name in gpu["rails"]), (instance.name, gpu, row)
        for node in wanted["numa"]:
            if len(node["in_turn"]) == 1:
                continue
            of_each = sorted({len(window) for window in node["in_turn"]})
            of_all = f"  {' to '.join(map(str, of_each))} of {len(node['rails'])}, in turn  "
            assert any(re.match(f"  {node['node']} .*{of_all}", line) for line in lines), (instance.name, of_all, done.stdout)
        notes = [line for line in lines if line.startswith("Note:")]
        assert len(notes) == instance.far_gpus, (instance.name, notes)
        assert not done.stderr, done.stderr


def case_picture(program):
    with tempfile.TemporaryDirectory() as folder:
        for instance in INSTANCES:
            path = pathlib.Path(folder) / "machine.svg"
            run(program, "--offline", "--xml", xml_of(instance), "--svg", str(path))
            root = xml.etree.ElementTree.parse(path).getroot()
            width, height = (float(part) for part in root.get("viewBox").split()[2:])
            words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
            wanted = expected(instance)
            for rail in wanted["rails"]:
                assert words.count(rail["name"]) == 1, (instance.name, rail["name"], words.count(rail["name"]))
            for index, gpu in enumerate(wanted["gpus"]):
                assert f"GPU {index}" in words and gpu["pci"] in words, (instance.name, gpu)
            tags = sum(len(node["rails"]) for node in wanted["numa"])
            assert sum(word in ("M0", "M1") for word in words) == tags + 2 + 1, instance.name  # + one a node, + the legend
            for box in root.iter("{http://www.w3.org/2000/svg}rect"):
                if box.get("x"):
                    assert 0 <= float(box.get("x")) and float(box.get("x")) + float(box.get("width")) <= width, instance.name
                    assert 0 <= float(box.get("y")) and float(box.get("y")) + float(box.get("height")) <= height, instance.name


def case_page(program):
    """The picture in docs/topology.md is the one that the program draws."""
    shown = HERE.parent.parent / "docs" / "images" / "p5.48xl.svg"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "p5.48xl.svg"
        run(program, "--offline", "--xml", str(HERE / "p5.48xl.xml"), "--svg", str(path))
        assert path.read_text(encoding="utf-8") == shown.read_text(encoding="utf-8"), \
            f"{shown} is old: railyard-info --offline --xml test/topo/p5.48xl.xml --svg {shown}"


def case_live(program):
    """Whatever this machine has: the report is whole, and every name in it is a rail's."""
    done = run(program, "--json")
    report = json.loads(done.stdout)
    names = {rail["name"] for rail in report["rails"]}
    assert names, report
    for rail in report["rails"]:
        assert set(rail) == {"name", "pci", "numa", "gbps", "provider", "fabric"}, rail
        assert rail["provider"], rail
    assert report["numa"], report
    for served in report["gpus"] + report["numa"]:
        assert served["rails"] and set(served["rails"]) <= names, served
    text = run(program).stdout
    assert all(name in text for name in names) and "max_msg_size" in text, text
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "machine.svg"
        run(program, "--svg", str(path))
        words = [part.text for part in xml.etree.ElementTree.parse(path).getroot().iter("{http://www.w3.org/2000/svg}text")]
        assert names <= set(words), words


def case_simulated(program):
    """Through libfabric and a simulated provider comes out what the topology alone says."""
    for instance in INSTANCES:
        done = run(program, "--json", HWLOC_XMLFILE=xml_of(instance), FI_PROVIDER="efa", FI_PROVIDER_PATH=sys.argv[3])
        report = json.loads(done.stdout)
        assert report.pop("cuda")["hmem_rails"] in ([], [rail["name"] for rail in report["rails"]]), (instance.name, done.stdout)
        assert report == expected(instance), (instance.name, done.stdout)
    p5 = {"HWLOC_XMLFILE": str(HERE / "p5.48xl.xml"), "FI_PROVIDER": "efa", "FI_PROVIDER_PATH": sys.argv[3], "RAILYARD_RAILS": "8"}
    assert len(json.loads(run(program, "--json", **p5).stdout)["rails"]) == 8


def case_gpus(program):
    """The GPUs of the fake driver, which are the topology's, and the rails that reach them."""
    p5 = next(instance for instance in INSTANCES if instance.name == "p5.48xl")
    wanted = expected(p5)
    machine = {"HWLOC_XMLFILE": xml_of(p5), "FI_PROVIDER": "efa", "FI_PROVIDER_PATH": sys.argv[3], "CUDA_VISIBLE_DEVICES": "3,0"}
    fake = {**machine, "LD_LIBRARY_PATH": sys.argv[4]}
    found = json.loads(run(program, "--json", **fake).stdout)["cuda"]
    assert [(gpu["ordinal"], gpu["pci"]) for gpu in found["gpus"]] == [(0, wanted["gpus"][3]["pci"]), (1, wanted["gpus"][0]["pci"])]
    assert all(gpu["dmabuf"] and gpu["gpu_direct_rdma"] and gpu["visibility"] == "at once" for gpu in found["gpus"]), found
    assert found["driver"] and found["absent_because"] is None and found["built_with"], found
    assert found["hmem_rails"] == [rail["name"] for rail in wanted["rails"]], found
    late = json.loads(run(program, "--json", FAKECUDA_LATE="1", FAKECUDA_DMABUF="0", **fake).stdout)["cuda"]["gpus"][0]
    assert (late["dmabuf"], late["writes_ordering"], late["visibility"]) == (False, "none", "host flush"), late
    for setting in ({"RAILYARD_VRAM_STAGING": "always"}, {"SIMEFA_SET": "gpu_memory=off"}):
        found = json.loads(run(program, "--json", **fake, **setting).stdout)["cuda"]
        assert found["gpus"] and found["hmem_rails"] == [], (setting, found)
    limited = json.loads(run(program, "--json", RAILYARD_RAILS="4", **{**fake, "CUDA_VISIBLE_DEVICES": "7"}).stdout)["rails"]
    assert [rail["name"] for rail in limited] == wanted["gpus"][7]["rails"], limited
    allowed = json.loads(run(program, "--json", RAILYARD_RAILS="2", RAILYARD_GPU_DEVICES="1", **fake).stdout)["rails"]
    assert [rail["name"] for rail in allowed] == wanted["gpus"][0]["rails"][:2], allowed
    text = run(program, **fake).stdout
    assert wanted["gpus"][3]["pci"] in text and "CUDA: built with" in text and "FI_HMEM" in text, text
    broken = run(program, "--json", FAKECUDA_FAIL="cuInit:0=999", **fake)
    found = json.loads(broken.stdout)["cuda"]
    assert found["driver"] is None and "cuInit" in found["absent_because"] and found["gpus"] == [], found
    assert "cuda" not in json.loads(run(program, "--json", "--offline", **fake).stdout)


def case_limit(program):
    p5 = next(instance for instance in INSTANCES if instance.name == "p5.48xl")
    for limit, count in (("100", 1), ("800", 8), ("3200", 32)):
        report = json.loads(run(program, "--offline", "--json", "--xml", xml_of(p5), "--max-bw-per-dram-seg", limit).stdout)
        assert all(len(window) == count for node in report["numa"] for window in node["in_turn"]), limit
        assert [len(node["rails"]) for node in report["numa"]] == [max(count, 16)] * 2, limit
        by_setting = run(program, "--offline", "--json", RAILYARD_TOPOLOGY_FILE=xml_of(p5), RAILYARD_MAX_BW_PER_DRAM_SEG=limit)
        assert json.loads(by_setting.stdout) == report, limit


def case_rails(program):
    """As many as the settings leave: a NIC of each GPU, or as many on each as there are to be."""
    p5 = next(instance for instance in INSTANCES if instance.name == "p5.48xl")
    firsts = sorted(place(names[0]) for names in p5.gpu_rails.values())
    asked = ["--json", "--offline", "--xml", xml_of(p5)]

    def names(*more, **settings):
        return [rail["name"] for rail in json.loads(run(program, *asked, *more, **settings).stdout)["rails"]]

    assert names(RAILYARD_RAILS="8") == [efa_name(*where) for where in firsts]
    assert names(RAILYARD_RAILS="100") == names() and len(names()) == 32
    assert names("--devices", "rdmap81s0,rdmap80s0,rdmap79s0", RAILYARD_RAILS="2") == ["rdmap81s0", "rdmap80s0"]
    twice = names(RAILYARD_RAILS="40", RAILYARD_RAILS_PER_DEVICE="2")
    assert len(twice) == 40 and sorted(twice[:32]) == sorted(names()) and twice[32:] == names(RAILYARD_RAILS="8"), twice
    text = run(program, "--offline", "--xml", xml_of(p5), RAILYARD_RAILS="8").stdout
    assert "Rails: 8\n" in text and "its part of" not in text, text


def case_errors(program):
    with tempfile.TemporaryDirectory() as folder:
        damaged = pathlib.Path(folder) / "damaged.xml"
        damaged.write_text("<?xml version=\"1.0\"?>\n<topology version=\"2.0\"><obj", encoding="utf-8")
        for path in ("/no/such/file.xml", str(damaged)):
            done = run(program, "--offline", "--xml", path, status=1)
            assert path in done.stderr and "lstopo" in done.stderr and not done.stdout, (done.stdout, done.stderr)
        done = run(program, "--offline", "--svg", f"{folder}/no/such/folder/x.svg", status=1)
        assert "/no/such/folder/x.svg" in done.stderr, done.stderr
    done = run(program, "--provider", "nosuchprovider", status=1)
    assert "nosuchprovider" in done.stderr and "libfabric offers" in done.stderr, done.stderr
    assert "NUMA nodes" in done.stdout, "the machine is shown even where no rail is"
    for bad in ("-1", "x", "5y", "nan", "inf", "1e999", "", "0.5", "1000001"):
        done = run(program, "--max-bw-per-dram-seg", bad, status=2)
        assert done.stderr == f'railyard-info: --max-bw-per-dram-seg: bad value "{bad}"; allowed: 0..1000000; see --help\n', done.stderr
    p5 = str(HERE / "p5.48xl.xml")
    chosen = json.loads(run(program, "--offline", "--json", "--xml", p5, "--devices", "rdmap81s0,rdmap79s0").stdout)
    assert [rail["name"] for rail in chosen["rails"]] == ["rdmap81s0", "rdmap79s0"], chosen["rails"]
    assert "that devices allows" in run(program, "--offline", "--xml", p5, "--devices", "nosuch", status=1).stderr
    done = run(program, "--offline", "--provider", "tcp", status=2)
    assert "--provider excludes --offline" in done.stderr, done.stderr
    for wrong, meant in (("--jsn", "--json"), ("--root=/", None), ("doctr", "doctor")):
        done = run(program, wrong, status=2)
        guess = f" (did you mean {meant}?)" if meant else ""
        assert done.stderr == f"railyard-info: '{wrong}' is no option here{guess}; see --help\n", done.stderr
    assert "'--rot' is no option here (did you mean --root?)" in run(program, "doctor", "--rot", "/", status=3).stderr
    assert "Usage: railyard-info [" in run(program, "--help").stdout
    shown = run(program, "--provider", "tcp", "--devices", "lo").stdout
    assert re.search(r"0  lo +tcp( \(net\)|;ofi_rxm)?  ", shown), shown
    assert "shm (shm)" not in run(program, "--devices", "lo,shm").stdout
    refused = {"RAILYARD_RAILS": "x"}
    assert run(program, "--help", **refused).stdout == run(program, "--help", RAILYARD_PROVIDER="shm").stdout == run(program, "--help").stdout
    assert run(program, "--version", **refused).stdout == run(program, "--version").stdout
    assert 'RAILYARD_RAILS: bad value "x"' in run(program, status=1, **refused).stderr
    for usage in (["foo"], ["--live"], ["--interval", "x"], ["--interval", "nan"], ["--interval", "2"]):
        done = run(program, *usage, status=2)
        assert done.stderr.startswith("railyard-info: ") and usage[0] in done.stderr and not done.stdout, done.stderr
    with tempfile.TemporaryDirectory() as folder:
        text = (HERE / "c5n.18xl.xml").read_text(encoding="utf-8")
        without = pathlib.Path(folder) / "without.xml"
        without.write_text(text.replace("1d0f:efa", "1d0f:ec2"), encoding="utf-8")
        done = run(program, "--offline", "--xml", str(without), status=1)
        assert "no rails: the topology has no EFA" in done.stderr and "NUMA nodes" in done.stdout, (done.stdout, done.stderr)
    done = run(program, "--offline", status=1, HWLOC_XMLFILE="/missing.xml")
    assert 'HWLOC_XMLFILE is "/missing.xml"' in done.stderr and "lstopo --of xml" in done.stderr, done.stderr
    for fine in ({"HWLOC_XMLFILE": ""}, {"HWLOC_XMLFILE": p5, "HWLOC_THISSYSTEM": "1"}):
        assert "HWLOC_XMLFILE" not in run(program, "--offline", status=0 if fine["HWLOC_XMLFILE"] else 1, **fine).stderr, fine
    done = run(program, "--devices", "a,,b", status=1)
    assert "devices" in done.stderr, done.stderr
    for lost in (["--json"], [], ["--help"], ["--version"], ["--offline", "--xml", xml_of(INSTANCES[0])]):
        expect_lost_output(program, *lost, status=1)


OLD_ENGINE = """# HELP railyard_build_info x
railyard_build_info{version="0.0",agent="AGENT",instance="00000000000000aa",provider="tcp",pid="12"} 1
railyard_written_timestamp_seconds{agent="AGENT"} TIME
railyard_rail_load{agent="AGENT",rail="rail0:eth0"} 5
railyard_rail_bytes_total{agent="AGENT",rail="rail0:eth0"} 77
railyard_rail_senders_replaced_total{agent="AGENT",rail="rail0:eth0"} 2
railyard_peer_state{PEER,state="suspect"} 1
railyard_peer_paths{PEER} 4
railyard_peer_paths_failed{PEER} 1
"""
ENGINE = OLD_ENGINE + """railyard_rail_bytes_total{agent="AGENT",rail="rail0:eth0",operation="write"} 1234567
railyard_rail_bytes_total{agent="AGENT",rail="rail0:eth0",operation="read"} 999
railyard_rail_operations_total{agent="AGENT",rail="rail0:eth0",operation="write"} 30
railyard_rail_operations_total{agent="AGENT",rail="rail0:eth0",operation="read"} 12
railyard_rail_refusals_total{agent="AGENT",rail="rail0:eth0",operation="data"} 7
railyard_rail_repeats_total{agent="AGENT",rail="rail0:eth0",operation="control"} 8
railyard_rail_failovers_total{agent="AGENT",rail="rail0:eth0"} 9
railyard_rail_errors_total{agent="AGENT",rail="rail0:eth0",error="other"} 6
railyard_peer_on_host{PEER} 1
railyard_peer_transfers_total{PEER,operation="write"} 100
railyard_peer_bytes_total{PEER,operation="write"} 5000000000
railyard_peer_transfer_errors_total{PEER,error="canceled"} 2
railyard_peer_notifications_total{PEER,direction="sent"} 3
railyard_peer_notifications_total{PEER,direction="received"} 1
railyard_peer_failovers_total{PEER} 8
"""
# A hundred transfers of 32 to 65 us.
LIMITS = [f"{(1024 << i) / 1e9:.9f}" for i in range(24)] + ["+Inf"]
ENGINE += "".join(f'railyard_peer_transfer_seconds_bucket{{PEER,operation="write",le="{limit}"}} {100 * (i >= 6)}\n' for i, limit in enumerate(LIMITS))
ENGINE += 'railyard_peer_transfer_seconds_sum{PEER,operation="write"} 0.5\n'


def engine_text(text, agent, age):
    return (text + "# EOF\n").replace("PEER", 'agent="AGENT",peer="far \\"one\\"",instance="0123456789abcdef"').replace(
        "AGENT", agent).replace("TIME", f"{time.time() - age:.3f}")


def case_engines(program):
    """What engines have written of themselves, and what is wrong with what is none of that."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / name for name in ("a.prom", "b.prom", "missing.prom", "cut.prom", "other.prom")]
        for path, text, agent, age in zip(paths, (ENGINE, OLD_ENGINE), ("near", "second"), (0.5, 100)):
            path.write_text(engine_text(text, agent, age), encoding="utf-8")
        good, stale, missing, cut, other = (str(path) for path in paths)
        paths[3].write_text(paths[0].read_text(encoding="utf-8")[:-6], encoding="utf-8")
        paths[4].write_text("node_load1 0.5\n", encoding="utf-8")
        done = run(program, "--live", good, stale)
        lines = done.stdout.splitlines()
        rows = [line.split("  ") for line in lines if "0123456789abcdef" in line]
        cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
        known = ['far "one"', "0123456789abcdef", "suspect"]
        assert cells == [["near", *known, "host", "4", "1", "5.0 GB", "0 B", "100", "2", "8", "4", "49.2, 65.2 us"],
                         ["second", *known, "fabric", "4", "1", *["-"] * 7]], done.stdout
        head = next(line for line in lines if "peer" in line and "instance" in line and "state" in line)
        assert head.split() == ["agent", "peer", "instance", "state", "over", "paths", "failed", "written", "read", "transfers", "errors", "failovers",
                                "notifications", "p50,", "p99"], head
        assert "1 rail over tcp, 1 peer," in done.stdout, done.stdout
        assert [line for line in lines if line.startswith("Note:")] == [line for line in lines if stale in line] != [], done.stdout
        rails = [line.split() for line in lines if "rail0:eth0" in line]
        assert rails == [["near", "rail0:eth0", "5", "-", "2", "1.2", "MB", "999", "B", "42", "7", "8", "9", "6"],
                         ["second", "rail0:eth0", "5", "-", "2", *["-"] * 7]], done.stdout
        engines = json.loads(run(program, "--json", "--live", good, stale).stdout)["engines"]
        assert [engine["agent"] for engine in engines] == ["near", "second"] and engines[0]["file"] == good, engines
        peer = {"peer": 'far "one"', "instance": "0123456789abcdef", "state": "suspect", "on_host": False, "paths": 4, "failed": 1}
        rail = {"name": "rail0:eth0", "load": 5, "crawls": False, "senders_replaced": 2}
        assert engines[1]["peers"] == [peer] and engines[1]["rails"] == [rail], engines
        latency = engines[0]["peers"][0]["write"].pop("latency")
        assert latency == {"measured": 100, "p50_ns": 49152, "p99_ns": 65208, "sum_ns": 500000000}, latency
        assert {**peer, "on_host": True}.items() <= engines[0]["peers"][0].items() and engines[0]["peers"][0]["write"] == {"transfers": 100, "bytes": 5000000000}
        assert engines[0]["peers"][0]["errors"] == {"remote_disconnect": 0, "canceled": 2, "other": 0}, engines
        assert rail.items() <= engines[0]["rails"][0].items() and engines[0]["rails"][0]["control"]["repeats"] == 8, engines
        assert engines[0]["rails"][0]["write"] == {"operations": 30, "bytes": 1234567}, engines
        assert engines[0]["pid"] == 12 and engines[0]["instance"] == "00000000000000aa", engines
        assert 400 <= engines[0]["age_ms"] < 60000 and engines[1]["age_ms"] >= 99000, engines
        for bad, words in ((missing, ("No such file", "stats_file")), (cut, ("its end is missing", "stats_file")),
                           (other, ("railyard_build_info", "stats_file")), (folder, ("stats_file",))):
            done = run(program, "--live", bad, good, status=1)
            assert bad in done.stderr and all(word in done.stderr for word in words), done.stderr
            assert "near" in done.stdout, "what can be read is shown"
            assert not run(program, "--live", bad, status=1).stdout, bad
        assert "--svg" in run(program, "--live", good, "--svg", "x", status=2).stderr


if __name__ == "__main__":
    globals()["case_" + sys.argv[2]](sys.argv[1])
