#!/usr/bin/env python3
"""Commands that build or take long answer --help and what is misspelt at once, and leave nothing behind."""
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_S = 20  # far below what a build takes


def expect(status, words, *command, folder):
    # No package manager, no meson, no ninja: who calls one fails.
    for name in ("apt-get", "dpkg-query", "meson", "ninja"):
        program = folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho {name} was called >&2\nexit 99\n", encoding="utf-8")
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    done = subprocess.run([str(ROOT / command[0]), *command[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT_S, check=False, env=environment)
    said = done.stdout + done.stderr
    assert done.returncode == status, f"{command}: status {done.returncode}\n{said}"
    assert "was called" not in said, f"{command}: {said}"
    for word in words:
        assert word in said, f"{command} does not say {word}:\n{said}"
    if status == 0:
        assert words[0] in done.stdout, f"{command} tells it to standard error"


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build = ["benchmark/run", "--build-dir", str(folder / "build")]
        expect(0, ["benchmark/run --sim", "--target-env", "railyard-bench"], *build, "--help", folder=folder)
        expect(2, ["unknown option --provder", "--help"], *build, "--provder=tcp", folder=folder)
        expect(2, ["unknown option --colour", "--help"], *build, "--op", "both", "--colour", folder=folder)
        expect(2, ['no picture of "p5.48xlrage"', "p5.48xlarge"], *build, "--sim", "p5.48xlrage", folder=folder)
        expect(2, ["--sim needs an instance type"], *build, "--sim", folder=folder)
        assert not (folder / "build").exists()
        expect(0, [".ci/run [STAGE]"], ".ci/run", "--help", folder=folder)
        expect(2, ["no stage nosuch", "leftovers"], ".ci/run", "nosuch", folder=folder)
        expect(0, ["usage: test/run [OPTION]"], "test/run", "--help", folder=folder)
        for option in ("--repeat", "--again", "--limit", "--jobs"):
            for wrong in ("x", "-1", "", "0" if option != "--again" else "1.5"):
                expect(2, [f"{option} '{wrong}'", "number"], "test/run", "--no-install", option, wrong, folder=folder)
        expect(0, ["scripts/update-docs [BUILD_DIR]"], "scripts/update-docs", "--help", folder=folder)
        expect(0, ["usage: compare.py [-h]"], "benchmark/compare.py", "--help", folder=folder)
        for other in ("libfabric", "mooncake"):
            expect(0, [f"usage: compare.py {other} [-h]"], "benchmark/compare.py", other, "--help", folder=folder)
    print("each answers at once")


if __name__ == "__main__":
    main()
