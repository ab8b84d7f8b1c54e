// The campaign's own parts: schedules as text, what explains an error, and making schedules small.
#include <gtest/gtest.h>

#include <algorithm>

#include "oracle.h"
#include "schedule.h"
#include "shrink.h"

namespace railyard::fault {
namespace {

TEST(Schedules, SurviveTheirText) {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        const std::string text = to_text(generate(seed));
        EXPECT_EQ(to_text(parse_schedule(text)), text);
        EXPECT_EQ(to_text(generate(seed)), text);
    }
    EXPECT_NE(to_text(generate(1)).substr(7), to_text(generate(2)).substr(7));
}

TEST(Schedules, RefuseWhatTheyDoNotKnow) {
    const std::string head = "engine 0 rails 1 progress thread\n";
    EXPECT_NO_THROW(static_cast<void>(parse_schedule(head)));
    for (const char* line :
         {"engine 1 rails 1 progress thread patience 3", "engine 1 rails 1 progress thread timeout",
          "engine 1 rails 1 progress thread secret x", "step 0 jump 1", "step 0 post", "step 0 fault 0 0",
          "word", "transfer 0 write from 1", "transfer 0 write from 0 to 1 region 0 notification -1 sizes 8",
          "transfer 0 write from 0 to 0 region 9 notification -1 sizes 8"}) {
        EXPECT_THROW(static_cast<void>(parse_schedule(head + line)), std::runtime_error) << line;
    }
    EXPECT_THROW(static_cast<void>(parse_schedule("")), std::runtime_error);
}

TEST(Schedules, MayLeaveOutWhatEnginesAreSet) {
    const Schedule schedule = parse_schedule(
        "engine 0 rails 1 progress thread\n"
        "engine 1 rails 1 progress callers secret 2 timeout 30\n");
    EXPECT_EQ(schedule.engines[0].xfer_timeout_ms, 0);
    EXPECT_EQ(schedule.engines[0].secret, 0);
    EXPECT_EQ(schedule.engines[1].xfer_timeout_ms, 30);
    EXPECT_EQ(schedule.engines[1].secret, 2);
}

TEST(Schedules, HaveEveryKindOfFault) {
    std::string all;
    for (std::uint64_t seed = 1; seed <= 300; ++seed)
        all += to_text(generate(seed));
    for (const char* word : {"eagain_next",  "eagain_probability", "rate_gbps",        "latency_us",
                             "jitter_us",    "out_of_order",       "error_next",       "lost_answer_next",
                             "rnr_next",     "link=down",          "late_next",        "gone=1",
                             " disconnect ", " destroy ",          " deregister ",     " release ",
                             " calm ",       " create ",           " connect ",        " enlist ",
                             "threads 3",    "progress thread",    "progress callers", "efa-direct",
                             "p4d",          "rate_gbps=0.02",     " timeout ",        " secret 1",
                             " secret 2"})
        EXPECT_NE(all.find(word), std::string::npos) << word;
}

TEST(Shrinking, LeavesWhatTheFailureNeeds) {
    Schedule schedule = generate(17);
    for (EngineSpec& engine : schedule.engines)
        engine.xfer_timeout_ms = 30, engine.secret = 1;
    ASSERT_GT(schedule.steps.size(), 10U);
    const std::string needed = to_text(schedule.steps[7]);
    int plays = 0;
    const Schedule small = shrink(
        schedule,
        [&](const Schedule& candidate) {
            ++plays;
            return std::any_of(candidate.steps.begin(), candidate.steps.end(),
                               [&](const Step& step) { return to_text(step) == needed; });
        },
        [] { return true; });
    ASSERT_EQ(small.steps.size(), 1U);
    EXPECT_EQ(to_text(small.steps[0]), needed);
    EXPECT_TRUE(small.transfers.empty());
    for (const EngineSpec& engine : small.engines)
        EXPECT_EQ(engine.xfer_timeout_ms + engine.secret, 0);
    EXPECT_GT(plays, 3);
}

TEST(Shrinking, EndsWhenItMay) {
    int left = 5;
    const Schedule schedule = generate(3);
    const Schedule same = shrink(
        schedule, [](const Schedule&) { return false; }, [&] { return left-- > 0; });
    EXPECT_EQ(to_text(same), to_text(schedule));
}

class Explained : public testing::Test {
  protected:
    Explained() {
        schedule.engines = {{2, false}, {1, false}, {1, false}};
        for (int id = 0; id < 3; ++id)
            schedule.transfers.push_back({id, false, 0, 1, 0, 0, {64}});
    }
    void expect(Wrong wrong, const std::function<void(Oracle&)>& happens) {
        Oracle oracle(schedule, counts);
        try {
            happens(oracle);
            EXPECT_EQ(wrong, Wrong::none);
        } catch (const Failure& failure) {
            EXPECT_EQ(failure.wrong, wrong) << failure.what();
        }
    }
    static void land(Oracle& oracle, int id) {
        const auto from = oracle.slot(0, 0).ranges_of(id, false), to = oracle.slot(1, 0).ranges_of(id, true);
        for (std::size_t i = 0; i < from.size(); ++i)
            std::ranges::copy(oracle.slot(0, 0).of(*from[i]), oracle.slot(1, 0).of(*to[i]).begin());
    }
    static std::uint8_t& target_byte(Oracle& oracle, int id) {
        return oracle.slot(1, 0).of(*oracle.slot(1, 0).ranges_of(id, true)[0])[5];
    }
    Schedule schedule;
    Counts counts{};
};

TEST_F(Explained, SuccessNeedsEveryByte) {
    expect(Wrong::none, [](Oracle& oracle) {
        const std::string message = oracle.begin_round(0);
        land(oracle, 0);
        oracle.end_round(0, Status::ok);
        oracle.arrived(1, "engine0", message);
        oracle.check_memory();
        EXPECT_EQ(oracle.missing(), "");
    });
    expect(Wrong::bytes, [](Oracle& oracle) {
        oracle.begin_round(0);
        land(oracle, 0);
        target_byte(oracle, 0) ^= 1;
        oracle.end_round(0, Status::ok);
    });
    expect(Wrong::guard, [](Oracle& oracle) {
        (&target_byte(oracle, 0))[64] ^= 1;  // behind the piece
        oracle.check_memory();
    });
}

TEST_F(Explained, NotificationsComeOnceWholeAndAfterTheData) {
    expect(Wrong::bytes, [](Oracle& oracle) { oracle.arrived(1, "engine0", oracle.begin_round(0)); });
    expect(Wrong::duplicate, [](Oracle& oracle) {
        const std::string message = oracle.send(0, 1, 7, 100);
        oracle.arrived(1, "engine0", message);
        oracle.arrived(1, "engine0", message);
    });
    for (const auto& change : {std::function([](std::string& text) { text.back() ^= 1; }),
                               std::function([](std::string& text) { text.pop_back(); }),
                               std::function([](std::string& text) { text = "stranger#"; })}) {
        expect(Wrong::notification, [&](Oracle& oracle) {
            std::string message = oracle.send(0, 1, 7, 100);
            change(message);
            oracle.arrived(1, "engine0", message);
        });
    }
    expect(Wrong::notification,
           [](Oracle& oracle) { oracle.arrived(1, "engine2", oracle.send(0, 1, 7, 9)); });
    Oracle oracle(schedule, counts);
    oracle.send(0, 1, 7, 100);
    EXPECT_EQ(oracle.missing(), "0>1 message 7#");
}

TEST_F(Explained, ErrorsNeedAFaultThatReachesThem) {
    const auto fails = [](Oracle& oracle) {
        oracle.begin_round(0);
        oracle.end_round(0, Status::remote_disconnect);
    };
    expect(Wrong::error, fails);
    for (const Fault weather : {Fault::eagain, Fault::rate, Fault::delay, Fault::shuffle}) {
        expect(Wrong::error, [&](Oracle& oracle) {
            oracle.nic_fault(weather, 0, 0);
            fails(oracle);
        });
    }
    expect(Wrong::none, [&](Oracle& oracle) {
        oracle.fault_begins(Fault::restart, 1);
        fails(oracle);
    });
    expect(Wrong::none, [&](Oracle& oracle) {  // of other memory, but its thread drives nobody meanwhile
        oracle.fault_begins(Fault::deregister, 1, 99);
        fails(oracle);
    });
    const auto fails_afterwards = [&](Oracle& oracle) {
        oracle.fault_begins(Fault::deregister, 1, 99);
        oracle.fault_ends(Fault::deregister, 1, 99);
        oracle.prepared(0);
        fails(oracle);
    };
    expect(Wrong::none, fails_afterwards);  // it was given up, and has not been probed yet
    for (auto& engine : schedule.engines)
        engine.progress_thread = true;
    expect(Wrong::error, fails_afterwards);
    expect(Wrong::error, [&](Oracle& oracle) {  // of an engine that has no part in it
        oracle.fault_begins(Fault::restart, 2);
        fails(oracle);
    });
    expect(Wrong::error, [&](Oracle& oracle) {  // over before the handle was made
        oracle.fault_begins(Fault::restart, 1);
        oracle.fault_ends(Fault::restart, 1);
        oracle.prepared(0);
        fails(oracle);
    });
}

TEST_F(Explained, OnlyATimeThatIsOverCancels) {
    const auto ends = [](Status status, int taken_ms) {
        return [=](Oracle& oracle) {
            oracle.begin_round(0);
            oracle.end_round(0, status, std::chrono::milliseconds(taken_ms));
        };
    };
    schedule.engines[1].xfer_timeout_ms = 10;  // of the other side
    expect(Wrong::error, ends(Status::canceled, 5000));
    schedule.engines[0].xfer_timeout_ms = 30;
    expect(Wrong::error, ends(Status::canceled, 29));
    expect(Wrong::none, ends(Status::canceled, 30));
    expect(Wrong::error, ends(Status::remote_disconnect, 5000));
    EXPECT_EQ(counts.faults[static_cast<std::size_t>(Fault::timeout)], 1U);
    expect(Wrong::error, [&](Oracle& oracle) {  // what explains other errors does not explain this one
        oracle.fault_begins(Fault::restart, 1);
        ends(Status::canceled, 29)(oracle);
    });
    schedule.transfers[0].to = 0;  // itself
    expect(Wrong::none, ends(Status::canceled, 30));
}

TEST_F(Explained, NothingPassesBetweenEnginesOfDifferentSecrets) {
    const auto told = [](int engine, int of, Status status) {
        return [=](Oracle& oracle) { oracle.introduced(engine, of, status, ""); };
    };
    const auto writes = [](Oracle& oracle) { oracle.begin_round(0); };
    const auto notifies = [](Oracle& oracle) { oracle.arrived(1, "engine0", oracle.send(0, 1, 7, 100)); };
    for (const int shared : {0, 1}) {
        for (EngineSpec& engine : schedule.engines)
            engine.secret = shared;
        expect(Wrong::none, told(0, 1, Status::ok));
        expect(Wrong::error, told(0, 1, Status::mismatch));
        expect(Wrong::none, writes);
        expect(Wrong::none, notifies);
    }
    schedule.engines[0].secret = 2;
    for (const auto& [engine, of] : {std::pair{0, 1}, {1, 0}, {0, 2}}) {
        expect(Wrong::none, told(engine, of, Status::mismatch));
        expect(Wrong::error, told(engine, of, Status::ok));
        expect(Wrong::error, told(engine, of, Status::not_found));
    }
    expect(Wrong::none, told(1, 2, Status::ok));
    expect(Wrong::error, writes);
    expect(Wrong::notification, notifies);
    expect(Wrong::none, [](Oracle& oracle) {
        oracle.prepared(0);
        oracle.refused(0, Status::not_found, "unknown");
        oracle.send_refused(oracle.send(0, 1, 7, 100), Status::not_found, "unknown");
        EXPECT_EQ(oracle.missing(), "");
    });
}

/// Two NICs of engine 0 reach the one of engine 1.
TEST_F(Explained, ErrorsOfNicsNeedThemOnEveryPath) {
    using Places = std::vector<std::pair<int, int>>;
    const auto fails_after = [&](Fault fault, const Places& places) {
        return [fault, places](Oracle& oracle) {
            for (const auto& [engine, rail] : places)
                oracle.nic_fault(fault, engine, rail);
            oracle.begin_round(0);
            oracle.end_round(0, Status::remote_disconnect);
        };
    };
    for (const Fault fault : {Fault::error, Fault::not_ready, Fault::link, Fault::late, Fault::gone}) {
        expect(Wrong::error, fails_after(fault, {{0, 0}}));
        expect(Wrong::error, fails_after(fault, {{0, 1}, {2, 0}}));
        expect(Wrong::none, fails_after(fault, {{0, 0}, {0, 1}}));
        expect(Wrong::none, fails_after(fault, {{1, 0}}));
    }
    expect(Wrong::none, fails_after(Fault::refused, {{0, 0}}));
    schedule.engines[1].rails = 2;
    expect(Wrong::error, fails_after(Fault::link, {{1, 0}}));
    expect(Wrong::none, fails_after(Fault::link, {{1, 0}, {0, 1}}));
}

TEST_F(Explained, NothingLandsOnceItsEndIsTold) {
    const auto lands_after_a_restart = [](Oracle& oracle) {
        oracle.fault_begins(Fault::restart, 1);
        oracle.begin_round(0);
        oracle.end_round(0, Status::remote_disconnect);
        land(oracle, 0);
        oracle.check_memory();
    };
    expect(Wrong::late_write, lands_after_a_restart);
    expect(Wrong::late_write, [](Oracle& oracle) {
        oracle.begin_round(0);
        oracle.deregistered(1, 0);
        land(oracle, 0);
        oracle.check_memory();
    });
    expect(Wrong::late_write, [](Oracle& oracle) {
        oracle.begin_round(0);
        oracle.destroyed(0);
        land(oracle, 0);
        oracle.check_memory();
    });
    const auto lands_late = [](Fault fault) {
        return [fault](Oracle& oracle) {
            oracle.nic_fault(fault, 1, 0);
            oracle.begin_round(0);
            oracle.end_round(0, Status::remote_disconnect);
            land(oracle, 0);
            oracle.check_memory();
        };
    };
    expect(Wrong::late_write, lands_late(Fault::link));
    const auto lands_after_its_time = [](Oracle& oracle) {
        oracle.begin_round(0);
        oracle.end_round(0, Status::canceled, std::chrono::milliseconds(30));
        land(oracle, 0);
        oracle.check_memory();
    };
    schedule.engines[0].xfer_timeout_ms = 30;
    expect(Wrong::late_write, lands_after_its_time);
    schedule.provider = "efa";
    schedule.machine = "p4d.24xl";  // where WRITEs are emulated
    expect(Wrong::none, lands_late(Fault::link));
    expect(Wrong::none, [&](Oracle& oracle) {
        lands_after_its_time(oracle);
        EXPECT_TRUE(oracle.spent(0));
    });
    expect(Wrong::none, lands_late(Fault::late));
    expect(Wrong::late_write, lands_after_a_restart);
    expect(Wrong::none, [](Oracle& oracle) {
        oracle.begin_round(0);
        oracle.destroyed(0);
        land(oracle, 0);
        oracle.check_memory();
    });
    expect(Wrong::bytes, [](Oracle& oracle) {  // neither the old nor the new byte
        oracle.begin_round(0);
        target_byte(oracle, 0) = 0;
        for (int i = 0; i < 2; ++i) {  // one of two is neither
            oracle.check_memory();
            target_byte(oracle, 0) = 255;
        }
        oracle.check_memory();
        target_byte(oracle, 0) = 1;
        oracle.check_memory();
    });
}

}  // namespace
}  // namespace railyard::fault
