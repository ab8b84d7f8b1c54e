// Flows to several targets of which one is late, stopped or taken away: what becomes of the others.
#include <algorithm>
#include <atomic>
#include <thread>

#include "far_side.h"

namespace railyard::flow::test {
namespace {

/// An initiator that waits so long for answers.
struct PatientInitiator {
    PatientInitiator(Instance& instance, const Fabric& fabric, const char* connect_timeout_ms) {
        setenv("RAILYARD_CONNECT_TIMEOUT_MS", connect_timeout_ms, 1);
        made = std::make_unique<Initiator>(instance, fabric, ring_size, grain_length);
        unsetenv("RAILYARD_CONNECT_TIMEOUT_MS");
    }
    std::unique_ptr<Initiator> made;
};

class FanOut : public testing::TestWithParam<Fabric> {
  protected:
    /// One grain to all that are there, as a live program does: fills, sends, and drives until nothing is
    /// left. False once `limit` has passed, or where a target is gone.
    static bool send_within(Initiator& initiator, std::uint32_t number, milliseconds limit) {
        const std::uint32_t index = number % ring_size;
        const auto end = Clock::now() + limit;
        ryf_status status = RYF_ERR_NOT_READY;
        while (status == RYF_ERR_NOT_READY && Clock::now() < end)
            status = ryf_initiator_grain_ready(initiator.handle, index);
        if (status != RYF_OK) return false;
        initiator.ring.fill(index, static_cast<unsigned char>(number));
        status = ryf_initiator_transfer_grain(initiator.handle, index);
        if (status != RYF_OK) return false;
        while ((status = ryf_initiator_make_progress(initiator.handle)) == RYF_ERR_NOT_READY &&
               Clock::now() < end) {
        }
        return status == RYF_OK;
    }
    Instance instance_;
};

/// Its process is stopped before it has answered. It gets the first grain that begins after its answer, and
/// misses those before as if it had been added then.
TEST_P(FanOut, ATargetThatHasNotAnsweredDoesNotHoldUpTheOthers) {
    Target healthy(instance_, GetParam(), ring_size, grain_length);
    FarTarget late;
    PatientInitiator patient(instance_, GetParam(), "6000");
    Initiator& initiator = *patient.made;
    initiator.add(healthy);
    late.send_signal(SIGSTOP);
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, late.info));
    const auto begun = Clock::now();
    std::uint32_t sent = 0;
    for (; sent < 3 * ring_size; ++sent) {
        if (!send_within(initiator, sent, milliseconds(4000))) break;
        EXPECT_EQ(healthy.next().index, sent % ring_size);
    }
    const bool given_up = sent < 3 * ring_size;
    if (GetParam().provider == RYF_PROVIDER_EFA && given_up) return;  // NICs say so before that
    ASSERT_EQ(sent, 3 * ring_size) << ryf_last_error();
    EXPECT_LT(Clock::now() - begun, milliseconds(4000));
    late.send_signal(SIGCONT);
    // Nothing waits for it, so that OK says nothing of its answer: some grains more, until it sees one.
    for (const std::uint32_t most = sent + 50; sent < most; ++sent) {
        EXPECT_TRUE(send_within(initiator, sent, milliseconds(4000))) << ryf_last_error();
        EXPECT_EQ(healthy.next().index, sent % ring_size);
        if (late.says_something(milliseconds(50))) break;
    }
    const FarTarget::Seen first = late.take();
    EXPECT_EQ(first.round, 1u);
    EXPECT_EQ(first.lost, 0u);
}

