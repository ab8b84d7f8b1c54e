// Memory that runs out in the plugin's calls: each allocation of theirs in turn. None of them throws, what
// was refused leaves nothing behind, and the host can do it all again.
#include "../shortage.h"

#include <backend/backend_engine.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "../conformance/outcome.h"
#include "../conformance/stats_directory.h"
#include "host/plugin_loader.h"

namespace railyard::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t length = 12'000;
/// Until the end of the transfer, but for no longer.
constexpr milliseconds shortage_lasts(60);
/// What waits for something that was lost takes a second, or peer_timeout_ms.
constexpr milliseconds soon(900);

/// An agent with its memory, and what a host holds for it.
struct Agent {
    Agent(const host::Plugin& plugin, const char* called, bool thread, const StatsDirectory& stats)
        : name(called), memory(length) {
        nixl_b_params_t params{{"provider", "tcp"}, {"devices", "lo"}};
        for (const auto& [key, value] : stats.params())
            params.emplace(key, value);
        nixlBackendInitParams init;
        init.localAgent = name;
        init.type = "RAILYARD";
        init.customParams = &params;
        init.enableProgTh = thread;
        engine = plugin.create_engine(init);
        range.addr = reinterpret_cast<std::uintptr_t>(memory.data());
        range.len = length;
    }
    [[nodiscard]] nixl_status_t register_it() { return engine->registerMem(range, DRAM_SEG, own); }
    void give_back() {
        EXPECT_TRUE(!request || engine->releaseReqH(request) == NIXL_SUCCESS);
        for (nixlBackendMD* const each : {target, self})
            EXPECT_TRUE(!each || engine->unloadMD(each) == NIXL_SUCCESS);
        EXPECT_TRUE(!own || engine->deregisterMem(own) == NIXL_SUCCESS);
        request = nullptr;
        own = target = self = nullptr;
    }

    const std::string name;
    std::vector<std::uint8_t> memory;
    host::EnginePointer engine;
    nixlBlobDesc range;
    nixlBackendMD* own = nullptr;
    nixlBackendMD* target = nullptr;  ///< the other's memory
    nixlBackendMD* self = nullptr;    ///< ours, for transfers to ourselves
    nixlBackendReqH* request = nullptr;
};

class PluginShortage : public testing::TestWithParam<bool> {
  protected:
    static void SetUpTestSuite() { watch_for_shortages(); }
    PluginShortage() {
        options_.hasNotif = true;
        queried_.addDesc(one_.range);
    }

    nixl_status_t get_to_know() {
        std::string information;
        std::vector<nixl_query_resp_t> answers;
        nixl_status_t status = NIXL_SUCCESS;
        const auto good = [&](nixl_status_t answer) { return (status = answer) == NIXL_SUCCESS; };
        nixlBackendEngine &one = *one_.engine, &two = *two_.engine;
        static_cast<void>(
            good(one_.register_it()) && good(two_.register_it()) && good(two.getConnInfo(information)) &&
            good(one.loadRemoteConnInfo(two_.name, information)) && good(one.connect(two_.name)) &&
            good(two.getPublicData(two_.own, published_.metaInfo)) &&
            good(one.loadRemoteMD(published_, DRAM_SEG, two_.name, one_.target)) &&
            good(one.loadLocalMD(one_.own, one_.self)) && good(one.queryMem(queried_, answers)) &&
            good(one.genNotif(two_.name, said_)));
        return status == NIXL_SUCCESS && one.getSupportedMems().empty() ? NIXL_ERR_BACKEND : status;
    }
    nixl_status_t post() {
        from_[0] = {{one_.range.addr, length, 0}, one_.own};
        to_[0] = {{two_.range.addr, length, 0}, one_.target};
        nixlBackendEngine& one = *one_.engine;
        const nixl_status_t prepared =
            one.prepXfer(NIXL_WRITE, from_, to_, two_.name, one_.request, &options_);
        if (prepared != NIXL_SUCCESS) return prepared;
        return one.postXfer(NIXL_WRITE, from_, to_, two_.name, one_.request, &options_);
    }
    void gather() {
        const nixl_status_t looked = two_.engine->getNotifs(arrived_);
        EXPECT_TRUE(looked == NIXL_SUCCESS || shortage.armed) << looked;
    }
    /// Up to the first call that is refused, and no further than the limit. A call that throws ends the
    /// program.
    nixl_status_t go_through() noexcept {
        const auto end = steady_clock::now() + shortage_lasts;
        nixl_status_t status = get_to_know();
        if (status == NIXL_SUCCESS) status = post();
        while (status == NIXL_IN_PROG && steady_clock::now() < end) {
            gather();
            status = one_.engine->checkXfer(one_.request);
        }
        gather();
        return status;
    }
    std::size_t arrived(const std::string& message) const {
        return static_cast<std::size_t>(std::count_if(
            arrived_.begin(), arrived_.end(), [&](const auto& each) { return each.second == message; }));
    }

