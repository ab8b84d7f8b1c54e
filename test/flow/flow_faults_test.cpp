// What becomes of flows when a side dies, hangs or never answers: each is a process of its own, this program
// again.
#include <iostream>
#include <thread>

#include "../least_of.h"
#include "far_side.h"

namespace railyard::flow::test {
namespace {

class FlowFaults : public testing::TestWithParam<Fabric> {
  protected:
    /// What make_progress says first besides not_ready.
    ryf_status progress_until(Initiator& initiator, milliseconds limit) {
        const auto end = Clock::now() + limit;
        ryf_status status = RYF_ERR_NOT_READY;
        while (Clock::now() < end) {
            status = ryf_initiator_make_progress(initiator.handle);
            if (status != RYF_ERR_NOT_READY) break;
        }
        return status;
    }
    Instance instance_;
};

TEST_P(FlowFaults, ATargetThatDiesIsReportedOnceAndTheOthersGoOn) {
    FarTarget first, second;
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    {
        FarTarget victim;
        for (const FarTarget* target : {&first, &victim, &second})
            ASSERT_RYF(ryf_initiator_add_target(initiator.handle, target->info));
        ASSERT_RYF(initiator.settle());
        initiator.send(0, 1);
        first.expect_grains(1);
        second.expect_grains(1);
        victim.send_signal(SIGKILL);
        int reports = 0;
        const auto killed = Clock::now();
        for (std::uint32_t sent = 1; sent < 20; ++sent) {
            initiator.ring.fill(sent % ring_size, static_cast<unsigned char>(sent));
            ryf_status status = ryf_initiator_transfer_grain(initiator.handle, sent % ring_size);
            ASSERT_EQ(status, RYF_OK) << ryf_last_error();
            while ((status = initiator.settle()) != RYF_OK) {
                ASSERT_EQ(status, RYF_ERR_DISCONNECTED) << ryf_last_error();
                EXPECT_NE(std::string(ryf_last_error()).find("is gone"), std::string::npos)
                    << ryf_last_error();
                ++reports;
            }
            first.expect_grains(1);
            second.expect_grains(1);
        }
        const auto end = killed + std::chrono::seconds(10);
        while (reports == 0 && Clock::now() < end)
            reports += progress_until(initiator, milliseconds(100)) == RYF_ERR_DISCONNECTED;
        EXPECT_EQ(reports, 1);
        EXPECT_EQ(ryf_initiator_remove_target(initiator.handle, victim.info), RYF_ERR_NOT_FOUND);
    }
    initiator.send(1, 99);
    first.expect_grains(1);
    second.expect_grains(1);
}

TEST_P(FlowFaults, AnIdleTargetThatDiesIsFoundOut) {
    FarTarget target;
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, target.info));
    ASSERT_RYF(initiator.settle());
    initiator.send(0, 1);
    target.expect_grains(1);
    target.send_signal(SIGKILL);
    const auto end = Clock::now() + std::chrono::seconds(10);
    ryf_status status = RYF_OK;
    while (status == RYF_OK && Clock::now() < end)
        status = ryf_initiator_make_progress(initiator.handle);
    EXPECT_EQ(status, RYF_ERR_DISCONNECTED);
    EXPECT_EQ(ryf_initiator_transfer_grain(initiator.handle, 0), RYF_ERR_NOT_FOUND);
}

TEST_P(FlowFaults, ATargetThatNeverAnswersIsGivenUpInTime) {
    FarTarget target;
    target.send_signal(SIGSTOP);
    setenv("RAILYARD_CONNECT_TIMEOUT_MS", "400", 1);
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    unsetenv("RAILYARD_CONNECT_TIMEOUT_MS");
    const auto begun = Clock::now();
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, target.info));
    ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, 0));
    EXPECT_EQ(initiator.settle(), RYF_ERR_DISCONNECTED);
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(10));
    EXPECT_NE(std::string(ryf_last_error()).find("answer"), std::string::npos) << ryf_last_error();
    EXPECT_RYF(initiator.settle());
}