/// Slices that are under way when it answers are not the first ones that it gets.
TEST_P(FanOut, ATargetThatAnswersInTheMiddleOfARoundSeesTheNextOne) {
    constexpr std::uint32_t slices = 4;
    Target healthy(instance_, GetParam(), ring_size, grain_length, slices);
    FarTarget late("serve-slices");
    PatientInitiator patient(instance_, GetParam(), "6000");
    Initiator& initiator = *patient.made;
    initiator.add(healthy);
    late.send_signal(SIGSTOP);
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, late.info));
    initiator.ring.fill(0, 1);
    ASSERT_RYF(ryf_initiator_transfer_slices(initiator.handle, 0, 0, 1));
    const ryf_status status = initiator.settle(4000);
    if (GetParam().provider == RYF_PROVIDER_EFA && status == RYF_ERR_DISCONNECTED) return;
    ASSERT_RYF(status);
    late.send_signal(SIGCONT);
    std::this_thread::sleep_for(
        milliseconds(500));  // it has answered by then, or gets even less of the round
    ASSERT_RYF(initiator.settle());
    ASSERT_RYF(ryf_initiator_transfer_slices(initiator.handle, 0, 2, 3));
    ASSERT_RYF(initiator.settle());
    EXPECT_EQ(healthy.next().round, 1u);
    EXPECT_TRUE(healthy.ring.holds(0, 1));
    for (unsigned char round = 2; round <= 20; ++round) {
        initiator.ring.fill(0, round);
        for (std::uint32_t slice = 0; slice < slices; ++slice) {
            ASSERT_RYF(ryf_initiator_transfer_slices(initiator.handle, 0, slice, slice));
            ASSERT_RYF(initiator.settle());
        }
        EXPECT_EQ(healthy.next().round, round);
        if (late.says_something(milliseconds(100))) break;
    }
    const FarTarget::Seen first = late.take();
    EXPECT_EQ(first.round, 1u);
    EXPECT_EQ(first.lost, 0u);
}

/// Where both are well and one is a bit slow to answer, both get what is sent at once.
TEST_P(FanOut, ATargetThatAnswersSoonGetsWhatWasSentBefore) {
    Target quick(instance_, GetParam(), ring_size, grain_length);
    FarTarget slow;
    PatientInitiator patient(instance_, GetParam(), "20000");
    Initiator& initiator = *patient.made;
    slow.send_signal(SIGSTOP);
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, quick.info));
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, slow.info));
    for (std::uint32_t i = 0; i < ring_size; ++i) {
        initiator.ring.fill(i, static_cast<unsigned char>(i + 1));
        ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, i));
    }
    const auto end = Clock::now() + milliseconds(100);
    while (Clock::now() < end)
        EXPECT_EQ(ryf_initiator_make_progress(initiator.handle), RYF_ERR_NOT_READY);
    slow.send_signal(SIGCONT);
    ASSERT_RYF(initiator.settle());
    slow.expect_grains(ring_size);
    for (std::uint32_t i = 0; i < ring_size; ++i)
        quick.next();
}

/// While none has answered there is nobody to go on with: grains wait, and the time of one target begins with
/// the answer of another.
TEST_P(FanOut, NobodyIsLeftOutUntilSomebodyHasAnswered) {
    if (GetParam().provider == RYF_PROVIDER_EFA) GTEST_SKIP() << "NICs give up who is stopped for so long";
    FarTarget one, other;
    // A tenth of it is what the other one has: longer than it takes to go on on a busy machine.
    PatientInitiator patient(instance_, GetParam(), "20000");
    Initiator& initiator = *patient.made;
    for (FarTarget* target : {&one, &other}) {
        target->send_signal(SIGSTOP);
        ASSERT_RYF(ryf_initiator_add_target(initiator.handle, target->info));
    }
    initiator.ring.fill(0, 1);
    ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, 0));
    EXPECT_EQ(initiator.settle(2300), RYF_ERR_TIMEOUT);
    one.send_signal(SIGCONT);
    EXPECT_EQ(initiator.settle(300), RYF_ERR_TIMEOUT);
    other.send_signal(SIGCONT);
    ASSERT_RYF(initiator.settle());
    one.expect_grains(1);
    other.expect_grains(1);
}

/// While another thread takes `victim` away: how long that took, what was called and had returned meanwhile,
/// and the grains that got to the healthy target.
struct Beside {
    milliseconds removal{0};
    int calls = 0, grains = 0;
};
Beside send_beside_removal(Initiator& initiator, FarTarget& victim, Target& healthy) {
    Beside seen;
    std::atomic<bool> removed{false};
    const auto begun = Clock::now();
    std::thread remover([&] {
        EXPECT_RYF(ryf_initiator_remove_target(initiator.handle, victim.info));
        removed = true;
    });
    for (std::uint32_t i = ring_size / 2; !removed; i = i + 1 < ring_size ? i + 1 : ring_size / 2) {
        const bool well_under_way = Clock::now() - begun > milliseconds(30);
        ryf_grain grain{};
        if (ryf_initiator_grain_ready(initiator.handle, i) == RYF_OK) {
            EXPECT_RYF(ryf_initiator_transfer_grain(initiator.handle, i));
        }
        ryf_initiator_make_progress(initiator.handle);
        if (well_under_way && !removed) ++seen.calls;
        seen.grains += ryf_target_try_new_grain(healthy.handle, &grain) == RYF_OK ? 1 : 0;
    }
    seen.removal = std::chrono::duration_cast<milliseconds>(Clock::now() - begun);
    remover.join();
    return seen;
}

