#!/usr/bin/env python3
"""railyard-info doctor as a user runs it.  doctor_test.py PROGRAM CASE [PROVIDER_DIRECTORY]"""
import json
import pathlib
import sys
import tempfile

from info_test import HERE, address, efa_name, efas_of, expect_lost_output, run
from instances import INSTANCES

P5 = next(instance for instance in INSTANCES if instance.name == "p5.48xl")
P5_XML = str(HERE / "p5.48xl.xml")


def examined(program, *arguments, status, **environment):
    """The findings of each check."""
    report = json.loads(run(program, "doctor", "--json", *arguments, status=status, **environment).stdout)
    assert report["version"] == 1, report
    findings = {}
    for finding in report["findings"]:
        assert (finding["remedy"] is None) == (finding["severity"] == "ok"), finding
        findings.setdefault(finding["check"], []).append(finding)
    assert report["worst"] == {0: "ok", 1: "warning", 2: "error"}[status] or (status == 0 and report["worst"] == "note"), report
    return findings


def severities(findings, check):
    return [finding["severity"] for finding in findings[check]]


def put(root, path, text=""):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def healthy_p5_limits(root):
    put(root, "proc/self/limits", "Max locked memory         unlimited            unlimited            bytes\n")


def healthy_p5(root):
    """What a p5 shows below /proc, /sys and /dev when its EFAs are ready."""
    healthy_p5_limits(root)
    put(root, "proc/sys/kernel/osrelease", "6.8.0-1021-aws\n")
    put(root, "proc/meminfo", "HugePages_Free:     5128\n")
    put(root, "usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.52.0")
    (root / "dev/shm").mkdir(parents=True)
    put(root, "sys/bus/pci/drivers/efa/bind")
    for index, (where, _, _) in enumerate(efas_of(P5)):
        device = f"sys/bus/pci/devices/{address(*where)}"
        put(root, f"{device}/infiniband_verbs/uverbs{index}/dev")
        (root / device / "driver").symlink_to("../../drivers/efa")
        put(root, f"dev/infiniband/uverbs{index}")


def case_here(program):
    """Over loopback one thing could be better, and it is the last line but one that says what to do."""
    done = run(program, "doctor", "--provider", "tcp", "--devices", "lo", status=1)
    lines = done.stdout.splitlines()
    warned = [line for line in lines if line.startswith("warning")]
    assert any(line.startswith("warning  tcp-interface: lo reaches this machine alone") for line in warned), done.stdout
    assert any(line.startswith("         -> ") and "devices=NAME" in line for line in lines), done.stdout
    assert lines[-1].startswith(f"0 errors, {len(warned)} warning"), done.stdout
    findings = examined(program, "--provider", "tcp", "--devices", "lo", status=1)
    assert severities(findings, "tcp-interface") == ["warning"], findings
    assert severities(findings, "rails") == ["ok"] and "1 rail over tcp" in findings["rails"][0]["what"], findings


def case_errors(program):
    done = run(program, "doctor", "--xml", "/missing.xml", status=3)
    assert "/missing.xml" in done.stderr and not done.stdout, done
    assert "--nonsense" in run(program, "doctor", "--nonsense", status=3).stderr
    for other in (["--svg", "x"], ["--live", "x"], ["--interval", "1"], ["--attributes"], ["--offline"]):
        done = run(program, "doctor", *other, status=3)
        assert f"{other[0]}: not for doctor" in done.stderr and not done.stdout, done
    for root in ("/missing", __file__):
        done = run(program, "doctor", "--root", root, status=3)
        assert f'--root "{root}" is no directory' in done.stderr and not done.stdout, done
    expect_lost_output(program, "doctor", status=3)
    done = run(program, "doctor", "--provider", "nonsense", "--json", status=2)
    assert any("nonsense" in finding["what"] for finding in json.loads(done.stdout)["findings"]), done.stdout
    (missing,) = examined(program, "--provider", "tcp", status=2, FI_PROVIDER="sockets")["rails"]
    assert missing["remedy"].startswith('unset FI_PROVIDER ("sockets" here)'), missing
    refused = {"RAILYARD_RAILS": "x", "RAILYARD_PROVIDER": "shm"}
    findings = examined(program, "--provider", "tcp", "--devices", "lo", status=2, **refused)
    (setting,) = findings["settings"]
    assert setting["severity"] == "error" and 'RAILYARD_RAILS: bad value "x"' in setting["what"], setting
    assert "1 rail over tcp" in findings["rails"][0]["what"], findings
    case_refused_settings(program)
    assert "Usage" in run(program, "doctor", "--help", **refused).stdout
    assert "no option here" in run(program, "doctor", "--nonsense", status=3, **refused).stderr
    with tempfile.TemporaryDirectory() as folder:
        damaged = pathlib.Path(folder) / "damaged.xml"
        damaged.write_text("<topology", encoding="utf-8")
        (unread,) = examined(program, "--provider", "tcp", "--devices", "lo", status=1, HWLOC_XMLFILE="/missing.xml")["topology"]
        assert unread["severity"] == "warning" and '"/missing.xml"' in unread["what"] and "lstopo" in unread["remedy"], unread
        done = run(program, "doctor", status=3, HWLOC_XMLFILE=str(damaged))
        assert f'HWLOC_XMLFILE is "{damaged}": name an hwloc XML file' in done.stderr and not done.stdout, done
        findings = examined(program, "--xml", P5_XML, "--root", folder, status=2)
        (driverless,) = findings["device"]
        named = [efa_name(*where) for where, _, _ in efas_of(P5) if efa_name(*where) in driverless["what"]]
        assert driverless["what"].startswith("32 devices have no driver") and len(named) == 4, findings
        assert "modprobe efa" in driverless["remedy"], findings


