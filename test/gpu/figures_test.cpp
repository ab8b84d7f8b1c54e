// What is measured: copies of the driver, staging beside them, and what a stream costs. Nothing here fails
// for being slow: each figure says whether its goal holds.
#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "common/clock.h"
#include "cuda/driver.h"
#include "cuda/staging.h"
#include "histogram.h"
#include "manager/gpu_path.h"
#include "suite.h"

namespace railyard::gpu {
namespace {

using bench::GpuStream;
using host::Op;

/// Bytes a second of `action`, which moves `bytes`: the median of several, in 10^9.
double rate(std::uint64_t bytes, const std::function<void()>& action) {
    std::vector<double> rates;
    action();
    for (int i = 0; i < (setup().brief ? 3 : 11); ++i) {
        const std::uint64_t begin = now_ns();
        action();
        rates.push_back(static_cast<double>(bytes) / static_cast<double>(now_ns() - begin));
    }
    std::nth_element(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2),
                     rates.end());
    return rates[rates.size() / 2];
}

class Figures : public OnGpu {
  protected:
    static std::uint64_t large() { return std::uint64_t{setup().brief ? 4U : 256U} << 20; }

    void SetUp() override {
        OnGpu::SetUp();
        if (slower_ > 0) return;
        const Buffer device(true, large()), other(true, large());
        const cuda::PinnedMemory host(gpu().context(), large());
        const auto pinned = reinterpret_cast<std::uint64_t>(host.data());
        const std::uint64_t there = device.range().address, elsewhere = other.range().address;
        to_host_ = rate(large(), [&] { gpu().copy(pinned, there, large()); });
        to_device_ = rate(large(), [&] { gpu().copy(there, pinned, large()); });
        report({"cudaMemcpy, pinned, device to host", to_host_, "GB/s"});
        report({"cudaMemcpy, pinned, host to device", to_device_, "GB/s"});
        device_to_device_ = rate(large(), [&] { gpu().copy(elsewhere, there, large()); });
        report({"cudaMemcpy, device to device", device_to_device_, "GB/s"});
        slower_ = std::min(to_host_, to_device_);
    }

    /// GB/s of railyard-bench's rows: write, then read.
    static std::vector<double> bench_rates(const std::string& fabric, const char* mem,
                                           const char* target_mem) {
        const nlohmann::json document = run_bench({"--provider",   fabric,
                                                   "--mem",        mem,
                                                   "--target-mem", target_mem,
                                                   "--gpu",        std::to_string(setup().gpu),
                                                   "--op",         "both",
                                                   "--sizes",      setup().brief ? "1M" : "16M",
                                                   "--window",     "4",
                                                   "--pt",         "on",
                                                   "--seconds",    setup().brief ? "0.05" : "2",
                                                   "--slices",     setup().brief ? "1" : "5"});
        std::vector<double> rates;
        for (const nlohmann::json& row : document.at("results")) {
            EXPECT_TRUE(row.at("checked").get<bool>()) << row.dump();
            rates.push_back(row.at("mb_per_s").get<double>() / 1000);
        }
        EXPECT_EQ(rates.size(), 2u) << document.value("error", "");
        rates.resize(2);
        return rates;
    }