/// Its answer is waited for.
TEST_P(FanOut, RemovingOneThatHasNotAnsweredHoldsUpNoOtherThread) {
    Target healthy(instance_, GetParam(), ring_size, grain_length);
    FarTarget victim;
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    initiator.add(healthy);
    victim.send_signal(SIGSTOP);
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, victim.info));
    const Beside seen = send_beside_removal(initiator, victim, healthy);
    EXPECT_GE(seen.removal, milliseconds(200));
    EXPECT_GE(seen.calls, 3);
    EXPECT_GE(seen.grains, 2);
    EXPECT_RYF(initiator.settle());
}

/// The end of what is under way to it is waited for, where it cannot be interrupted.
TEST_P(FanOut, RemovingAStoppedOneHoldsUpNoOtherThread) {
    Target healthy(instance_, GetParam(), ring_size, grain_length);
    FarTarget victim;
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    initiator.add(healthy);
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, victim.info));
    ASSERT_RYF(initiator.settle());
    victim.send_signal(SIGSTOP);
    for (std::uint32_t i = 0; i < ring_size / 2; ++i)
        ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, i));
    const bool all_there = initiator.settle(50) == RYF_OK;
    const Beside seen = send_beside_removal(initiator, victim, healthy);
    if (GetParam().provider == RYF_PROVIDER_SHM && !all_there) {
        EXPECT_GE(seen.removal, milliseconds(200));
        EXPECT_GE(seen.calls, 3);
    }
    victim.send_signal(SIGCONT);  // over shm what goes to others on the rail may wait for it, too
    EXPECT_RYF(initiator.settle());
    initiator.send(0, 77);  // nothing of it is on its way any more
}

/// Another thread adds it again while it is being removed: not before what was under way has ended.
TEST_P(FanOut, OneThatIsBeingRemovedIsAddedAgainAfterwards) {
    Target target(instance_, GetParam(), ring_size, grain_length);
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    initiator.add(target);
    for (unsigned char round = 1; round <= 30; ++round) {
        for (std::uint32_t i = 0; i < ring_size; ++i)
            ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, i));
        std::thread remover([&] { EXPECT_RYF(ryf_initiator_remove_target(initiator.handle, target.info)); });
        ryf_status status = RYF_ERR_EXISTS;
        while (status == RYF_ERR_EXISTS)
            status = ryf_initiator_add_target(initiator.handle, target.info);
        EXPECT_RYF(status);
        remover.join();
        EXPECT_RYF(initiator.settle());
        ryf_grain grain{};
        while (ryf_target_try_new_grain(target.handle, &grain) == RYF_OK) {
        }
        initiator.send(3, round);
        EXPECT_EQ(target.next().index, 3u);
        EXPECT_TRUE(target.ring.holds(3, round));
    }
    EXPECT_EQ(target.sources().size(), 1u);
}

std::vector<ryf_target_report> reports_of(const Initiator& initiator) {
    std::size_t count = 0;
    EXPECT_RYF(ryf_initiator_targets(initiator.handle, nullptr, &count));
    std::vector<ryf_target_report> list(count);
    EXPECT_RYF(ryf_initiator_targets(initiator.handle, list.data(), &count));
    return list;
}

std::string id_of(const ryf_target_info* info) {
    char text[64];
    std::size_t size = sizeof(text);
    EXPECT_RYF(ryf_target_info_id(info, text, &size));
    return text;
}