def case_refused_settings(program):
    """What an engine refuses only when it uses it is an error of the settings, too; the rest is looked at."""
    with tempfile.TemporaryDirectory() as folder:
        put(pathlib.Path(folder), "file", "no socket")
        for variable, value, told in (
                ("STATS_FILE", "x%q", "after % comes"), ("STATS_SOCKET", "/tmp/%q", "after % comes"),
                ("STATS_SOCKET", "/nonexist/d/x", "No such file or directory; its directory has to be there"),
                ("STATS_SOCKET", folder + "/" + "x" * 108, "no name for a socket"), ("STATS_SOCKET", folder + "/file", "no socket: take it away"),
                ("GPU_DEVICES", "foo", '"foo" is no ordinal'), ("GPU_DEVICES", "77", "this process has no GPU 77"),
                ("OOB_INTERFACE", "nosuch", '"nosuch" names no device that there is'), ("DEVICES", ",", 'bad value ","'), ("DEVICES", "^", 'bad value "^"'),
                ("TOPOLOGY_FILE", "/missing.xml", 'topology file "/missing.xml" cannot be read')):
            findings = examined(program, "--provider", "tcp", *([] if variable == "DEVICES" else ["--devices", "lo"]), status=2,
                                **{"RAILYARD_" + variable: value})
            (setting,) = findings["settings"]
            assert setting["severity"] == "error" and setting["what"].startswith(f"RAILYARD_{variable}: ") and told in setting["what"], setting
            assert "unset it" in setting["remedy"] and "over tcp" in findings["rails"][0]["what"], findings
        fine = {"RAILYARD_STATS_FILE": folder + "/%a.prom", "RAILYARD_STATS_SOCKET": folder + "/%a.sock", "RAILYARD_GPU_DEVICES": "none",
                "RAILYARD_OOB_INTERFACE": "lo"}
        assert "settings" not in examined(program, "--provider", "tcp", "--devices", "lo", status=1, **fine)
        assert sorted(path.name for path in pathlib.Path(folder).iterdir()) == ["file"]
        for variable, value, told in (("STATS_FILE", "/nonexist/d/%a.prom", "/nonexist/d/a.prom cannot be written: No such file or directory"),
                                      ("RAILSS", "3", "nothing reads it (did you mean RAILYARD_RAILS?)")):
            done = run(program, "doctor", "--json", "--provider", "tcp", "--devices", "lo", status=1, **{"RAILYARD_" + variable: value})
            (setting,) = [finding for finding in json.loads(done.stdout)["findings"] if finding["check"] == "settings"]
            assert setting["severity"] == "warning" and setting["what"] == f"RAILYARD_{variable}: {told}" and setting["remedy"], setting
            assert variable not in done.stderr, done


def case_simulated(program):
    """The driver's GPUs are missing, and headers before 1.18 leave device RDMA off; else a p5 is well."""
    provider = {"FI_PROVIDER_PATH": sys.argv[3], "FI_PROVIDER": "efa", "HWLOC_XMLFILE": P5_XML}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        healthy_p5(root)
        findings = examined(program, "--root", folder, status=1, **provider)
        for check, found in findings.items():
            if check not in ("gpu", "libfabric", "ptrace"):
                assert severities(findings, check) == ["ok"] * len(found), found
        assert len(findings["device"]) == 32 and "32 rails over efa-direct" in findings["rails"][0]["what"], findings
        put(root, "proc/self/limits", "Max locked memory         unlimited            unlimited            bytes\n"
            "Max open files            200                  200                  files\n")
        (few,) = examined(program, "--root", folder, status=1, **provider)["files"]
        assert few["severity"] == "warning" and "an engine with 32 rails needs" in few["what"], few
        limited = examined(program, "--root", folder, status=1, RAILYARD_RAILS="8", **provider)
        assert "8 rails over efa-direct" in limited["rails"][0]["what"] and severities(limited, "files") == ["ok"], limited
        healthy_p5_limits(root)
        assert severities(findings, "gpu") == ["warning"] and "8 GPUs" in findings["gpu"][0]["what"], findings
        assert "error" not in severities(findings, "libfabric"), findings
        (root / "dev/infiniband/uverbs5").unlink()
        put(root, ".dockerenv")
        findings = examined(program, "--root", folder, status=1, **provider)
        assert sorted(severities(findings, "device")) == ["note"] + ["ok"] * 31, findings
        (missing,) = [finding for finding in findings["device"] if finding["severity"] == "note"]
        assert "/dev/infiniband/uverbs5" in missing["what"] and "--device /dev/infiniband" in missing["remedy"], missing
        named = examined(program, "--root", folder, "--provider", "tcp", status=1, **{**provider, "FI_PROVIDER": "efa,tcp,net"})
        assert "error" not in severities(named, "libfabric"), "it has EFAs, and tcp was asked for"


if __name__ == "__main__":
    globals()["case_" + sys.argv[2]](sys.argv[1])