    static inline double to_host_ = 0, to_device_ = 0, slower_ = 0, device_to_device_ = 0;
};

/// The ring without a network: how much of cudaMemcpy staging leaves, one direction.
double ring_rate(cuda::StagingRing& ring, std::uint64_t device, std::uint64_t bytes, bool from_device) {
    return rate(bytes, [&] {
        std::vector<unsigned> under_way;
        std::uint64_t started = 0, ended = 0;
        while (ended < bytes) {
            unsigned slot = cuda::StagingRing::no_slot;
            if (started < bytes) slot = ring.take();
            if (slot != cuda::StagingRing::no_slot) {
                const cuda::StagedPiece piece{device + started, 0,
                                              std::min<std::uint64_t>(ring.slot_bytes(), bytes - started)};
                if (from_device)
                    ring.copy_from_device(slot, &piece, 1);
                else
                    ring.copy_to_device(slot, &piece, 1);
                started += piece.length;
                under_way.push_back(slot);
                continue;
            }
            const unsigned oldest = under_way.front();
            const Status status = ring.poll(oldest);
            if (status == Status::in_progress) continue;
            if (status != Status::ok) throw Error(status, ring.last_error());
            ring.give_back(oldest);
            under_way.erase(under_way.begin());
            ended += ring.slot_bytes();
        }
    });
}

TEST_F(Figures, TheStagingRingAlone) {
    const Buffer device(true, large());
    cuda::StagingRing ring(gpu().context(), StagingPath::slots, StagingPath::slot_bytes);
    report({"staging ring alone / cudaMemcpy, device to host",
            ring_rate(ring, device.range().address, large(), true) / to_host_, "", 0.9, true});
    report({"staging ring alone / cudaMemcpy, host to device",
            ring_rate(ring, device.range().address, large(), false) / to_device_, "", 0.9, true});
}

/// What figures between two processes are called after.
std::string way_of(const std::string& fabric) {
    return setup().local_rail ? "one host" : fabric;
}

TEST_F(Figures, BandwidthBetweenTwoProcesses) {
    for (const std::string& fabric : setup().fabrics) {
        const std::string way = way_of(fabric);
        const std::vector<double> path = bench_rates(fabric, "dram", "dram");
        report({way + ", dram to dram, write: the path's own limit", path[0], "GB/s"});
        report({way + ", dram from dram, read: the path's own limit", path[1], "GB/s"});
        for (const auto& [mem, target_mem] :
             {std::pair("vram", "dram"), {"dram", "vram"}, {"vram", "vram"}}) {
            const std::vector<double> rates = bench_rates(fabric, mem, target_mem);
            for (const std::size_t op : {0u, 1u}) {
                const std::string name = way + ", " + mem + (op == 0 ? " to " : " from ") + target_mem +
                                         (op == 0 ? ", write" : ", read");
                report({name, rates[op], "GB/s"});
                if (setup().local_rail && std::string(mem) == target_mem) {
                    report({name + " / cudaMemcpy, device to device", rates[op] / device_to_device_, "", 0.9,
                            true});
                    continue;
                }
                report({name + " / slower of cudaMemcpy and the path",
                        rates[op] / std::min(slower_, path[op]), "", 0.9, true});
            }
        }
    }
}

/// Of transfers one at a time, with a notification; then of many pieces, as a KV cache's pages are.
TEST_F(Figures, TimesBetweenTwoProcesses) {
    struct Shape {
        const char *sizes, *batch, *words;
    };
    for (const std::string& fabric : setup().fabrics) {
        for (const Shape& shape :
             {Shape{"8", "1", "8 B"}, {"64K", "1", "64 KiB"}, {"4K", "512", "512 pieces of 4 KiB"}}) {
            const nlohmann::json document = run_bench({"--provider", fabric,
                                                       "--mem",      "vram",
                                                       "--gpu",      std::to_string(setup().gpu),
                                                       "--op",       "both",
                                                       "--sizes",    shape.sizes,
                                                       "--batch",    shape.batch,
                                                       "--notify",   "on",
                                                       "--window",   "1",
                                                       "--pt",       "on",
                                                       "--seconds",  setup().brief ? "0.05" : "0.5"});
            ASSERT_EQ(document.at("results").size(), 2u) << document.value("error", "");
            for (const nlohmann::json& row : document.at("results")) {
                EXPECT_TRUE(row.at("checked").get<bool>()) << row.dump();
                report({way_of(fabric) + ", vram, " + row.at("op").get<std::string>() + ", " + shape.words +
                            ", notification: p50",
                        row.at("p50_us").get<double>(), "us"});
            }
        }
    }
}

TEST_F(Figures, BandwidthWithinOneProcess) {
    host::Agent agent(agent_config("alone"));
    for (const auto& [mine, theirs] : {std::pair(true, true), {true, false}, {false, true}}) {
        const Buffer local(mine, large()), remote(theirs, large());
        agent.register_memory(local.range());
        agent.register_memory(remote.range());
        const host::Range here = local.range(), there = remote.range();
        host::Request request = agent.prepare(Op::write, {&here, 1}, {&there, 1}, "alone");
        const double measured = rate(large(), [&] { ASSERT_EQ(request.run(patience), Status::ok); });
        report({std::string("to oneself, ") + (mine ? "vram" : "dram") + " to " + (theirs ? "vram" : "dram"),
                measured, "GB/s"});
        EXPECT_GT(measured, 0);
    }
}

/// A transfer of 8 bytes of host memory to oneself, which the engine ends within its first post: the moment
/// when they arrive.
class FirstPost {
  public:
    FirstPost(bool progress_thread, bool attached)
        : thread_(progress_thread), agent_([&] {
              host::AgentConfig config = agent_config("alone");
              config.progress_thread = progress_thread;
              return config;
          }()) {
        agent_.register_memory(from_.range());
        agent_.register_memory(to_.range());
        const host::Range here = from_.range(0, 8), there = to_.range(0, 8);
        request_.emplace(agent_.prepare(Op::write, {&here, 1}, {&there, 1}, "alone", std::nullopt,
                                        attached ? stream_.custom_param() : std::string()));
    }

