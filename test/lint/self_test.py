#!/usr/bin/env python3
"""Each lint finds what it is for, in small bad samples, and nothing in good ones; so do the scripts of a test run."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import doc_names
import environment
import format as format_lint  # pylint: disable=redefined-builtin
import layers
import links
import man_pages
import same_text
import scripts
import sizes
import symbols
import words

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
from pages import tools  # pylint: disable=wrong-import-position


class InTree(unittest.TestCase):
    """A test with an empty tree of its own."""

    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="railyard-lint-")
        self.addCleanup(shutil.rmtree, self.root)

    def write(self, path, text, mode=0o644):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(full, mode)
        return full


class Layers(InTree):
    def check(self, path, include, bad):
        self.write(path, f"#pragma once\n#include {include}\n")
        found = list(layers.findings(self.root))
        self.assertEqual(bool(found), bad, f"{path} includes {include}: {found}")
        if bad:
            self.assertIn(f"{path}:2: includes", found[0])
        os.remove(os.path.join(self.root, path))

    def test_arrows_point_down(self):
        for path, include, bad in [
                ("src/rail/a.h", '"common/log.h"', False), ("src/rail/a.h", '"fabric/info.h"', False),
                ("src/rail/a.h", '"rail/work.h"', False), ("src/common/a.h", '"engine/engine.h"', True),
                ("src/fabric/a.cpp", '"rail/rail.h"', True), ("src/fabric/a.cpp", '"../rail/rail.h"', True),
                ("src/topology/a.h", '"fabric/info.h"', True), ("src/engine/a.h", '"plugin/entry.h"', True),
                ("src/plugin/a.h", '"host/agent.h"', True), ("src/plugin/a.h", '"engine/engine.h"', False),
                ("src/novel/a.h", '"common/log.h"', True), ("include/railyard/a.h", '"common/log.h"', True),
                ("benchmark/a.cpp", '"host/agent.h"', False), ("benchmark/a.cpp", '"engine/engine.h"', True),
                ("benchmark/gpu.cpp", '"cuda/driver.h"', False), ("benchmark/a.cpp", '"cuda/driver.h"', True)]:
            self.check(path, include, bad)

    def test_headers_of_others(self):
        for path, include, bad in [
                ("src/fabric/a.h", "<rdma/fabric.h>", False), ("src/engine/a.h", "<rdma/fabric.h>", True),
                ("benchmark/raw_loop.cpp", "<rdma/fabric.h>", False), ("benchmark/a.cpp", "<rdma/fabric.h>", True),
                ("src/common/a.h", "<cuda.h>", True), ("src/cuda/a.h", "<cuda.h>", False),
                ("src/rail/a.h", "<hwloc.h>", True), ("src/topology/a.h", "<hwloc.h>", False),
                ("src/engine/a.h", '"backend/backend_engine.h"', True), ("src/engine/a.h", '"nixl_types.h"', True),
                ("src/plugin/a.h", '"backend/backend_engine.h"', False), ("src/engine/a.h", "<vector>", False)]:
            self.check(path, include, bad)


class Sizes(InTree):
    GOOD = """
        namespace a { struct S { S(int x, int y) : x_{x}, y_(y) { go(); } int x_{}, y_; };
        enum class E { one, two };
        template <class T> T pick(std::map<int, T> m, T b) { if (m.empty()) { return b; } return m.at(0); } }
        """

    def found(self, text, path="src/common/a.cpp"):
        self.write(path, text)
        return list(sizes.findings(self.root))

    def test_good(self):
        self.assertEqual(self.found(self.GOOD), [])
        self.assertEqual([entry[:2] for entry in sizes.functions(self.GOOD)], [("S", 2), ("pick", 2)])

    def test_long_file(self):
        self.assertIn("401 lines", self.found("\n" * 401)[0])
        self.assertEqual(self.found("\n" * 400), [])

    def test_long_function(self):
        body = "    x();  // } not a brace\n" * 59
        self.assertIn("A::go has 61 lines", self.found("void A::go(int a) const noexcept {\n" + body + "}\n")[0])
        self.assertEqual(self.found("void go() {\n" + body[27:] + "}\n"), [])
        self.assertIn("C::C has", self.found("C::C(int a)\n    : a_{a},\n      b_(2) {\n" + body + "}\n")[0])

    def test_parameters(self):
        seven = "int f(int a, std::map<int, int> b, int c, int d, int e, int g, void (*h)(int, int)) { return 0; }\n"
        self.assertIn("f has 7 parameters", self.found(seven)[0])
        os.remove(os.path.join(self.root, "src/common/a.cpp"))
        self.assertEqual(self.found(seven, "src/plugin/a.cpp"), [])

    def test_text_is_not_code(self):
        self.assertEqual(self.found('const char* t = "void f(int a, int b) {"; char q = \'{\'; int n = 1\'000;\n'
                                    "#define M(x) { x\nint g() { return 1; }\n"), [])


class Environment(InTree):
    def test_who_reads_it(self):
        self.write("src/common/params.cpp", "auto a = std::getenv(name);\n")
        self.write("src/host/plugin_loader.cpp", "auto a = getenv(name);\n")
        self.write("src/rail/a.cpp", "// getenv(x)\nauto b = 1;\n")
        self.write("benchmark/a.cpp", "auto b = getenv(\"A\");\n")
        self.assertEqual(list(environment.findings(self.root)), [])
        self.write("src/rail/a.cpp", "\nauto b = std::getenv(\"A\");\n")
        self.assertIn("src/rail/a.cpp:2:", list(environment.findings(self.root))[0])

    def test_variables_of_scripts_are_listed(self):
        self.write("src/common/params.def", "RAILYARD_PARAM(count, rails, \"0\",\n")
        self.write("src/common/variables.cpp", "\"RAILYARD_CACHE\"")
        self.write("scripts/a", "$RAILYARD_" "RAILS ${RAILYARD_" "CACHE:-x} $RAILYARD_" "TEST_X")
        self.assertEqual(list(environment.findings(self.root)), [])
        for bad in ["${RAILYARD_" "CASH:-x}", "getenv(\"RAILYARD_" "CASH\")", "environ[\"RAILYARD_" "CASH\"]"]:
            self.write("scripts/a", "first\n" + bad)
            self.assertIn("scripts/a:2: reads RAILYARD_" "CASH", list(environment.findings(self.root))[0], bad)


class Words(InTree):
    def test_words(self):
        self.write("a.md", "A transfer in the obsession of /opt/amazon/efa/lib; ~/work/x; https://example.com/work/x\n")
        self.assertEqual(list(words.findings(self.root)), [])
        for bad in ["one sess" + "ion more", "see /wo" + "rk/main", "in /ro" + "ot/x", "from py" + "pi.org"]:
            self.write("a.md", f"first\n{bad}\n")
            self.assertIn("a.md:2:", list(words.findings(self.root))[0], bad)


class Links(InTree):
    def test_links(self):
        self.write("docs/a.md", "[b](b.md#part) [c](../c.md) [d](https://example.com/) [e](#here)\n")
        self.write("docs/b.md", "")
        self.assertIn("docs/a.md:1: links to ../c.md", list(links.findings(self.root))[0])
        self.write("c.md", "")
        self.assertEqual(list(links.findings(self.root)), [])


class DocNames(InTree):
    def setUp(self):
        super().setUp()
        self.write("meson_options.txt", "option('etcd', type: 'feature')\n")
        self.write("src/common/params.def", 'RAILYARD_PARAM(text, devices, "", "", "list",\n    "x")\n')
        self.write("src/rail/rail.h", "struct Rail { void freeze(); };\n")
        self.write("benchmark/one.py", 'add_argument("--quick")\n')
        self.write("benchmark/two.py", 'add_argument("--slow")\n')
        self.write("benchmark/table.py", "")

    def test_names(self):
        good = ["see `src/rail/rail.h`, `src/*/rail.{h}` and `Rail::freeze`, `freeze()`", "    benchmark/one.py --quick", "`--quick` and `--slow`",
                "    docker run --ulimit memlock=-1", "`-Detcd=disabled -Dbuildtype=release`, `RAILYARD_DEVICES`", "src/nothing.h, which is no code"]
        self.write("docs/a.md", "\n".join(good))
        self.assertEqual(list(doc_names.findings(self.root)), [])

    def test_what_is_not_there(self):
        for text, finding in [("`src/rail/reil.h`", "src/rail/reil.h is not there"), ("`src/rail/rail.{h,cpp}`", "is not there"),
                              ("    benchmark/one.py --slow", "benchmark/one.py takes no --slow"), ("`--fast`", "nothing here takes --fast"),
                              ("```\n--fast\n```", "nothing here takes --fast"), ("`-Detc=disabled`", "meson_options.txt has no etc"),
                              ("`RAILYARD_DEVICE=x`", "nothing reads RAILYARD_DEVICE"), ("`Rail::freez`", "freez is not in the code"),
                              ("`thaw()`", "thaw is not in the code")]:
            self.write("docs/a.md", text + "\n")
            found = list(doc_names.findings(self.root))
            self.assertEqual(len(found), 1, f"{text}: {found}")
            self.assertIn(finding, found[0])
        self.write("docs/a.md", "a `b \\| c`\n| pipe \\| text | `code` |\n| `b \\| c` | x |\n")
        self.assertEqual([finding.partition(": ")[0] for finding in doc_names.findings(self.root)], ["docs/a.md:3"])
        self.write("docs/adr/0001-old.md", "`src/gone.h`\n")
        self.write("docs/a.md", "")
        self.assertEqual(list(doc_names.findings(self.root)), [], "decisions tell of their time")


    def test_fuzz_targets(self):
        self.write("test/fuzz/targets.cpp", '        {"answer", fuzz_answer},\n        {"keys", fuzz_keys},\n')
        for rows, wanted in [("| `answer`, `keys` | letters | |\n", []), ("| `answer` | letters | |\n", ["no row for the fuzz target keys"]),
                             ("| `answer` | a | |\n| `keys`, `kays` | b | |\n", ["test/fuzz/targets.cpp has no kays"])]:
            self.write("docs/reliability.md", "# Reliability\n\n## Fuzzing\n\n| target | what | |\n|---|---|---|\n" + rows + "\n## More\n\n| `word` | |\n")
            found = list(doc_names.findings(self.root))
            self.assertEqual([finding.partition(": ")[2] for finding in found], wanted)


class Scripts(InTree):
    def test_python(self):
        self.write("a.py", "def f(:\n")
        self.write("b.sh", "#!/usr/bin/env bash\n")
        found = list(scripts.findings(self.root, None))
        self.assertIn("a.py:1:", found[0])
        self.assertIn("b.sh:1: has a #! line", found[1])

    def test_stages_of_the_workflow(self):
        self.write(".ci/run", "#     .ci/run [STAGE]...      stages: test thread arm64   (default: all)\n")
        for stages, left in [(["test", "thread arm64"], []), (["test arm64"], ["thread"])]:
            self.write(".github/workflows/ci.yml", "".join(f"          - part: a\n            stages: {each}\n" for each in stages))
            found = list(scripts.findings(self.root, None))
            self.assertEqual([finding.split()[-3] for finding in found], left)

    def test_tests_are_selected_in_the_order_in_which_they_run(self):
        tests = [{"name": name, "suite": ["railyard:" + suite], "is_parallel": parallel, "priority": priority, "timeout": timeout}
                 for name, suite, parallel, priority, timeout in [
                     ("short", "a", True, 0, 60), ("alone", "a", False, -10, 480), ("long", "b", True, 0, 120), ("first", "a", True, 10, 60)]]
        self.write("build/meson-info/intro-tests.json", json.dumps(tests))
        for words_, wanted in [([], ["first", "long", "short", "alone"]), (["a"], ["first", "short", "alone"]), (["*o*", "first"], ["first", "long", "short", "alone"])]:
            output = subprocess.run([os.path.join(SCRIPTS, "select-tests"), os.path.join(self.root, "build"), *words_],
                                    stdout=subprocess.PIPE, text=True, check=True).stdout
            self.assertEqual(output.split(), wanted)

    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed")
    def test_shell(self):
        self.write("b.sh", "#!/usr/bin/env bash\nrm $1\n", 0o755)
        self.write("sourced", "# Sourced.\n# shellcheck shell=bash\nrm $1 || cd $2\n")
        found = " ".join(scripts.findings(self.root, shutil.which("shellcheck")))
        self.assertIn("b.sh:2:4: note: Double quote", found)
        self.assertIn("sourced:3:4: note: Double quote", found)


class Format(InTree):
    @unittest.skipUnless(format_lint.formatter(), "clang-format of the wanted version is not installed")
    def test_format(self):
        self.write(".clang-format", "BasedOnStyle: Google\n")
        self.write("src/a.cpp", "int a = 1;\n")
        self.assertEqual(list(format_lint.findings(self.root, format_lint.formatter())), [])
        self.write("src/a.cpp", "int  a=1;\n")
        self.assertIn("src/a.cpp:1", list(format_lint.findings(self.root, format_lint.formatter()))[0])


class SameText(InTree):
    def test_same_text(self):
        path = self.write("a.md", "one\ntwo\n")
        self.assertEqual(same_text.findings(path, ["printf", "one\\ntwo\\n"]), [])
        self.assertIn("+three", same_text.findings(path, ["printf", "one\\nthree\\n"]))
        self.assertTrue(same_text.findings(path + ".none", ["printf", "one\\n"]))


@unittest.skipUnless(shutil.which("mandoc") and shutil.which("groff"), "mandoc or groff is not installed")
class ManPages(InTree):
    PAGE = '.TH A 1 2026-11-24 "A 1" "User Commands"\n.SH NAME\na \\- b\n.SH OPTIONS\n' \
        ".TP\n\\fB\\-\\-one\\fR, \\fB\\-o\\fR \\fIFILE\\fR\nAs \\-\\-two.\n"
    HELP = "#!/bin/sh\necho 'Usage: a'\necho\necho 'Options:'\necho '  -o,--one FILE          not --three'\n"

    def found(self, page, text):
        return list(man_pages.findings(self.write("a.1", page), self.write("a", text, 0o755)))

    def test_options(self):
        self.assertEqual(self.found(self.PAGE, self.HELP), [])
        more = self.HELP + "echo '  --four'\n"
        self.assertIn("--four of --help is missing", " ".join(self.found(self.PAGE, more)))
        self.assertIn("--one is no option", " ".join(self.found(self.PAGE, self.HELP.replace("--one", "--two"))))

    def test_roff(self):
        self.assertEqual(len(self.found(self.PAGE + ".QQ\n", self.HELP)), 2)


class HelpText(unittest.TestCase):
    """scripts/pages reads what CLI11 2.1 prints, and 2.4."""

    def read(self, *lines):
        found = tools.option(lines)
        return found.name, found.value, found.low, found.high, found.default, found.excludes, found.text

    def test_option(self):
        wanted = ("--time", "FLOAT", "0.1", "9", "0.5", ["--count"], "Time")
        self.assertEqual(self.read("  -t,--time FLOAT:FLOAT in [0.1 - 9]=0.5 Excludes: --count", " " * 30 + "Time"), wanted)
        self.assertEqual(self.read("  -t,--time FLOAT:FLOAT in [0.1 - 9] [0.5]  Excludes: --count", " " * 30 + "Time"), wanted)
        self.assertEqual(self.read("  --svg FILE Excludes: --live also a picture"),
                         ("--svg", "FILE", "", "", "", ["--live"], "also a picture"))
        self.assertEqual(self.read("  --op TEXT [write]           write or read"),
                         ("--op", "TEXT", "", "", "write", [], "write or read"))
        self.assertEqual(self.read("  --no-check{false}           Skip")[1], "")

    def test_unknown_line(self):
        with self.assertRaisesRegex(ValueError, "cannot read this line of --help: '  --op <TEXT>"):
            self.read("  --op <TEXT>                 write or read")


class Symbols(InTree):
    def build(self, text, *flags):
        source, library = self.write("a.c", text), os.path.join(self.root, "a.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, *flags], check=True)
        return [finding.split(": ")[1] for finding in symbols.findings(library)]

    def test_symbols(self):
        entry_points = "int nixl_plugin_init(void) { return 0; } int nixl_plugin_fini(void) { return 0; }\n"
        self.assertEqual(self.build(entry_points), [])
        self.assertEqual(self.build(entry_points + "int more;\n"), ["exports more"])
        self.assertEqual(self.build("int nixl_plugin_init;\n"), ["does not export nixl_plugin_fini"])
        other = os.path.join(self.root, "libother.so.1")
        subprocess.run(["cc", "-shared", "-o", other, "-Wl,-soname,libother.so.1"], check=True)
        self.assertEqual(self.build(entry_points, "-Wl,--no-as-needed", other, "-lm"), ["needs libother.so.1"])


class WithStacks(InTree):
    """The wrapper of every test: hang, crash, leftover, skip and pass each count as what they are."""

    def run_under(self, seconds, command, *, results=None):
        set_by_wrapper = ("RAILYARD_TEST_RESULTS", "SIMEFA_NAMESPACE")
        environ = {key: value for key, value in os.environ.items() if key not in set_by_wrapper}
        if results:
            environ["RAILYARD_TEST_RESULTS"] = results
        done = subprocess.run([os.path.join(SCRIPTS, "with-stacks"), str(seconds), "sh", "-c", command],
                              env=environ, check=False, capture_output=True, text=True, timeout=100)
        return done.returncode, done.stdout

    def test_pass_and_failure(self):
        self.assertEqual(self.run_under(20, "echo hello"), (0, "hello\n"))
        self.assertEqual(self.run_under(20, "exit 3")[0], 3)
        code, output = self.run_under(20, "kill -SEGV $$")
        self.assertEqual(code, 139)
        self.assertIn("SIGSEGV", output)

    def test_each_has_a_simulated_cluster_of_its_own(self):
        one, other = (self.run_under(20, "echo $SIMEFA_NAMESPACE")[1].strip() for _ in range(2))
        self.assertTrue(one and other)
        self.assertNotEqual(one, other)
        self.assertEqual(self.run_under(20, "SIMEFA_NAMESPACE=x sh -c 'echo $SIMEFA_NAMESPACE'")[1], "x\n")

    def test_hang_shows_stacks_and_ends(self):
        one, other = f"sleep 1000.{os.getpid()}", f"sleep 1001.{os.getpid()}"
        code, output = self.run_under(1, f"{one} & {other}")
        self.assertEqual(code, 124)
        self.assertIn("no end after 1 s", output)
        self.assertIn(one, output)
        self.assertIn(other, output)
        self.assertRegex(output, r"#0 |thread \d+:")
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    self.assertNotIn(file.read().replace(b"\0", b" ").decode().strip(), (one, other))
            except OSError:
                pass

    def test_process_left_behind(self):
        code, output = self.run_under(20, "setsid sleep 1002 & exit 0")
        self.assertEqual(code, 125)
        self.assertIn("left behind", output)

    def summary(self, results, *options):
        done = subprocess.run([os.path.join(SCRIPTS, "test-summary"), *options, results], check=False,
                              capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()

    def test_summary_counts(self):
        results = os.path.join(self.root, "results")
        os.mkdir(results)
        self.assertEqual(self.summary(results)[1][-1], "0 passed, 0 failed")
        self.assertEqual(self.summary(results)[0], 1)
        self.run_under(20, "true", results=results)
        self.assertEqual(self.summary(results), (0, ["1 passed, 0 failed"]))
        self.run_under(20, "echo no device; exit 77", results=results)
        self.assertEqual(self.summary(results), (0, ["SKIPPED  sh: no device", "1 passed, 0 failed, 1 skipped"]))
        self.assertEqual(self.summary(results, "--forbid-skip", "s*")[1][-1], "1 passed, 1 failed")
        self.assertEqual(self.summary(results, "--runner-status", "1")[0], 1)
        self.run_under(1, "sleep 1003", results=results)
        code, lines = self.summary(results)
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 1 skipped"))

    def test_summary_reads_gtest(self):
        results = os.path.join(self.root, "results")
        os.mkdir(results)
        self.write("results/a.xml", """<?xml version="1.0"?><testsuites><testsuite name="S">
            <testcase name="one" status="run" result="completed" classname="S"/>
            <testcase name="two" status="run" result="skipped" classname="S">
              <skipped message="a.cpp:3&#x0A;no shm here&#x0A;"/></testcase>
            <testcase name="three" status="run" result="completed" classname="S">
              <failure message="a.cpp:4&#x0A;1 != 2" type=""/></testcase>
            <testcase name="four" status="notrun" result="suppressed" classname="S"/></testsuite></testsuites>""")
        record = {"name": "prog", "suites": [], "code": 1, "seconds": 1.0, "timed_out": False, "leftovers": 0,
                  "last_line": "", "xml": "a.xml", "log": "a.log"}
        self.write("results/a.json", json.dumps(record))
        code, lines = self.summary(results)
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 1 skipped"))
        self.assertIn("SKIPPED  prog: S.two: no shm here", lines)
        record["code"] = 139  # crashed after writing? then what failed is on record; before: nothing is
        record["xml"] = "none.xml"
        self.write("results/a.json", json.dumps(record))
        self.assertEqual(self.summary(results)[1][-1], "0 passed, 1 failed")

    def test_summary_says_what_a_sanitizer_found(self):
        results = os.path.join(self.root, "results")
        os.mkdir(results)
        self.write("report", "\n".join([
            "[ RUN      ] S.one", "[       OK ] S.one (1 ms)", "[ RUN      ] S.two/tcp", "=====",
            "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x7f01 at pc 0x1 bp 0x2 sp 0x3",
            "READ of size 8 at 0x7f01 thread T0", "    #0 0x55d in railyard::Rail::look() ../src/rail/rail.cpp:7",
            "    #1 0x55e in main ../test/main.cpp:9", "", "freed by thread T0 here:", "    #0 0x55f in free",
            "SUMMARY: AddressSanitizer: heap-use-after-free", "Shadow bytes around the buggy address:",
            "  0x7f00: fd fd", "==7==ABORTING"]) + "\n")
        self.run_under(20, f"cat {self.root}/report; exit 1", results=results)
        _, lines = self.summary(results)
        self.assertIn(
            "FAILED   sh: exit status 1: ==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x7f01 at pc 0x1 "
            "bp 0x2 sp 0x3; railyard::Rail::look() ../src/rail/rail.cpp:7; main ../test/main.cpp:9; in S.two/tcp", lines)
        self.assertIn("freed by thread T0 here:", lines)
        self.assertNotIn("  0x7f00: fd fd", lines)

    def test_second_runs_judge_expectations_alone(self):
        results = os.path.join(self.root, "results")
        again = os.path.join(results, "again")
        os.makedirs(again)
        self.write("counter", "")
        once = f"if [ -s {self.root}/counter ]; then exit 0; fi; echo 1 >{self.root}/counter; echo 1 != 2; exit 1"
        self.run_under(20, once, results=results)
        self.assertEqual(self.summary(results, "--to-repeat"), (0, ["sh"]))
        self.assertEqual(self.summary(results, "--again", again)[1][-1], "0 passed, 1 failed")  # none ran
        self.run_under(20, once, results=again)
        self.run_under(20, "true", results=results)
        code, lines = self.summary(results, "--runner-status", "1", "--again", again)
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed"))
        self.assertIn("1 != 2", lines)
        self.assertIn("UNSTEADY sh: failed once, then held each time alone: exit status 1: 1 != 2", lines)
        self.run_under(20, "exit 1", results=again)
        self.assertEqual(self.summary(results, "--again", again)[1][-1], "1 passed, 1 failed")

    def test_a_test_without_a_record_has_failed(self):
        results = os.path.join(self.root, "results")
        again = os.path.join(results, "again")
        os.makedirs(again)
        self.run_under(20, "echo 1 != 2; exit 1", results=results)
        self.run_under(20, "true", results=again)
        self.run_under(20, "true", results=results)
        options = ["--runner-status", "1", "--again", again, "--expected", self.write("expected", "sh\nwithout\n")]
        code, lines = self.summary(results, *options)
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed"))
        self.assertIn("FAILED   without: left no record", lines)
        self.write("expected", "sh\n")
        self.assertEqual(self.summary(results, *options)[0], 0)

    def test_what_no_second_run_may_judge(self):
        for number, (limit, script) in enumerate([
                (1, "sleep 1004"), (20, "setsid sleep 1005 & exit 1"), (20, "kill -SEGV $$"),
                (20, "echo 'WARNING: ThreadSanitizer: data race (pid=1)'; exit 1")]):
            results = os.path.join(self.root, f"results{number}")
            os.mkdir(results)
            self.run_under(limit, script, results=results)
            self.assertEqual(self.summary(results, "--to-repeat"), (0, []), script)
        results = os.path.join(self.root, "many")
        os.mkdir(results)
        for _ in range(4):
            self.run_under(20, "exit 1", results=results)
        self.assertEqual(self.summary(results, "--to-repeat"), (0, ["sh"]))
        self.run_under(20, "exit 1", results=results)
        self.assertEqual(self.summary(results, "--to-repeat"), (0, []))


if __name__ == "__main__":
    sys.argv[1:] = []
    unittest.main()
