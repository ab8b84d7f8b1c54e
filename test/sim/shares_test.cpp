// What rails of different rates get of small transfers: so low rates that the NICs are the limit, not the
// machine.
#include <algorithm>
#include <chrono>

#include "simulated_machine.h"
#include "stranger.h"

namespace railyard::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int blocks = 64;

class Shares : public testing::Test {
  protected:
    static constexpr double bytes_a_second = 0.2e9 / 8;
    static constexpr std::size_t block = 4096, batch = blocks * block;

    Shares() {
        fill_pattern(source_.bytes, 7);
        for (std::size_t i = 0; i < blocks; ++i) {
            // With room in between, so that the pieces stay apart.
            here_.push_back(source_.local(2 * i * block, block));
            there_.push_back({target_.address() + 2 * i * block, block, &remote_});
        }
        transfer_ = pair_.a->prepare(Operation::write, here_, there_, "beta", std::nullopt);
        EXPECT_EQ(pair_.run(*transfer_), Status::ok);  // makes the rails known to each other
        cluster().set("rate_gbps=0.2");
        const auto before = bytes();
        post(4);
        for (const auto& [nic, count] : bytes()) {
            if (count > before.at(nic)) nics_.push_back(nic);
        }
    }
    ~Shares() override {
        pair_.a->release(transfer_);
        cluster().reset();
    }

    void post(int rounds) {
        for (int i = 0; i < rounds; ++i)
            ASSERT_EQ(pair_.run(*transfer_), Status::ok);
        posts_ += rounds;
    }
    static std::map<std::string, std::uint64_t> bytes() {
        std::map<std::string, std::uint64_t> out;
        for (const simefa::NicState& nic : cluster().list())
            out[nic.nic] = nic.counters.at("bytes_out");
        return out;
    }
    /// Of what the four carry in so many rounds, by NIC.
    std::vector<double> parts(int rounds) {
        const auto before = bytes();
        post(rounds);
        const auto after = bytes();
        std::vector<double> all;
        for (const std::string& nic : nics_)
            all.push_back(static_cast<double>(after.at(nic) - before.at(nic)) /
                          static_cast<double>(rounds * batch));
        return all;
    }
    /// Posts until `over` says so of the NICs' parts; false after 20 s.
    template <class Condition>
    bool until(Condition over) {
        const auto limit = Clock::now() + std::chrono::seconds(20);
        while (Clock::now() < limit) {
            if (over(parts(10))) return true;
        }
        return false;
    }
    /// Of a rail's rate, in the best of some short times: others may use the machine.
    double best_rate(int times, int rounds) {
        double best = 0;
        for (int i = 0; i < times; ++i) {
            const auto begin = Clock::now();
            post(rounds);
            const std::chrono::duration<double> taken = Clock::now() - begin;
            best = std::max(best, static_cast<double>(rounds * batch) / taken.count() / bytes_a_second);
        }
        return best;
    }
    void slow_down(std::size_t rail) { cluster().set("rate_gbps=0.05", {"*", nics_[rail]}); }

    EnginePair pair_{Fabric{"efa-direct", 4, false}, Fabric{"efa-direct", 4, false},
                     ParamMap{{"keepalive_ms", "0"}}};
    Buffer source_{*pair_.a, 2 * batch}, target_{*pair_.b, 2 * batch};
    std::shared_ptr<RemoteRegion> remote_ = pair_.publish(target_);
    std::vector<LocalDescriptor> here_;
    std::vector<RemoteDescriptor> there_;
    Transfer* transfer_ = nullptr;
    int posts_ = 0;
    std::vector<std::string> nics_;
};

TEST_F(Shares, EqualRailsStayEqual) {
    ASSERT_EQ(nics_.size(), 4u);
    post(300);
    for (const double part : parts(100))
        EXPECT_NEAR(part, 0.25, 0.25 * 0.02);
}

TEST_F(Shares, SmallBatchesUseASlowRailByItsRate) {
    ASSERT_EQ(nics_.size(), 4u);
    slow_down(2);
    ASSERT_TRUE(until([](const auto& part) { return part[2] < 0.1; }));
    EXPECT_GE(best_rate(10, 10), 0.8 * 3.25);
    const std::vector<double> part = parts(100);
    EXPECT_GT(part[2], 0.05) << "it has its own share";
    EXPECT_LT(part[2], 0.1);
}

TEST_F(Shares, ARailThatIsFastAgainIsUsedAgain) {
    ASSERT_EQ(nics_.size(), 4u);
    slow_down(1);
    ASSERT_TRUE(until([](const auto& part) { return part[1] < 0.1; }));
    cluster().set("rate_gbps=0.2", {"*", nics_[1]});
    const int before = posts_;
    EXPECT_TRUE(until([](const auto& part) { return part[1] > 0.245; }));
    EXPECT_LT(posts_ - before, 1000) << "a few trials, and long before its rate is forgotten";
}

}  // namespace
}  // namespace railyard::test