    /// From when the CPU sees what the stream wrote just before the trigger (or, polling, from the start of
    /// the look that saw it) to when the bytes are there; ns.
    std::uint64_t trigger_to_post(std::uint64_t turn) {
        set(turn);
        words_.hold(stream_, 0, turn);
        words_.set_later(stream_, 1, turn);
        EXPECT_EQ(request_->post(), Status::in_progress);
        words_.set(0, turn);
        std::uint64_t begin = now_ns();
        const std::uint64_t limit = begin + 10'000'000'000u;
        while (words_.get(1) < turn && begin < limit)
            begin = look();
        while (arrived() != turn && now_ns() < limit)
            look();
        const std::uint64_t end = now_ns();
        EXPECT_EQ(arrived(), turn);
        EXPECT_EQ(finish(), Status::ok);
        return end - begin;
    }

    /// Of the call alone; ns.
    std::uint64_t post(std::uint64_t turn) {
        set(turn);
        const std::uint64_t begin = now_ns();
        const Status status = request_->post();
        const std::uint64_t end = now_ns();
        EXPECT_TRUE(status == Status::in_progress || status == Status::ok) << to_string(status);
        EXPECT_EQ(finish(), Status::ok);
        return end - begin;
    }

  private:
    std::uint64_t look() {
        const std::uint64_t begin = now_ns();
        if (!thread_) request_->poll();
        return begin;
    }
    Status finish() {
        const auto limit = std::chrono::steady_clock::now() + patience;
        while (request_->poll() == Status::in_progress && std::chrono::steady_clock::now() < limit)
            std::this_thread::yield();
        return request_->poll();
    }
    void set(std::uint64_t value) { *reinterpret_cast<std::uint64_t*>(from_.range().address) = value; }
    [[nodiscard]] std::uint64_t arrived() const {
        return __atomic_load_n(reinterpret_cast<std::uint64_t*>(to_.range().address), __ATOMIC_ACQUIRE);
    }

    bool thread_;
    Buffer from_{false, 64}, to_{false, 64};
    GpuStream stream_{gpu()};
    Words words_{gpu(), 2};
    host::Agent agent_;
    std::optional<host::Request> request_;
};

TEST_F(Figures, StreamTriggerToFirstPost) {
    const unsigned rounds = setup().brief ? 50 : 5000;
    for (const bool progress_thread : {true, false}) {
        FirstPost measured(progress_thread, true);
        bench::Histogram times;
        for (unsigned turn = 1; turn <= rounds; ++turn) {
            const std::uint64_t time = measured.trigger_to_post(turn);
            if (turn > rounds / 10) times.add(time);
            if (HasFailure()) return;
        }
        const std::string name = std::string("stream trigger to first post, ") +
                                 (progress_thread ? "progress thread" : "the caller polls");
        report({name + ": p50", times.percentile(0.5) / 1000, "us", 5, false});
        report({name + ": p99", times.percentile(0.99) / 1000, "us"});
    }
}

TEST_F(Figures, TimeInPost) {
    const unsigned rounds = setup().brief ? 50 : 5000;
    for (const bool attached : {true, false}) {
        FirstPost measured(true, attached);
        bench::Histogram times;
        for (unsigned turn = 1; turn <= rounds; ++turn) {
            const std::uint64_t time = measured.post(turn);
            if (turn > rounds / 10) times.add(time);
        }
        const std::string name =
            std::string("time in post, 8 B to oneself, ") + (attached ? "attached" : "no stream");
        report({name + ": p50", times.percentile(0.5) / 1000, "us"});
        report({name + ": p99", times.percentile(0.99) / 1000, "us"});
    }
}

}  // namespace
}  // namespace railyard::gpu
