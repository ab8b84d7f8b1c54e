// gpu_suite: everything that is tested with a GPU, real or faked.  gpu_suite [OPTION]... [--gtest_...]
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "suite.h"
#include "target_process.h"

namespace railyard::gpu {

namespace {

constexpr char usage[] =
    "usage: gpu_suite [OPTION]... [--gtest_...]\n"
    "  --fabrics LIST       providers between two processes (default: tcp,shm)\n"
    "  --local-rail         the two processes may go past the fabric, as peers on one host do\n"
    "  --gpu N              CUDA ordinal (default: 0)\n"
    "  --brief              figures only show that they can be taken\n"
    "  --json FILE          writes device, counts and figures, added to what is there\n"
    "  --target-env NAME=VALUE  environment of the second process; repeatable\n"
    "  --unique-env NAME    sets it to a value that no other run has, for both processes\n"
    "  --self PROGRAM       how this program is started again\n";

Setup& changeable_setup() {
    static Setup made;
    return made;
}

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts;
    std::stringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');)
        parts.push_back(part);
    return parts;
}

/// Takes what is ours; returns false for what is neither ours nor GoogleTest's.
bool take(const std::vector<std::string>& words, Setup& to) {
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (word == "--brief") {
            to.brief = true;
            continue;
        }
        if (word == "--local-rail") {
            to.local_rail = true;
            setenv("RAILYARD_LOCAL_RAIL", "auto",
                   1);  // of both processes, whatever a backend's parameters say
            continue;
        }
        if (i + 1 == words.size()) return false;
        const std::string& value = words[++i];
        if (word == "--fabrics") {
            to.fabrics = split(value);
        } else if (word == "--gpu") {
            to.gpu = static_cast<unsigned>(std::stoul(value));
        } else if (word == "--json") {
            to.json = value;
        } else if (word == "--target-env") {
            to.target_environment.push_back(value);
        } else if (word == "--unique-env") {
            setenv(value.c_str(), ("gpu-suite-" + std::to_string(getpid())).c_str(), 1);
        } else if (word == "--self") {
            to.self = value;
        } else if (word == "--target") {
            to.target = std::stoi(value);
            to.bench_options.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
            return true;
        } else {
            return false;
        }
    }
    return !to.fabrics.empty();
}

int run() {
    int status = RUN_ALL_TESTS();
    if (!setup().json.empty()) {
        const nlohmann::json before = nlohmann::json::parse(std::ifstream(setup().json), nullptr, false);
        const std::string text = results(before.is_object() ? before : nlohmann::json::object()).dump(2);
        std::ofstream file(setup().json);
        file << text << "\n";
        if (!file.flush()) {
            std::fprintf(stderr, "gpu_suite: cannot write %s\n", setup().json.c_str());
            status = 1;
        }
    }
    close_gpu();
    return status;
}

}  // namespace

const Setup& setup() {
    return changeable_setup();
}

int start(int argc, char** argv) {
    std::vector<std::string> words;
    std::vector<char*> googles{argv[0]};
    for (int i = 1; i < argc; ++i) {
        if (std::string(argv[i]).starts_with("--gtest_"))
            googles.push_back(argv[i]);
        else
            words.emplace_back(argv[i]);
    }
    Setup& own = changeable_setup();
    if (!take(words, own)) {
        std::fputs(usage, stderr);
        return 2;
    }
    if (own.target >= 0) return serve_as_target(own.target, own.bench_options);
    int count = static_cast<int>(googles.size());
    googles.push_back(nullptr);                       // as behind argv
    testing::InitGoogleTest(&count, googles.data());  // fabrics are known now, and cases are made for them
    return run();
}

}  // namespace railyard::gpu

int main(int argc, char** argv) {
    try {
        return railyard::gpu::start(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "gpu_suite: %s\n", error.what());
        return 2;
    }
}