/// The answer has come, and the program was busy with something else for longer than connect_timeout_ms.
TEST_P(FlowFaults, ATargetThatAnsweredInTimeIsNotGivenUpForALateLook) {
    Target target(instance_, GetParam(), ring_size, grain_length);
    setenv("RAILYARD_CONNECT_TIMEOUT_MS", "2000", 1);
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    unsetenv("RAILYARD_CONNECT_TIMEOUT_MS");
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, target.info));
    std::this_thread::sleep_for(milliseconds(2200));  // nothing else than that time must pass
    EXPECT_RYF(initiator.settle());
    initiator.send(0, 1);
    EXPECT_EQ(target.next().index, 0u);
}

/// Grains of one target that fail while nobody looks are told of one by one.
TEST_P(FlowFaults, EveryGrainThatFailsIsToldOf) {
    FarTarget target;
    setenv("RAILYARD_XFER_TIMEOUT_MS", "300", 1);
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    unsetenv("RAILYARD_XFER_TIMEOUT_MS");
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, target.info));
    ASSERT_RYF(initiator.settle());
    target.send_signal(SIGSTOP);
    for (std::uint32_t i = 0; i < ring_size; ++i)
        ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, i));
    std::this_thread::sleep_for(milliseconds(1000));  // past the limit of all of them
    target.send_signal(SIGCONT);                      // what cannot be interrupted ends then
    std::string told;
    ryf_status status = RYF_OK;
    while ((status = initiator.settle()) == RYF_ERR_INTERNAL)
        told += std::string(ryf_last_error()) + "\n";
    EXPECT_RYF(status);
    for (std::uint32_t i = 0; i < ring_size; ++i)
        EXPECT_NE(told.find("grain " + std::to_string(i) + ":"), std::string::npos) << i << " of " << told;
}

TEST_P(FlowFaults, ASourceThatDiesIsNotConnectedAnyMore) {
    Target target(instance_, GetParam(), ring_size, grain_length);
    OtherSide source("send");
    source.say(target.text());
    for (int i = 0; i < 5; ++i)
        target.next();
    ASSERT_EQ(target.sources().size(), 1u);
    EXPECT_TRUE(target.sources()[0].connected);
    source.send_signal(SIGKILL);
    const auto end = Clock::now() + std::chrono::seconds(20);
    ryf_grain grain;
    while (target.sources()[0].connected && Clock::now() < end)
        ryf_target_try_new_grain(target.handle, &grain);
    EXPECT_FALSE(target.sources()[0].connected);
    Initiator next(instance_, GetParam(), ring_size, grain_length);
    next.add(target);
    while (ryf_target_try_new_grain(target.handle, &grain) == RYF_OK) {
    }
    next.send(3, 7);
    EXPECT_EQ(target.next().source, 1u);
    EXPECT_TRUE(target.ring.holds(3, 7));
}

/// A connected target that is stopped, and then sent the whole ring.
void stop_under_way(FarTarget& target, Initiator& initiator) {
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, target.info));
    ASSERT_RYF(initiator.settle());
    target.send_signal(SIGSTOP);
    for (std::uint32_t i = 0; i < ring_size; ++i)
        ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, i));
}

TEST_P(FlowFaults, EndingBesideTheDeadTakesBoundedTime) {
    Clock::time_point begun;
    {
        FarTarget target;
        Initiator initiator(instance_, GetParam(), ring_size, grain_length);
        ASSERT_NO_FATAL_FAILURE(stop_under_way(target, initiator));
        begun = Clock::now();
    }
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(10));
}

/// However many grains are under way to it: a quarter of a second.
TEST_P(FlowFaults, RemovingAStoppedTargetWaitsOnce) {
    const auto remove = [&] {
        FarTarget target;
        Initiator initiator(instance_, GetParam(), ring_size, grain_length);
        EXPECT_NO_FATAL_FAILURE(stop_under_way(target, initiator));
        const auto begun = Clock::now();
        EXPECT_RYF(ryf_initiator_remove_target(initiator.handle, target.info));
        return Clock::now() - begun;
    };
    const milliseconds limit(900);
    EXPECT_LT(railyard::test::least_of(limit, remove), limit) << "one after the other";
}

