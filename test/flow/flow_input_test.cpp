// Bad input, calls out of order, children of a fork: what the C API refuses, and how.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "fault/process/child.h"
#include "flow_program.h"

namespace railyard::flow::test {
namespace {

const Fabric tcp{RYF_PROVIDER_TCP, "lo", 1, "tcp"};

void expect_refused(ryf_status status, ryf_status wanted, const std::string& word) {
    EXPECT_EQ(status, wanted) << words(status);
    EXPECT_NE(std::string(ryf_last_error()).find(word), std::string::npos) << ryf_last_error();
}

TEST(FlowInput, NullIsRefusedByName) {
    Instance instance;
    Ring ring(1, 100);
    ryf_target* target = nullptr;
    ryf_initiator* initiator = nullptr;
    ryf_target_info* info = nullptr;
    ryf_grain grain;
    size_t count = 0;
    const ryf_config config{};
    expect_refused(ryf_instance_create(nullptr), RYF_ERR_INVALID_ARG, "instance is NULL");
    expect_refused(ryf_instance_interfaces(instance.handle, RYF_PROVIDER_TCP, nullptr, nullptr),
                   RYF_ERR_INVALID_ARG, "count is NULL");
    expect_refused(ryf_regions_create(nullptr, 1, &ring.regions), RYF_ERR_INVALID_ARG, "regions is NULL");
    expect_refused(ryf_target_create(nullptr, &target), RYF_ERR_INVALID_ARG, "instance is NULL");
    expect_refused(ryf_target_setup(nullptr, &config, &info), RYF_ERR_INVALID_ARG, "target is NULL");
    expect_refused(ryf_target_try_new_grain(nullptr, &grain), RYF_ERR_INVALID_ARG, "target is NULL");
    expect_refused(ryf_target_sources(nullptr, nullptr, &count), RYF_ERR_INVALID_ARG, "target is NULL");
    expect_refused(ryf_target_fd(nullptr, nullptr), RYF_ERR_INVALID_ARG, "fd is NULL");
    expect_refused(ryf_initiator_setup(nullptr, &config), RYF_ERR_INVALID_ARG, "initiator is NULL");
    expect_refused(ryf_initiator_make_progress(nullptr), RYF_ERR_INVALID_ARG, "initiator is NULL");
    expect_refused(ryf_target_info_from_string(nullptr, &info), RYF_ERR_INVALID_ARG, "text is NULL");
    expect_refused(ryf_target_info_to_string(nullptr, nullptr, &count), RYF_ERR_INVALID_ARG, "info is NULL");
    expect_refused(ryf_target_info_id(nullptr, nullptr, &count), RYF_ERR_INVALID_ARG, "info is NULL");
    expect_refused(ryf_initiator_targets(nullptr, nullptr, &count), RYF_ERR_INVALID_ARG, "initiator is NULL");
    ASSERT_RYF(ryf_target_create(instance.handle, &target));
    ASSERT_RYF(ryf_initiator_create(instance.handle, &initiator));
    expect_refused(ryf_target_setup(target, nullptr, &info), RYF_ERR_INVALID_ARG, "config is NULL");
    expect_refused(ryf_target_setup(target, &config, nullptr), RYF_ERR_INVALID_ARG, "info is NULL");
    expect_refused(ryf_target_setup(target, &config, &info), RYF_ERR_INVALID_ARG, "config->regions is NULL");
    expect_refused(ryf_initiator_add_target(initiator, nullptr), RYF_ERR_INVALID_ARG, "info is NULL");
    expect_refused(ryf_initiator_targets(initiator, nullptr, nullptr), RYF_ERR_INVALID_ARG, "count is NULL");
    expect_refused(ryf_initiator_targets(initiator, nullptr, &count), RYF_ERR_INVALID_STATE, "set up");
    EXPECT_RYF(ryf_target_destroy(target));
    EXPECT_RYF(ryf_initiator_destroy(initiator));
    EXPECT_RYF(ryf_target_destroy(nullptr));
    EXPECT_RYF(ryf_initiator_destroy(nullptr));
    EXPECT_RYF(ryf_regions_destroy(nullptr));
    EXPECT_RYF(ryf_target_info_free(nullptr));
    EXPECT_RYF(ryf_instance_destroy(nullptr));
}

/// Calls of one thread while another sets the object up: refused, or already served.
TEST(FlowInput, OthersMayAskDuringSetup) {
    Instance instance;
    Ring ring(2, 100);
    ryf_target* target = nullptr;
    ryf_initiator* initiator = nullptr;
    ryf_target_info* info = nullptr;
    ASSERT_RYF(ryf_target_create(instance.handle, &target));
    ASSERT_RYF(ryf_initiator_create(instance.handle, &initiator));
    const auto until_set_up = [](auto call) {
        ryf_status status = RYF_ERR_INVALID_STATE;
        while (status == RYF_ERR_INVALID_STATE)
            status = call();
        return status;
    };
    std::thread receiver([&] {
        ryf_grain grain;
        EXPECT_EQ(until_set_up([&] { return ryf_target_try_new_grain(target, &grain); }), RYF_ERR_NOT_READY);
    });
    std::thread sender([&] {
        EXPECT_EQ(until_set_up([&] { return ryf_initiator_transfer_grain(initiator, 0); }),
                  RYF_ERR_NOT_FOUND);
    });
    const ryf_config config = config_for(tcp, ring.regions);
    EXPECT_RYF(ryf_target_setup(target, &config, &info));
    EXPECT_RYF(ryf_initiator_setup(initiator, &config));
    receiver.join();
    sender.join();
    EXPECT_RYF(ryf_target_info_free(info));
    EXPECT_RYF(ryf_target_destroy(target));
    EXPECT_RYF(ryf_initiator_destroy(initiator));
}

TEST(FlowInput, CallsOutOfOrderAreRefused) {
    Instance instance;
    Ring ring(2, 100);
    ryf_target* target = nullptr;
    ryf_initiator* initiator = nullptr;
    ryf_target_info* info = nullptr;
    ryf_grain grain;
    ASSERT_RYF(ryf_target_create(instance.handle, &target));
    ASSERT_RYF(ryf_initiator_create(instance.handle, &initiator));
    expect_refused(ryf_target_try_new_grain(target, &grain), RYF_ERR_INVALID_STATE, "not been set up");
    expect_refused(ryf_initiator_transfer_grain(initiator, 0), RYF_ERR_INVALID_STATE, "not been set up");
    expect_refused(ryf_initiator_make_progress(initiator), RYF_ERR_INVALID_STATE, "not been set up");
    const ryf_config config = config_for(tcp, ring.regions);
    ASSERT_RYF(ryf_target_setup(target, &config, &info));
    ryf_target_info* other = nullptr;
    expect_refused(ryf_target_setup(target, &config, &other), RYF_ERR_INVALID_STATE, "set up already");
    EXPECT_EQ(other, nullptr);
    ASSERT_RYF(ryf_initiator_setup(initiator, &config));
    expect_refused(ryf_initiator_setup(initiator, &config), RYF_ERR_INVALID_STATE, "set up already");
    EXPECT_RYF(ryf_initiator_make_progress(initiator));  // nothing is left
    expect_refused(ryf_initiator_transfer_grain(initiator, 0), RYF_ERR_NOT_FOUND, "no target");
    expect_refused(ryf_initiator_transfer_grain(initiator, 2), RYF_ERR_INVALID_ARG, "grain 2: there are 2");
    EXPECT_RYF(ryf_target_destroy(target));
    EXPECT_RYF(ryf_initiator_destroy(initiator));
    EXPECT_RYF(ryf_target_info_free(info));
}

TEST(FlowInput, ConfigurationsAreLookedAt) {
    Instance instance;
    Ring ring(2, 100);
    const auto refused = [&](ryf_config config, ryf_status wanted, const std::string& word) {
        ryf_target* target = nullptr;
        ryf_target_info* info = nullptr;
        ASSERT_RYF(ryf_target_create(instance.handle, &target));
        expect_refused(ryf_target_setup(target, &config, &info), wanted, word);
        config = config_for(tcp, ring.regions);
        EXPECT_RYF(ryf_target_setup(target, &config, &info)) << "after a refusal it can be set up";
        EXPECT_RYF(ryf_target_destroy(target));
        EXPECT_RYF(ryf_target_info_free(info));
    };
    ryf_config config = config_for(tcp, ring.regions);
    config.interface = "nosuch0";
    refused(config, RYF_ERR_NO_FABRIC, "nosuch0");
    config = config_for(tcp, ring.regions);
    config.interface = "lo,,lo";
    refused(config, RYF_ERR_INVALID_ARG, "lo,,lo");
    config = config_for(tcp, ring.regions);
    config.provider = static_cast<ryf_provider>(77);
    refused(config, RYF_ERR_INVALID_ARG, "provider 77");
    config = config_for(tcp, ring.regions);
    config.endpoint = static_cast<ryf_endpoint>(9);
    refused(config, RYF_ERR_INVALID_ARG, "endpoint");
    config.endpoint = RYF_ENDPOINT_MSG;
    config.provider = RYF_PROVIDER_SHM;
    refused(config, RYF_ERR_UNSUPPORTED, "provider shm has no endpoints of kind MSG");
    config.provider = RYF_PROVIDER_VERBS;
    refused(config, RYF_ERR_NO_FABRIC, "verbs-msg");
    config = config_for(tcp, ring.regions, 5000);
    refused(config, RYF_ERR_INVALID_ARG, "5000 slices");
    config = config_for(tcp, ring.regions, 101);
    refused(config, RYF_ERR_INVALID_ARG, "empty");
    config = config_for(tcp, ring.regions);
    config.rails_per_device = 1000;
    refused(config, RYF_ERR_INVALID_ARG, "rails_per_device");
    config = config_for(tcp, ring.regions);
    config.reserved[3] = 1;
    refused(config, RYF_ERR_INVALID_ARG, "not zeroed");
}

TEST(FlowInput, TheLibrarySaysItsVersion) {
    EXPECT_EQ(ryf_version(), RYF_VERSION);
    EXPECT_EQ(RYF_VERSION, 1000u) << "0.1.0";
}

TEST(FlowInput, RegionsAreLookedAt) {
    char bytes[200];
    ryf_regions* list = nullptr;
    ryf_region regions[2] = {{bytes, 100, RYF_MEMORY_HOST, 0}, {bytes + 100, 99, RYF_MEMORY_HOST, 0}};
    expect_refused(ryf_regions_create(regions, 2, &list), RYF_ERR_INVALID_ARG, "region 1 has 99 bytes");
    expect_refused(ryf_regions_create(regions, 0, &list), RYF_ERR_INVALID_ARG, "0 regions");
    regions[1].length = 0;
    expect_refused(ryf_regions_create(regions, 2, &list), RYF_ERR_INVALID_ARG, "region 1 is empty");
    regions[1] = {reinterpret_cast<void*>(UINTPTR_MAX - 50), 100, RYF_MEMORY_HOST, 0};
    expect_refused(ryf_regions_create(regions, 2, &list), RYF_ERR_INVALID_ARG, "region 1 wraps");
    regions[1] = {bytes + 100, 100, static_cast<ryf_memory>(3), 0};
    expect_refused(ryf_regions_create(regions, 2, &list), RYF_ERR_INVALID_ARG, "region 1 is of memory");
    const std::vector<ryf_region> many(16385, {bytes, 100, RYF_MEMORY_HOST, 0});
    expect_refused(ryf_regions_create(many.data(), many.size(), &list), RYF_ERR_INVALID_ARG, "16385 regions");
    EXPECT_EQ(list, nullptr);
}

/// The source of grains may be memory that nobody writes to, their target may not.
TEST(FlowInput, ReadOnlyMemoryIsForSendingOnly) {
    Instance instance;
    void* const page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    const ryf_region region{page, 4096, RYF_MEMORY_HOST, 0};
    ryf_regions* list = nullptr;
    ASSERT_RYF(ryf_regions_create(&region, 1, &list));
    ryf_config config{};
    config.provider = RYF_PROVIDER_TCP;
    config.interface = "lo";
    config.regions = list;
    ryf_target* refused = nullptr;
    ryf_target_info* info = nullptr;
    ASSERT_RYF(ryf_target_create(instance.handle, &refused));
    expect_refused(ryf_target_setup(refused, &config, &info), RYF_ERR_INVALID_ARG, "read-only");
    EXPECT_RYF(ryf_target_destroy(refused));
    Target target(instance, tcp, 1, 4096);
    target.ring.fill(0, 7);
    ryf_initiator* initiator = nullptr;
    ASSERT_RYF(ryf_initiator_create(instance.handle, &initiator));
    ASSERT_RYF(ryf_initiator_setup(initiator, &config));
    ASSERT_RYF(ryf_initiator_add_target(initiator, target.info));
    ASSERT_RYF(ryf_initiator_transfer_grain(initiator, 0));
    ASSERT_RYF(ryf_initiator_make_progress_blocking(initiator, 20'000));
    EXPECT_EQ(target.next().index, 0u);
    EXPECT_TRUE(target.ring.holds(0, 0));
    EXPECT_RYF(ryf_initiator_destroy(initiator));
    EXPECT_RYF(ryf_regions_destroy(list));
    munmap(page, 4096);
}

TEST(FlowInput, TargetsMustFitTheInitiator) {
    Instance instance;
    Target target(instance, tcp, 2, 100);
    Initiator fewer(instance, tcp, 1, 100), longer(instance, tcp, 2, 200);
    expect_refused(ryf_initiator_add_target(fewer.handle, target.info), RYF_ERR_INVALID_ARG,
                   "2 regions of 100");
    expect_refused(ryf_initiator_add_target(longer.handle, target.info), RYF_ERR_INVALID_ARG, "2 of 200");
    const Fabric others[] = {{RYF_PROVIDER_SHM, "", 1, "shm"},
                             {RYF_PROVIDER_TCP, "lo", 1, "tcp_msg", RYF_ENDPOINT_MSG}};
    for (const Fabric& fabric : others) {
        Initiator other(instance, fabric, 2, 100);
        expect_refused(ryf_initiator_add_target(other.handle, target.info), RYF_ERR_INVALID_ARG, "provider");
        EXPECT_RYF(ryf_initiator_make_progress(other.handle));
    }
}

TEST(FlowInput, InfoGoesThroughTextInTwoCalls) {
    Instance instance;
    Target target(instance, tcp, 2, 100);
    const std::string text = target.text();
    EXPECT_EQ(text.front(), '{');
    size_t size = text.size();  // one too few
    std::vector<char> room(text.size() + 1, 'x');
    expect_refused(ryf_target_info_to_string(target.info, room.data(), &size), RYF_ERR_INVALID_ARG, "needed");
    EXPECT_EQ(size, text.size() + 1);
    EXPECT_EQ(room[0], 'x');
    ryf_target_info* again = nullptr;
    ASSERT_RYF(ryf_target_info_from_string(text.c_str(), &again));
    Initiator initiator(instance, tcp, 2, 100);
    ASSERT_RYF(ryf_initiator_add_target(initiator.handle, again));
    EXPECT_EQ(ryf_initiator_add_target(initiator.handle, target.info), RYF_ERR_EXISTS);
    initiator.send(1, 5);
    EXPECT_TRUE(target.ring.holds(target.next().index, 5));
    EXPECT_RYF(ryf_target_info_free(again));
    ryf_target_info* none = nullptr;
    for (std::size_t length = 0; length < text.size(); length += 7)
        EXPECT_EQ(ryf_target_info_from_string(text.substr(0, length).c_str(), &none), RYF_ERR_INVALID_ARG);
    EXPECT_EQ(none, nullptr);
    std::string newer = text;
    newer.replace(newer.find("\"version\":1"), 11, "\"version\":2");
    expect_refused(ryf_target_info_from_string(newer.c_str(), &none), RYF_ERR_INVALID_ARG, "version 2");
}

TEST(FlowInput, InterfacesAreListedInTwoCalls) {
    Instance instance;
    size_t count = 0;
    ASSERT_RYF(ryf_instance_interfaces(instance.handle, RYF_PROVIDER_TCP, nullptr, &count));
    ASSERT_GE(count, 1u);
    std::vector<ryf_interface> list(count);
    ASSERT_RYF(ryf_instance_interfaces(instance.handle, RYF_PROVIDER_TCP, list.data(), &count));
    bool loopback = false;
    for (const ryf_interface& one : list) {
        loopback = loopback || std::string(one.name) == "lo";
        EXPECT_EQ(one.provider, RYF_PROVIDER_TCP);
        EXPECT_TRUE(one.caps & RYF_CAP_RDM);
        EXPECT_TRUE(one.caps & RYF_CAP_MSG);
        EXPECT_TRUE(one.caps & RYF_CAP_IMMEDIATE);
    }
    EXPECT_TRUE(loopback);
    if (count > 1) {
        size_t room = count - 1;
        expect_refused(ryf_instance_interfaces(instance.handle, RYF_PROVIDER_TCP, list.data(), &room),
                       RYF_ERR_INVALID_ARG, "room for");
        EXPECT_EQ(room, count);
    }
    expect_refused(ryf_instance_interfaces(instance.handle, RYF_PROVIDER_VERBS, nullptr, &count),
                   RYF_ERR_NO_FABRIC, "");
    EXPECT_EQ(count, 0u);
}

TEST(FlowInput, AChildMustNotUseWhatItInherits) {
    Instance instance;
    Target target(instance, tcp, 1, 100);
    Initiator initiator(instance, tcp, 1, 100);
    initiator.add(target);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ryf_grain grain;
        const bool refused = ryf_target_try_new_grain(target.handle, &grain) == RYF_ERR_INVALID_STATE &&
                             ryf_initiator_transfer_grain(initiator.handle, 0) == RYF_ERR_INVALID_STATE &&
                             ryf_initiator_make_progress(initiator.handle) == RYF_ERR_INVALID_STATE &&
                             ryf_target_destroy(target.handle) == RYF_OK &&
                             ryf_initiator_destroy(initiator.handle) == RYF_OK;
        _exit(refused ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    initiator.send(0, 3);
    EXPECT_TRUE(target.ring.holds(target.next().index, 3));
}

/// What a thread of the parent is in the middle of is nobody's in the child.
/// It ends at its own next cancellation point, and nothing is left in the middle of a call.
TEST(FlowInput, AThreadThatWaitsIsCancelledAfterItsCall) {
    Instance instance;
    Target target(instance, tcp, 1, 100);
    Initiator initiator(instance, tcp, 1, 100);
    initiator.add(target);
    struct Waiter {
        ryf_target* target;
        std::atomic<bool> begun{false}, returned{false};
    } waiter{target.handle};
    const auto wait = [](void* argument) -> void* {
        auto& own = *static_cast<Waiter*>(argument);
        own.begun = true;
        ryf_grain grain{};
        const ryf_status status = ryf_target_wait_for_new_grain(own.target, &grain, 300);
        own.returned = status == RYF_ERR_TIMEOUT;
        pthread_testcancel();
        return nullptr;
    };
    pthread_t thread{};
    ASSERT_EQ(pthread_create(&thread, nullptr, wait, &waiter), 0);
    while (!waiter.begun)
        std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it is asleep by then, or not yet
    ASSERT_EQ(pthread_cancel(thread), 0);
    void* result = nullptr;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
    EXPECT_TRUE(waiter.returned);
    initiator.send(0, 3);
    EXPECT_TRUE(target.ring.holds(target.next().index, 3));
}

TEST(FlowInput, AChildMayDestroyWhatAThreadOfItsParentUses) {
    Instance instance;
    Target target(instance, tcp, 1, 100);
    Initiator initiator(instance, tcp, 1, 100);
    initiator.add(target);
    std::atomic<bool> over{false};
    std::thread sender([&] {
        while (!over)
            ryf_initiator_make_progress(initiator.handle);
    });
    std::thread receiver([&] {
        ryf_grain grain;
        while (!over)
            ryf_target_try_new_grain(target.handle, &grain);
    });
    for (int i = 0; i < 30 && !HasFailure(); ++i) {
        railyard::test::Child child(railyard::test::Child::End::at_once, [&] {
            const bool refused = ryf_initiator_make_progress(initiator.handle) == RYF_ERR_INVALID_STATE &&
                                 ryf_target_destroy(target.handle) == RYF_OK &&
                                 ryf_initiator_destroy(initiator.handle) == RYF_OK;
            return refused ? 0 : 1;
        });
        EXPECT_EQ(child.outcome(), "exit 0") << i;
    }
    over = true;
    sender.join();
    receiver.join();
    initiator.send(0, 3);
    EXPECT_TRUE(target.ring.holds(target.next().index, 3));
}

TEST(FlowInput, StatusesHaveNames) {
    EXPECT_STREQ(ryf_status_to_string(RYF_OK), "RYF_OK");
    EXPECT_STREQ(ryf_status_to_string(RYF_ERR_INTERNAL), "RYF_ERR_INTERNAL");
    EXPECT_STREQ(ryf_status_to_string(static_cast<ryf_status>(99)), "an unknown ryf_status");
}

}  // namespace
}  // namespace railyard::flow::test
