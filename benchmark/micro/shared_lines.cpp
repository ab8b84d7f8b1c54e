// Two threads of one agent in turns: each posts one write, and waits until it has ended; first small ones,
// then striped ones of many descriptors. Run under valgrind's lackey, whose trace of memory shared_lines.py
// reads: the cache lines that one thread writes and the other touches. Prints, as JSON, where the plugin's
// code lies, and the turns of each kind.
#include <dlfcn.h>
#include <link.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/clock.h"
#include "host/agent.h"

namespace railyard {
namespace {

using host::Agent;
using host::Range;
using host::Request;

constexpr std::uint64_t page = 4096, patience_ns = 60'000'000'000;
constexpr unsigned handles = 8;  // of a thread and a kind, by turns: they lie as the heap has it

/// What a thread posts in each of its turns, and how many it has.
struct Kind {
    const char* name;
    std::uint64_t descriptors, size;
    unsigned warm_up, turns;
    /// Whole pages: no two threads write to one cache line.
    [[nodiscard]] std::uint64_t bytes_of_thread() const {
        return (size * descriptors + page - 1) / page * page;
    }
};
// Threads look at each other's rails in each 64th post, and what batches they post in each 16th.
constexpr std::array<Kind, 2> kinds{{{"8 B", 1, 8, 64, 256}, {"4 KiB x 64", 64, 4096, 16, 32}}};
constexpr std::uint64_t bytes_of_side = 2 * 64 * 4096;

/// Where a store is a mark in the trace. The baton lies there, too: nothing that lies there counts.
struct Marks {
    struct alignas(64) Mark {
        void set() volatile { stored = 1; }
        std::uint64_t stored;
    };
    struct alignas(64) Baton {
        sem_t semaphore;
    };
    static constexpr std::uint64_t address = 0x1000000000;  // shared_lines.py knows it
    Mark begin, end;
    std::array<Mark, 2> turns;
    std::array<Baton, 2> batons;
};
static_assert(sizeof(Marks) <= page);

Marks& make_marks() {
    void* wanted = reinterpret_cast<void*>(Marks::address);
    void* made = mmap(wanted, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made != wanted) throw Error(Status::backend, "the marks' address is taken");
    auto& marks = *static_cast<Marks*>(made);  // nothing is stored yet
    for (Marks::Baton& baton : marks.batons)
        sem_init(&baton.semaphore, 0, 0);
    return marks;
}

struct Side {
    Side(const std::string& plugins, const std::string& name) : memory(bytes_of_side + page, 'x') {
        host::AgentConfig config;
        config.name = name;
        config.plugin_dir = plugins;
        config.progress_thread = false;  // what one did would come by chance
        config.params = {{"provider", "efa-direct"},
                         {"rails", "4"},
                         {"max_bw_per_dram_seg", "1000000"},
                         {"keepalive_ms", "0"},
                         {"peer_timeout_ms", "600000"}};  // under valgrind everything takes long
        agent = std::make_unique<Agent>(config);
        agent->register_memory({base(), bytes_of_side, 0});
    }
    [[nodiscard]] std::uint64_t base() const {
        return (reinterpret_cast<std::uint64_t>(memory.data()) + page - 1) / page * page;
    }
    std::vector<char> memory;
    std::unique_ptr<Agent> agent;
};

Request prepare(Side& from, const Side& to, const Kind& kind, unsigned thread) {
    std::vector<Range> local, remote;
    for (std::uint64_t i = 0; i < kind.descriptors; ++i) {
        const std::uint64_t offset = thread * kind.bytes_of_thread() + i * kind.size;
        local.push_back({from.base() + offset, kind.size, 0});
        remote.push_back({to.base() + offset, kind.size, 0});
    }
    return from.agent->prepare(host::Op::write, local, remote, to.agent->name());
}

/// Posts, and polls until it has ended; the peer looks, too, where it is one that does not know us yet.
void run(Request& request, Side* peer = nullptr) {
    const std::uint64_t limit = now_ns() + patience_ns;
    Status status = request.post();
    while (status == Status::in_progress) {
        if (now_ns() > limit) throw Error(Status::backend, "a transfer does not end");
        if (peer) peer->agent->notifications();
        status = request.poll();
    }
    if (status != Status::ok) throw Error(status, "a transfer failed");
}

void take_turns(const Kind& kind, Marks& marks, unsigned me, std::vector<Request>& requests) {
    for (unsigned turn = 0; turn < kind.warm_up + kind.turns; ++turn) {
        while (sem_wait(&marks.batons[me].semaphore) != 0) {
        }
        if (turn == kind.warm_up && me == 0) marks.begin.set();
        marks.turns[me].set();
        run(requests[turn % requests.size()]);
        if (turn + 1 == kind.warm_up + kind.turns && me == 1) marks.end.set();
        sem_post(&marks.batons[1 - me].semaphore);
    }
}

/// First and last address of the plugin's code.
nlohmann::json code_of_plugin() {
    nlohmann::json found;
    dl_iterate_phdr(
        [](dl_phdr_info* object, std::size_t, void* result) {
            if (!std::strstr(object->dlpi_name, "/libplugin_RAILYARD.so")) return 0;
            for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
                const auto& part = object->dlpi_phdr[i];
                const std::uint64_t from = object->dlpi_addr + part.p_vaddr;
                if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
                *static_cast<nlohmann::json*>(result) = {{"object", object->dlpi_name},
                                                         {"base", object->dlpi_addr},
                                                         {"begin", from},
                                                         {"end", from + part.p_memsz}};
            }
            return 1;
        },
        &found);
    return found;
}

using Requests = std::array<std::vector<Request>, kinds.size()>;

/// The thread of all kinds: who keeps rails has come to rest by the first that counts.
std::thread start_thread(unsigned me, Marks& marks, Requests& requests) {
    return std::thread([me, &marks, &requests] {
        try {
            for (std::size_t kind = 0; kind < kinds.size(); ++kind)
                take_turns(kinds[kind], marks, me, requests[kind]);
        } catch (const std::exception& error) {
            std::fprintf(stderr, "shared-lines: %s\n", error.what());
            std::_Exit(1);
        }
    });
}

[[noreturn]] void measure(const std::string& plugins) {
    Marks& marks = make_marks();
    Side from(plugins, "from"), to(plugins, "to");
    from.agent->load_peer(to.agent->metadata());
    to.agent->load_peer(from.agent->metadata());
    std::array<Requests, 2> requests;
    nlohmann::json turns;
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
        for (unsigned i = 0; i < 2 * handles; ++i)
            run(requests[i / handles][kind].emplace_back(prepare(from, to, kinds[kind], i / handles)), &to);
        turns.push_back({{"name", kinds[kind].name}, {"turns", kinds[kind].turns}});
    }
    std::thread first = start_thread(0, marks, requests[0]), second = start_thread(1, marks, requests[1]);
    sem_post(&marks.batons[0].semaphore);
    first.join();
    second.join();
    std::printf("%s\n", nlohmann::json{{"code", code_of_plugin()}, {"kinds", turns}}.dump().c_str());
    std::fflush(stdout);
    std::_Exit(0);  // to take all down would be traced, too
}

}  // namespace
}  // namespace railyard

// libfabric looks for a word in all symbols of the kernel when it starts: two thirds of all that would be
// traced. The name by itself, as the C library's header may have another one for it.
extern "C" {
[[gnu::visibility("default"), gnu::used]] FILE* railyard_fopen(const char* name,
                                                               const char* mode) asm("fopen");
FILE* railyard_fopen(const char* name, const char* mode) {
    using Function = FILE* (*)(const char*, const char*);
    static const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "fopen"));
    return std::strcmp(name, "/proc/kallsyms") == 0 ? nullptr : next(name, mode);
}
}

int main(int count, char** words) {
    std::string plugins;
    CLI::App app{"Two threads post in turns, for a trace of their memory."};
    app.add_option("--plugins", plugins, "Directory of libplugin_RAILYARD.so")->required();
    CLI11_PARSE(app, count, words);
    try {
        railyard::measure(plugins);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "shared-lines: %s\n", error.what());
        return 1;
    }
}
