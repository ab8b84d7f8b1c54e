// What a peer costs in heap bytes for each pair of rails, in an engine that has exchanged data with it both
// ways, over simulated NICs. Prints, as JSON, ours and what belongs to the provider.
#include <link.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "far_side.h"
#include "measure.h"

namespace {

std::atomic<std::int64_t> ours{0}, providers{0};

struct Code {
    std::uintptr_t begin = 0, end = 0;
};
std::array<Code, 8> provider_code;

/// In front of every block; as long as malloc's alignment, and not part of what is counted.
struct alignas(16) Block {
    std::int64_t bytes = 0;
    bool provider = false;
};

bool is_provider(std::uintptr_t caller) noexcept {
    for (const Code& code : provider_code) {
        if (caller >= code.begin && caller < code.end) return true;
    }
    return false;
}

void* allocate(std::size_t size, const void* caller) {
    auto* const block = static_cast<Block*>(std::malloc(sizeof(Block) + size));
    if (!block) throw std::bad_alloc();
    // What malloc takes for it: eight bytes more, in steps of sixteen, at least two.
    block->bytes = static_cast<std::int64_t>(std::max<std::size_t>((size + 8 + 15) & ~std::size_t{15}, 32));
    block->provider = is_provider(reinterpret_cast<std::uintptr_t>(caller));
    (block->provider ? providers : ours).fetch_add(block->bytes, std::memory_order_relaxed);
    return block + 1;
}

void release(void* memory) noexcept {
    if (!memory) return;
    auto* const block = static_cast<Block*>(memory) - 1;
    (block->provider ? providers : ours).fetch_sub(block->bytes, std::memory_order_relaxed);
    std::free(block);
}

/// Where the code of libfabric and of its provider lies; from here on theirs is told from ours.
void find_providers() {
    static std::size_t found = 0;
    dl_iterate_phdr(
        [](dl_phdr_info* library, std::size_t, void*) {
            if (!std::strstr(library->dlpi_name, "libfabric") && !std::strstr(library->dlpi_name, "-fi.so"))
                return 0;
            for (int i = 0; i < library->dlpi_phnum && found < provider_code.size(); ++i) {
                const auto& part = library->dlpi_phdr[i];
                if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
                const std::uintptr_t begin = library->dlpi_addr + part.p_vaddr;
                provider_code[found++] = {begin, begin + part.p_memsz};
            }
            return 0;
        },
        nullptr);
    if (found == 0) throw std::runtime_error("no provider's code was found");
}

}  // namespace

// Not inlined: the compiler would see malloc without free, or free without malloc.
[[gnu::noinline]] void* operator new(std::size_t size) {
    return allocate(size, __builtin_return_address(0));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    release(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    release(memory);
}

namespace railyard::test {
namespace {

constexpr std::size_t buffer_size = std::size_t{4} << 20;

struct Neighbour {
    Neighbour(const Fabric& fabric, std::string agent)
        : name(std::move(agent)), process(start_agent(fabric, name)) {
        info = process->connection_info();
        far = process->make_buffer(buffer_size, 7);
    }
    std::string name;
    std::unique_ptr<OtherMachine> process;
    std::string info;
    PublishedBuffer far;
};

/// A WRITE there and, where asked to, one back, each over all rails.
void exchange(Engine& engine, Neighbour& peer, const Buffer& near, const PublishedBuffer& published,
              bool back) {
    engine.load_connection_info(peer.name, peer.info);
    engine.connect(peer.name);
    const auto remote =
        engine.load_remote_memory(peer.name, peer.far.metadata, peer.far.address, buffer_size);
    const LocalDescriptor from = near.local(0, buffer_size);
    const RemoteDescriptor to{peer.far.address, buffer_size, &remote};
    Transfer* transfer = engine.prepare(Operation::write, {&from, 1}, {&to, 1}, peer.name, std::nullopt);
    require_ok(finish(engine, *transfer), "a transfer");
    engine.release(transfer);
    if (!back) return;
    peer.process->load(engine.agent_name(), engine.connection_info());
    peer.process->start_write(0, engine.agent_name(), published, "back");
    std::vector<Notification> got;
    until(
        "a peer's write", [&] { return !got.empty(); }, [&] { engine.take_notifications(got); });
}

int run(int count, char** words) {
    Fabric fabric{"efa-direct", 8, false};
    unsigned peers = 4;
    bool back = false;
    CLI::App app{
        "Heap bytes of a peer, by pair of rails: see benchmark/reliability.py, which sets the stage for it."};
    app.add_option("--provider", fabric.provider, "Rails to use")->capture_default_str();
    app.add_option("--rails", fabric.rails, "Number of rails of each side")->capture_default_str();
    app.add_option("--peers", peers, "Number of peers")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_flag("--back", back, "They write to us, too");
    CLI11_PARSE(app, count, words);
    const auto engine = make_engine("alpha", fabric);
    find_providers();
    const Buffer near(*engine, buffer_size);
    const PublishedBuffer published{engine->memory_metadata(*near.region), near.address(), buffer_size};
    // What there is one of, and what grows in steps, is there after the first ones.
    constexpr unsigned first = 2;
    std::vector<Neighbour> all;
    for (unsigned i = 0; i < first + peers; ++i)
        all.emplace_back(fabric, "peer" + std::to_string(i));
    std::int64_t before = 0, providers_before = 0;
    const auto settle = [&] {
        const auto end = Clock::now() + std::chrono::milliseconds(400);
        while (Clock::now() < end)
            engine->progress();
    };
    for (unsigned i = 0; i < all.size(); ++i) {
        if (i == first) {
            settle();
            before = ours;
            providers_before = providers;
        }
        exchange(*engine, all[i], near, published, back);
    }
    settle();
    const double pairs = static_cast<double>(peers) * fabric.rails;
    const json result{{"ours", static_cast<double>(ours - before) / pairs},
                      {"provider", static_cast<double>(providers - providers_before) / pairs},
                      {"pairs", pairs}};
    std::printf("%s\n", result.dump().c_str());
    return 0;
}

}  // namespace
}  // namespace railyard::test

int main(int count, char** words) {
    try {
        return railyard::test::run(count, words);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "peer-memory: %s\n", error.what());
        return 1;
    }
}