/// Which one is gone, which one fails, and what each has been sent.
TEST_P(FanOut, EachTargetIsToldOf) {
    constexpr std::uint32_t slices = 4;
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    EXPECT_TRUE(reports_of(initiator).empty());
    Target stays(instance_, GetParam(), ring_size, grain_length, slices);
    auto goes = std::make_unique<Target>(instance_, GetParam(), ring_size, grain_length, slices);
    const std::string gone_id = id_of(goes->info);
    initiator.add(stays);
    initiator.send(0, 1);
    initiator.add(*goes);
    for (std::uint32_t i = 1; i < 5; ++i)
        initiator.send(i, 1);
    initiator.send(1, 2);  // in its next round
    ASSERT_RYF(ryf_initiator_transfer_slices(initiator.handle, 5, 0, 2));
    ASSERT_RYF(initiator.settle());
    auto reports = reports_of(initiator);
    ASSERT_EQ(reports.size(), 2u);
    const std::uint64_t parts = 3 * (grain_length / slices);
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(reports[i].id, i == 0 ? id_of(stays.info) : gone_id);
        EXPECT_EQ(reports[i].state, RYF_TARGET_CONNECTED);
        EXPECT_EQ(reports[i].grains, i == 0 ? 6u : 5u);
        EXPECT_EQ(reports[i].bytes, reports[i].grains * grain_length + parts);
        EXPECT_EQ(reports[i].under_way, 0u);
        EXPECT_EQ(reports[i].failed, 0u);
        EXPECT_EQ(reports[i].left_out, 0u);
        EXPECT_STREQ(reports[i].error, "");
    }
    goes.reset();
    const auto end = Clock::now() + milliseconds(10'000);
    while (ryf_initiator_make_progress(initiator.handle) != RYF_ERR_DISCONNECTED && Clock::now() < end) {
    }
    ASSERT_RYF(ryf_initiator_transfer_slices(initiator.handle, 5, 3, 3));
    ASSERT_RYF(initiator.settle());
    reports = reports_of(initiator);
    ASSERT_EQ(reports.size(), 2u);
    EXPECT_EQ(reports[0].state, RYF_TARGET_CONNECTED);
    EXPECT_EQ(reports[0].grains, 7u);
    EXPECT_EQ(reports[0].bytes, 7 * grain_length);
    EXPECT_EQ(reports[1].id, gone_id);
    EXPECT_EQ(reports[1].state, RYF_TARGET_GONE);
    EXPECT_EQ(reports[1].grains, 5u);
    const std::string why = reports[1].error;  // its leave may be overtaken by its engine's end
    EXPECT_TRUE(why.find("it was destroyed") != std::string::npos ||
                why.find("does not answer any more") != std::string::npos)
        << why;
    EXPECT_RYF(ryf_initiator_remove_target(initiator.handle, stays.info));
    EXPECT_EQ(reports_of(initiator).size(), 1u) << "what was removed by the program is not told of";
}

TEST_P(FanOut, WhatALateTargetHasMissedIsTold) {
    Target healthy(instance_, GetParam(), ring_size, grain_length);
    FarTarget late;
    PatientInitiator patient(instance_, GetParam(), "4000");
    Initiator& initiator = *patient.made;
    initiator.add(healthy);
    late.send_signal(SIGSTOP);
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, late.info));
    EXPECT_EQ(reports_of(initiator).at(1).state, RYF_TARGET_CONNECTING);
    for (std::uint32_t i = 0; i < 3; ++i)
        ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, i));
    EXPECT_EQ(reports_of(initiator).at(1).left_out, 0u);
    const ryf_status status = initiator.settle(3000);
    if (GetParam().provider != RYF_PROVIDER_EFA) {  // NICs may give it up before that
        ASSERT_RYF(status);
        ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, 3));
        EXPECT_EQ(reports_of(initiator).at(1).left_out, 4u);
    }
    ryf_status last = RYF_OK;
    for (const auto end = Clock::now() + milliseconds(10'000);
         status == RYF_OK && last != RYF_ERR_DISCONNECTED && Clock::now() < end;)
        last = ryf_initiator_make_progress(initiator.handle);
    const auto reports = reports_of(initiator);
    EXPECT_EQ(reports.at(1).state, RYF_TARGET_GONE);
    EXPECT_NE(std::string(reports.at(1).error).find("answer"), std::string::npos) << reports.at(1).error;
    EXPECT_EQ(reports.at(1).grains, 0u);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FanOut, testing::ValuesIn(fabrics()), name_of);

}  // namespace
}  // namespace railyard::flow::test
