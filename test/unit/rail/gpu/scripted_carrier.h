// A rail of the tests between host buffers of this process, which does what its script says.
#pragma once

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "rail/pending_list.h"
#include "rail/rail.h"

namespace railyard::test {

/// Its routes' keys are indices of `regions`, its descriptor is `ring_descriptor`. Bytes move when an
/// operation completes, so that a slot that is used again too early shows. Completions come by progress()
/// alone.
class ScriptedCarrier final : public Rail {
  public:
    struct Region {
        std::uint64_t base = 0;  ///< what peers' pointers start at
        std::byte* memory = nullptr;
    };
    explicit ScriptedCarrier(std::string name) : Rail(std::move(name)) { operations_.reserve(8192); }

    std::vector<Region> regions;
    std::uint64_t longest = UINT32_MAX;  ///< bytes of an operation; a longer one ends with invalid_param
    /// The script. Set before, or from the thread that drives.
    std::atomic<unsigned> delay{0};     ///< passes from an operation's post to its completion
    std::atomic<bool> hold{false};      ///< nothing completes
    std::atomic<unsigned> refusals{0};  ///< passes in which nothing is posted, as with EAGAIN
    std::atomic<unsigned> fail_nth{0};  ///< the nth next operation fails; 0: none
    std::atomic<Status> failure{Status::remote_disconnect};
    bool gives_up = false;  ///< what fails: it may still land

    /// What happened.
    std::vector<std::atomic<std::uint32_t>*> given_up;  ///< Submission::late, once for each
    std::atomic<std::uint64_t> posted{0};               ///< operations
    std::atomic<std::uint64_t> submissions{0};          ///< ended
    std::vector<std::uint64_t> order;  ///< remote addresses of the first chunks of submissions

    static inline int ring_descriptor = 0;

    RegisteredMemory register_memory(const MemoryRange&) override { return {}; }
    [[nodiscard]] std::string address() const override { return {}; }
    [[nodiscard]] std::uint64_t max_chunk() const noexcept override { return longest; }

  private:
    struct Operation {
        Work* work = nullptr;
        Submission* submission = nullptr;
        Chunk chunk;
        std::byte* remote = nullptr;
        std::uint64_t due = 0;
        Status status = Status::ok;
    };

    bool serve(bool drain_first) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        waiting_ += take_submissions(pending_);
        bool worked = post();
        worked = (drain_first && complete()) || worked;
        load_.store(waiting_ + static_cast<std::uint32_t>(operations_.size()), std::memory_order_relaxed);
        return worked;
    }
    PeerAddress do_insert_peer(std::string_view) override { return 0; }
    void do_remove_peer(PeerAddress) noexcept override {}

    bool post() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        if (refusals > 0) {
            --refusals;
            return false;
        }
        bool worked = false;
        PendingList<Submission> kept;
        while (!pending_.empty()) {
            Submission& submission = *pending_.pop_front();
            Work& work = *submission.lane->work;
            const Route& route = *submission.route;
            if (work.status() != Status::ok) {
                fail_rest(submission, work.status());
            } else if (route.gated && !route.path->admits(sender_generation())) {
                kept.push_back(submission);
                continue;
            } else {
                if (order.size() < order.capacity()) order.push_back(work.chunks.front().remote);
                for (Run run = submission.lane->take_run(7); !run.empty(); run = submission.lane->take_run(7))
                    for (; !run.empty(); ++run.begin)
                        post_chunk(submission, work.chunks[run.begin]);
            }
            --waiting_;
            ++submissions;
            worked = true;
            work.part_done(Status::ok);
        }
        pending_.prepend(kept);
        return worked;
    }
    void post_chunk(Submission& submission, const Chunk& chunk) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        Operation operation{submission.lane->work, &submission, chunk};
        const Route& route = *submission.route;
        const RemoteKey& key = route.keys[chunk.remote_region];
        const Region& region = regions[key.key];
        const bool right = route.descriptors.size() == 1 && chunk.local_region == 0 &&
                           route.descriptors[0] == &ring_descriptor && route.rail == this;
        operation.remote = region.memory + (chunk.remote - key.address_base);
        operation.due = rounds_ + delay;
        operation.status = right ? Status::ok : Status::mismatch;
        if (chunk.length > longest) operation.status = Status::invalid_param;
        if (fail_nth > 0 && --fail_nth == 0) operation.status = failure;
        operations_.push_back(operation);
        ++posted;
    }
    bool complete() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        ++rounds_;
        if (hold) return false;
        std::size_t kept = 0;
        const std::size_t before = operations_.size();
        for (const Operation& operation : operations_) {
            if (operation.due >= rounds_) {
                operations_[kept++] = operation;
                continue;
            }
            auto* local = reinterpret_cast<std::byte*>(operation.chunk.local);
            const bool read = operation.work->kind == Work::Kind::read;
            if (operation.status == Status::ok) {
                std::memcpy(read ? local : operation.remote, read ? operation.remote : local,
                            operation.chunk.length);
            }
            if (gives_up && operation.status != Status::ok && operation.submission->late) {
                given_up.push_back(operation.submission->late);
                given_up.back()->fetch_add(1);
            }
            operation.work->part_done(operation.status);
        }
        operations_.resize(kept);
        return kept != before;
    }

    PendingList<Submission> pending_ ABSL_GUARDED_BY(role_);
    std::uint32_t waiting_ ABSL_GUARDED_BY(role_) = 0;
    std::uint64_t rounds_ ABSL_GUARDED_BY(role_) = 0;
    std::vector<Operation> operations_ ABSL_GUARDED_BY(role_);
};

}  // namespace railyard::test