/// So that it does not take itself for connected for ever. The initiator's program does not call meanwhile.
TEST_P(FlowFaults, ATargetThatWasStoppedAndRemovedIsTold) {
    // Over shm whoever is only stopped is waited for, and NICs take what comes whatever a process does.
    if (GetParam().provider != RYF_PROVIDER_TCP) return;
    FarTarget target("serve-and-tell");
    setenv("RAILYARD_PEER_TIMEOUT_MS", "1000", 1);
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    unsetenv("RAILYARD_PEER_TIMEOUT_MS");
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, target.info));
    ASSERT_RYF(initiator.settle());
    initiator.send(0, 1);
    target.expect_grains(1);
    target.send_signal(SIGSTOP);
    ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, 1));
    ASSERT_EQ(initiator.settle(), RYF_ERR_DISCONNECTED);
    EXPECT_NE(std::string(ryf_last_error()).find("is gone"), std::string::npos) << ryf_last_error();
    target.send_signal(SIGCONT);
    // It is asked every second whether it is there.
    ASSERT_TRUE(target.says_left(milliseconds(10'000)));
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, target.info));
    ASSERT_RYF(initiator.settle());
    initiator.send(2, 3);
    target.expect_grains(1);
    EXPECT_FALSE(target.says_left(milliseconds(1500)));
}

TEST_P(FlowFaults, ATargetThatAnswersTooLateIsTold) {
    if (GetParam().provider != RYF_PROVIDER_TCP) return;  // elsewhere the opening is lost while it is stopped
    FarTarget target("serve-and-tell");
    target.send_signal(SIGSTOP);
    setenv("RAILYARD_CONNECT_TIMEOUT_MS", "400", 1);
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    unsetenv("RAILYARD_CONNECT_TIMEOUT_MS");
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, target.info));
    ASSERT_EQ(initiator.settle(), RYF_ERR_DISCONNECTED);
    target.send_signal(SIGCONT);
    EXPECT_TRUE(target.says_left(milliseconds(10'000)));
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FlowFaults, testing::ValuesIn(fabrics()), name_of);

/// Also of sources that have left.
int serve_and_tell() {
    Instance instance;
    Target target(instance, fabrics().front(), ring_size, grain_length);
    std::cout << target.text() << std::endl;
    ryf_grain grain{};
    for (bool left = false;;) {
        if (ryf_target_wait_for_new_grain(target.handle, &grain, 20) == RYF_OK)
            std::cout << "grain " << grain.round << " 0" << std::endl;
        const std::vector<ryf_source> sources = target.sources();
        const bool leaves = std::any_of(sources.begin(), sources.end(),
                                        [](const ryf_source& source) { return !source.connected; });
        if (leaves && !left) std::cout << "left" << std::endl;
        left = leaves;
    }
}

int serve(std::uint32_t slices) {
    Instance instance;
    Target target(instance, fabrics().front(), ring_size, grain_length, slices);
    std::cout << target.text() << std::endl;
    ryf_grain grain{};
    while (ryf_target_wait_for_new_grain(target.handle, &grain, 60'000) == RYF_OK)
        std::cout << (target.ring.holds(grain.index, target.ring.grain(grain.index)[0]) ? "grain " : "torn ")
                  << grain.round << ' ' << target.sources().at(grain.source).lost << std::endl;
    return 0;
}

int send() {
    Instance instance;
    std::string text;
    std::getline(std::cin, text);
    ryf_target_info* info = nullptr;
    if (ryf_target_info_from_string(text.c_str(), &info) != RYF_OK) return 1;
    Initiator initiator(instance, fabrics().front(), ring_size, grain_length);
    EXPECT_RYF(ryf_initiator_add_target(initiator.handle, info));
    for (std::uint32_t i = 0;; ++i) {
        initiator.ring.fill(i % ring_size, static_cast<unsigned char>(i));
        if (ryf_initiator_transfer_grain(initiator.handle, i % ring_size) != RYF_OK) return 1;
        if (initiator.settle() != RYF_OK) return 1;
    }
}

}  // namespace
}  // namespace railyard::flow::test

int main(int count, char** words) {
    const std::string role = count == 2 ? words[1] : "";
    if (role == "serve") return railyard::flow::test::serve(1);
    if (role == "serve-and-tell") return railyard::flow::test::serve_and_tell();
    if (role == "serve-slices") return railyard::flow::test::serve(4);
    if (role == "send") return railyard::flow::test::send();
    testing::InitGoogleTest(&count, words);
    return RUN_ALL_TESTS();
}
