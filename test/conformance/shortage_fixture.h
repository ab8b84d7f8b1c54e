// Small WRITEs and READs while memory runs out. For the one file of a program that includes this.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "../shortage.h"
#include "outcome.h"

namespace railyard::test {
namespace {

using std::chrono::milliseconds;

/// Until the end of the transfer, but for no longer.
constexpr milliseconds shortage_lasts(60);
/// A transfer that waits for what was lost would take peer_timeout_ms, or a second for an introduction.
constexpr milliseconds soon(900);
constexpr std::size_t block = 4096, blocks = 3, spacing = 2 * block;
/// With a notification that may leave together with its data, and one of several fragments.
struct Kind {
    Operation operation;
    std::size_t text_length;
};
constexpr Kind all_kinds[] = {{Operation::write, 100}, {Operation::write, 10'000}, {Operation::read, 100}};

class ShortageTest : public testing::TestWithParam<Fabric> {
  protected:
    static void SetUpTestSuite() { watch_for_shortages(); }

    virtual std::shared_ptr<Registration> register_there(Engine& engine, std::uint64_t address,
                                                         std::size_t bytes) {
        return engine.register_memory(address, bytes, 0);
    }
    /// Memory on both sides, a transfer with a notification, and all given back. `at` < 0: nothing fails.
    Outcome transfer_once(EnginePair& pair, Kind kind, long at = -1, bool lasting = false) {
        const std::string text = std::to_string(++rounds_) + std::string(kind.text_length, 'n');
        std::vector<std::uint8_t> ours(blocks * spacing), theirs(blocks * spacing);
        fill_pattern(kind.operation == Operation::write ? ours : theirs, rounds_);
        std::shared_ptr<Registration> our_region, their_region;
        std::shared_ptr<RemoteRegion> remote;
        const auto address = [](const std::vector<std::uint8_t>& bytes) {
            return reinterpret_cast<std::uint64_t>(bytes.data());
        };
        std::vector<LocalDescriptor> from;
        std::vector<RemoteDescriptor> to;
        for (std::size_t i = 0; i < blocks; ++i) {
            from.push_back({address(ours) + i * spacing, block, &our_region});
            to.push_back({address(theirs) + i * spacing, block, &remote});
        }
        const auto prepare = [&] {
            our_region = pair.a->register_memory(address(ours), ours.size(), 0);
            their_region = register_there(*pair.b, address(theirs), theirs.size());
            remote = pair.publish(their_region, address(theirs), theirs.size());
            return pair.a->prepare(kind.operation, from, to, pair.target(), text);
        };
        Transfer* transfer = nullptr;
        if (at >= 0) arm(at, lasting);
        Outcome outcome = carry_out(pair, text, shortage_lasts, transfer, prepare, disarm);
        outcome.moved = true;
        for (std::size_t i = 0; i < blocks; ++i)
            outcome.moved =
                outcome.moved && std::memcmp(&ours[i * spacing], &theirs[i * spacing], block) == 0;
        if (transfer) pair.a->release(transfer);
        if (our_region) pair.a->deregister_memory(our_region);
        if (their_region) pair.b->deregister_memory(their_region);
        return outcome;
    }

    /// Until nothing is left that could fail; one in `stride` does.
    template <class PairFor>
    void sweep(std::span<const Kind> kinds, bool lasting, long stride, PairFor&& pair_for) {
        for (const Kind kind : kinds) {
            EnginePair* pair = &pair_for();
            // That of the next round is made here, which counts for nothing.
            const auto sound = [&] {
                const Outcome outcome = transfer_once(*pair, kind);
                pair = &pair_for();
                return outcome;
            };
            const long tried = fail_in_turn(
                stride, soon, [&](long at) { return transfer_once(*pair, kind, at, lasting); },
                [] { return shortage.left < 0; }, place, sound);
            EXPECT_GT(tried, 30) << "hardly anything was tried";
        }
    }
    /// They have introduced themselves, and small ones leave as they do later.
    void meet(EnginePair& pair) {
        for (int i = 0; i < 6; ++i) {
            ASSERT_EQ(transfer_once(pair, all_kinds[0]), all_well);
            pair.until([] { return false; }, milliseconds(20));
        }
    }

    unsigned rounds_ = 0;
};

}  // namespace
}  // namespace railyard::test