    /// `at` < 0: nothing fails. Memory, peers and requests are all given back.
    Outcome round(long at = -1, bool lasting = false) {
        const std::string number = std::to_string(++rounds_);
        said_ = "said " + number;
        options_.notifMsg = "written " + number + std::string(100, '.');
        fill_pattern(one_.memory, rounds_);
        arrived_.clear();
        if (at >= 0) arm(at, lasting);
        nixl_status_t status = go_through();
        disarm();
        const auto end = steady_clock::now() + std::chrono::seconds(20);
        while (status == NIXL_IN_PROG && steady_clock::now() < end) {
            gather();
            status = one_.engine->checkXfer(one_.request);
        }
        Outcome outcome;
        outcome.refused = status != NIXL_SUCCESS;
        while (!outcome.refused && !(arrived(said_) && arrived(options_.notifMsg)) &&
               steady_clock::now() < end)
            gather();
        outcome.notified = arrived(options_.notifMsg);
        outcome.moved = one_.memory == two_.memory && (outcome.refused || arrived(said_) == 1);
        one_.give_back();
        two_.give_back();
        return outcome;
    }
    std::uint64_t registered(const Agent& agent) {
        const auto look = [&] {
            one_.engine->getNotifs(arrived_);
            two_.engine->getNotifs(arrived_);
        };
        return sum(stats_.read_anew(agent.name, look), &RailTrafficReport::registered_bytes);
    }

    const StatsDirectory stats_;
    const host::Plugin plugin_{host::plugin_directory(""), "RAILYARD"};
    Agent one_{plugin_, "one", GetParam(), stats_}, two_{plugin_, "two", GetParam(), stats_};
    nixl_opt_b_args_t options_;
    nixlBlobDesc published_ = two_.range;
    nixl_reg_dlist_t queried_{DRAM_SEG};
    nixl_meta_dlist_t from_{DRAM_SEG, 1}, to_{DRAM_SEG, 1};
    std::string said_;
    notif_list_t arrived_;
    unsigned rounds_ = 0;
};

TEST_P(PluginShortage, EndsNoCallAndLeavesNothingBehind) {
    for (int i = 0; i < 6; ++i)
        ASSERT_EQ(round(), all_well);
    ASSERT_EQ(one_.register_it(), NIXL_SUCCESS);
    EXPECT_EQ(registered(one_), length) << "or the figure says nothing";
    one_.give_back();
    for (const bool lasting : {false, true}) {
        SCOPED_TRACE(lasting ? "from one on, each allocation fails" : "one allocation fails");
        const long tried = fail_in_turn(
            1, soon, [&](long at) { return round(at, lasting); }, [] { return shortage.left < 0; }, place,
            [&] { return round(); });
        EXPECT_GT(tried, 60) << "hardly anything was tried";
        EXPECT_EQ(registered(one_), 0u);
        EXPECT_EQ(registered(two_), 0u);
    }
}

INSTANTIATE_TEST_SUITE_P(ProgressThread, PluginShortage, testing::Bool());

}  // namespace
}  // namespace railyard::test
