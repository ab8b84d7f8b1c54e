// The plugin's engine through the host's own interface: what a host may do that the embedded host does not.
#include <backend/backend_engine.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "host/plugin_loader.h"
#include "pair.h"

namespace railyard::test {
namespace {

struct Backend {
    explicit Backend(const std::string& name, bool progress_thread = true)
        : plugin(host::plugin_directory(""), "RAILYARD"), engine(make(name, progress_thread)) {}

    host::EnginePointer make(const std::string& name, bool progress_thread) const {
        nixl_b_params_t params{{"provider", "tcp"}, {"devices", "lo"}};
        nixlBackendInitParams init;
        init.localAgent = name;
        init.type = "RAILYARD";
        init.customParams = &params;
        init.enableProgTh = progress_thread;
        return plugin.create_engine(init);
    }
    nixlBackendMD* add(void* address, std::size_t length) {
        nixlBackendMD* handle = nullptr;
        EXPECT_EQ(engine->registerMem(blob(address, length), DRAM_SEG, handle), NIXL_SUCCESS);
        EXPECT_NE(handle, nullptr);
        return handle;
    }
    static nixlBlobDesc blob(void* address, std::size_t length) {
        nixlBlobDesc desc;
        desc.addr = reinterpret_cast<std::uintptr_t>(address);
        desc.len = length;
        return desc;
    }
    static nixl_meta_dlist_t list(std::uint64_t address, std::size_t length, nixlBackendMD* handle,
                                  nixl_mem_t type = DRAM_SEG) {
        nixl_meta_dlist_t list(type);
        nixlMetaDesc desc;
        desc.addr = address;
        desc.len = length;
        desc.metadataP = handle;
        list.addDesc(desc);
        return list;
    }

    host::Plugin plugin;
    host::EnginePointer engine;
};

std::uint64_t at(void* pointer) {
    return reinterpret_cast<std::uint64_t>(pointer);
}

/// One agent, one buffer, ready for transfers to itself.
class SelfBackend : public testing::Test {
  protected:
    SelfBackend() : backend("self"), own(backend.add(memory.data(), memory.size())) {
        EXPECT_EQ(backend.engine->connect("self"), NIXL_SUCCESS);
        EXPECT_EQ(backend.engine->loadLocalMD(own, target), NIXL_SUCCESS);
    }
    nixl_status_t prepare(nixlBackendReqH*& handle, const nixl_opt_b_args_t* options = nullptr) {
        return backend.engine->prepXfer(NIXL_WRITE, from, to(), "self", handle, options);
    }
    nixl_meta_dlist_t to() { return Backend::list(at(memory.data()) + 2048, 1024, target); }
    nixl_status_t finish(nixlBackendReqH*& handle, const nixl_opt_b_args_t* options = nullptr) {
        nixl_status_t status = backend.engine->postXfer(NIXL_WRITE, from, to(), "self", handle, options);
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (status == NIXL_IN_PROG && std::chrono::steady_clock::now() < deadline)
            status = backend.engine->checkXfer(handle);
        return status;
    }

    std::array<unsigned char, 4096> memory{};
    Backend backend;
    nixlBackendMD* own;
    nixlBackendMD* target = nullptr;
    nixl_meta_dlist_t from = Backend::list(at(memory.data()), 1024, own);
};

TEST_F(SelfBackend, SaysWhatItCanDo) {
    EXPECT_TRUE(backend.engine->supportsRemote());
    EXPECT_TRUE(backend.engine->supportsLocal());
    EXPECT_TRUE(backend.engine->supportsNotif());
    EXPECT_EQ(backend.engine->getSupportedMems(), nixl_mem_list_t{DRAM_SEG});
    EXPECT_TRUE(backend.plugin.options().contains("provider"));
    EXPECT_TRUE(backend.plugin.options().contains("num_threads"));
}

TEST_F(SelfBackend, LocalMetadataIsAnObjectOfItsOwn) {
    EXPECT_NE(own, target);
    EXPECT_EQ(backend.engine->unloadMD(target), NIXL_SUCCESS);
    EXPECT_EQ(backend.engine->unloadMD(target), NIXL_ERR_INVALID_PARAM) << "given back twice";
    EXPECT_EQ(backend.engine->unloadMD(own), NIXL_ERR_INVALID_PARAM) << "of the other kind";
    EXPECT_EQ(backend.engine->deregisterMem(own), NIXL_SUCCESS);
    EXPECT_EQ(backend.engine->deregisterMem(own), NIXL_ERR_INVALID_PARAM) << "given back twice";
    EXPECT_EQ(backend.engine->deregisterMem(nullptr), NIXL_ERR_INVALID_PARAM);
    std::string published;
    EXPECT_EQ(backend.engine->getPublicData(own, published), NIXL_ERR_INVALID_PARAM);
}

TEST_F(SelfBackend, RefusesEveryOtherKindOfMemory) {
    for (const nixl_mem_t type : {VRAM_SEG, BLK_SEG, OBJ_SEG, FILE_SEG}) {
        nixlBackendMD* handle = nullptr;
        EXPECT_EQ(backend.engine->registerMem(Backend::blob(memory.data(), 64), type, handle),
                  NIXL_ERR_NOT_SUPPORTED);
        EXPECT_EQ(handle, nullptr);
        nixlBackendReqH* request = nullptr;
        EXPECT_EQ(backend.engine->prepXfer(NIXL_WRITE, Backend::list(at(memory.data()), 8, own, type), to(),
                                           "self", request, nullptr),
                  NIXL_ERR_NOT_SUPPORTED);
        EXPECT_EQ(request, nullptr);
    }
}

TEST_F(SelfBackend, ChecksDescriptorsThatTheHostLetsThrough) {
    const std::uint64_t base = at(memory.data());
    const auto attempt = [&](const nixl_meta_dlist_t& local, const nixl_meta_dlist_t& remote) {
        nixlBackendReqH* handle = nullptr;
        const nixl_status_t status =
            backend.engine->prepXfer(NIXL_WRITE, local, remote, "self", handle, nullptr);
        EXPECT_EQ(handle, nullptr);
        return status;
    };
    const std::uint64_t wrapping = ~std::uint64_t{0} - 10;
    EXPECT_EQ(attempt(Backend::list(base + 4000, 200, own), Backend::list(base, 200, target)),
              NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(attempt(Backend::list(base, 200, own), Backend::list(base + 4000, 200, target)),
              NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(attempt(Backend::list(base + 20, wrapping, own), Backend::list(base + 20, wrapping, target)),
              NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(attempt(Backend::list(base - 1, 10, own), Backend::list(base, 10, target)),
              NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(attempt(Backend::list(base, 10, own), Backend::list(base, 11, target)), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(attempt(Backend::list(base, 10, nullptr), Backend::list(base, 10, target)),
              NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(attempt(Backend::list(base, 10, target), Backend::list(base, 10, target)),
              NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(attempt(Backend::list(base, 10, own), Backend::list(base, 10, own)), NIXL_ERR_INVALID_PARAM);
    nixl_meta_dlist_t two = Backend::list(base, 10, own);
    two.addDesc(two[0]);
    EXPECT_EQ(attempt(two, Backend::list(base, 10, target)), NIXL_ERR_INVALID_PARAM);
}

TEST_F(SelfBackend, AListThatOutlivedItsMemoryIsRefused) {
    nixlBackendReqH* handle = nullptr;
    const nixl_meta_dlist_t stale = to();
    ASSERT_EQ(backend.engine->unloadMD(target), NIXL_SUCCESS);
    EXPECT_EQ(backend.engine->prepXfer(NIXL_WRITE, from, stale, "self", handle, nullptr),
              NIXL_ERR_INVALID_PARAM);
    ASSERT_EQ(backend.engine->loadLocalMD(own, target), NIXL_SUCCESS);
    ASSERT_EQ(backend.engine->deregisterMem(own), NIXL_SUCCESS);
    EXPECT_EQ(prepare(handle), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(handle, nullptr);
    own = backend.add(memory.data(), memory.size());
    ASSERT_EQ(backend.engine->unloadMD(target), NIXL_SUCCESS);
    ASSERT_EQ(backend.engine->loadLocalMD(own, target), NIXL_SUCCESS);
    from = Backend::list(at(memory.data()), 1024, own);
    ASSERT_EQ(prepare(handle), NIXL_SUCCESS) << "registered again";
    EXPECT_EQ(finish(handle), NIXL_SUCCESS);
    EXPECT_EQ(backend.engine->releaseReqH(handle), NIXL_SUCCESS);
}

/// While one thread registers and deregisters, others prepare with whatever handle they saw last: it is
/// refused or prepared, never read after it is gone (a sanitizer sees that).
TEST_F(SelfBackend, DeregistrationBesidePreparationIsSafe) {
    std::atomic<nixlBackendMD*> seen{own};
    std::atomic<bool> over{false};
    std::array<unsigned, 2> prepared{};
    std::vector<std::thread> preparing;
    for (unsigned& count : prepared) {
        preparing.emplace_back([&, this] {
            while (!over.load()) {
                nixlBackendReqH* handle = nullptr;
                const nixl_meta_dlist_t list = Backend::list(at(memory.data()), 1024, seen.load());
                const nixl_status_t status =
                    backend.engine->prepXfer(NIXL_WRITE, list, to(), "self", handle, nullptr);
                if (status != NIXL_SUCCESS) continue;
                ++count;
                EXPECT_EQ(backend.engine->releaseReqH(handle), NIXL_SUCCESS);
            }
        });
    }
    for (int i = 0; i < 300; ++i) {
        nixlBackendMD* const other = backend.add(memory.data(), memory.size());
        seen.store(other);
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        EXPECT_EQ(backend.engine->deregisterMem(other), NIXL_SUCCESS);
    }
    over.store(true);
    for (std::thread& thread : preparing)
        thread.join();
    EXPECT_GT(prepared[0] + prepared[1], 0U);
}

TEST_F(SelfBackend, HandlesAreRefusedWhenThereIsNone) {
    nixlBackendReqH* none = nullptr;
    EXPECT_EQ(backend.engine->postXfer(NIXL_WRITE, from, to(), "self", none, nullptr),
              NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(backend.engine->checkXfer(none), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(backend.engine->releaseReqH(none), NIXL_ERR_INVALID_PARAM);
}

TEST_F(SelfBackend, NotificationOfThePostReplacesThatOfThePreparation) {
    nixl_opt_b_args_t options;
    options.hasNotif = true;
    options.notifMsg = "prepared";
    nixlBackendReqH* handle = nullptr;
    ASSERT_EQ(prepare(handle, &options), NIXL_SUCCESS);
    ASSERT_EQ(finish(handle), NIXL_SUCCESS);
    options.notifMsg = std::string("post\0ed", 7);
    ASSERT_EQ(finish(handle, &options), NIXL_SUCCESS);
    ASSERT_EQ(finish(handle), NIXL_SUCCESS);
    notif_list_t arrived;
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (arrived.size() < 3 && std::chrono::steady_clock::now() < deadline)
        ASSERT_EQ(backend.engine->getNotifs(arrived), NIXL_SUCCESS);
    ASSERT_EQ(arrived.size(), 3u);
    EXPECT_EQ(arrived[0].second, "prepared");
    EXPECT_EQ(arrived[1].second, options.notifMsg);
    EXPECT_EQ(arrived[2].second, options.notifMsg) << "a repost without a message carries the last one";
    EXPECT_EQ(backend.engine->releaseReqH(handle), NIXL_SUCCESS);
}

/// A host that has a notification for each post names it each time.
TEST_F(SelfBackend, APostWhoseOptionsNameNoNotificationBringsNone) {
    nixl_opt_b_args_t named, none;
    named.hasNotif = true;
    named.notifMsg = "prepared";
    none.hasNotif = false;
    nixlBackendReqH* handle = nullptr;
    ASSERT_EQ(prepare(handle, &named), NIXL_SUCCESS);
    ASSERT_EQ(finish(handle, &none), NIXL_SUCCESS);
    ASSERT_EQ(finish(handle), NIXL_SUCCESS) << "as the one before";
    named.notifMsg = "named";
    ASSERT_EQ(finish(handle, &named), NIXL_SUCCESS);
    ASSERT_EQ(finish(handle, &none), NIXL_SUCCESS);
    notif_list_t arrived;
    ASSERT_EQ(backend.engine->getNotifs(arrived), NIXL_SUCCESS);
    ASSERT_EQ(arrived.size(), 1u);
    EXPECT_EQ(arrived[0].second, "named");
    EXPECT_EQ(backend.engine->releaseReqH(handle), NIXL_SUCCESS);
}

TEST_F(SelfBackend, QueryTellsRegisteredFromUnregistered) {
    nixl_reg_dlist_t query(DRAM_SEG);
    query.addDesc(Backend::blob(memory.data() + 10, 100));
    query.addDesc(Backend::blob(memory.data() + 10, memory.size()));
    query.addDesc(Backend::blob(memory.data() + 10, ~std::size_t{0}));
    query.addDesc(Backend::blob(nullptr, 1));
    std::vector<nixl_query_resp_t> answers;
    ASSERT_EQ(backend.engine->queryMem(query, answers), NIXL_SUCCESS);
    ASSERT_EQ(answers.size(), 4u);
    ASSERT_TRUE(answers[0].has_value());
    EXPECT_EQ(answers[0]->at("type"), "dram");
    EXPECT_EQ(answers[0]->at("length"), std::to_string(memory.size()));
    EXPECT_FALSE(answers[1].has_value() || answers[2].has_value() || answers[3].has_value());
    ASSERT_EQ(backend.engine->deregisterMem(own), NIXL_SUCCESS);
    ASSERT_EQ(backend.engine->queryMem(query, answers), NIXL_SUCCESS);
    EXPECT_FALSE(answers[0].has_value());
}

TEST_F(SelfBackend, EstimatesSaySoWhenNothingIsMeasured) {
    nixlBackendReqH* handle = nullptr;
    ASSERT_EQ(prepare(handle), NIXL_SUCCESS);
    std::chrono::microseconds duration{-1}, margin{-1};
    nixl_cost_t method{};
    ASSERT_EQ(
        backend.engine->estimateXferCost(NIXL_WRITE, from, to(), "self", handle, duration, margin, method),
        NIXL_SUCCESS);
    EXPECT_GE(duration.count(), 0);
    EXPECT_GE(margin.count(), 0);
    EXPECT_NE(method, nixl_cost_t::ANALYTICAL_BACKEND);
    EXPECT_EQ(backend.engine->releaseReqH(handle), NIXL_SUCCESS);
}

TEST_F(SelfBackend, SurvivesDestructionWithHandlesThatWereNeverGivenBack) {
    nixlBackendReqH* posted = nullptr;
    nixlBackendReqH* prepared = nullptr;
    ASSERT_EQ(prepare(posted), NIXL_SUCCESS);
    ASSERT_EQ(prepare(prepared), NIXL_SUCCESS);
    const nixl_status_t status = backend.engine->postXfer(NIXL_WRITE, from, to(), "self", posted, nullptr);
    EXPECT_TRUE(status == NIXL_IN_PROG || status == NIXL_SUCCESS);
    backend.engine.reset();
    EXPECT_EQ(backend.engine, nullptr);
}

TEST(Backend, NeedsNoParameters) {
    const Backend any("any");
    nixlBackendInitParams init;
    init.localAgent = "defaults";
    init.type = "ANY_NAME";
    setenv("RAILYARD_PROVIDER", "tcp", 1);
    setenv("RAILYARD_DEVICES", "lo", 1);
    const host::EnginePointer engine = any.plugin.create_engine(init);
    unsetenv("RAILYARD_PROVIDER");
    unsetenv("RAILYARD_DEVICES");
    EXPECT_EQ(engine->getType(), "ANY_NAME");
    std::string info;
    EXPECT_EQ(engine->getConnInfo(info), NIXL_SUCCESS);
    EXPECT_FALSE(info.empty());
}

TEST(Backend, SaysWhichVariableNothingReads) {
    const Backend any("any");
    nixlBackendInitParams init;
    init.localAgent = "misspelt";
    nixl_b_params_t params{{"provider", "tcp"}, {"devices", "lo"}};
    init.customParams = &params;
    setenv("RAILYARD_KEEPALIVE_SM", "7", 1);
    testing::internal::CaptureStderr();
    const host::EnginePointer engine = any.plugin.create_engine(init);
    const std::string said = testing::internal::GetCapturedStderr();
    unsetenv("RAILYARD_KEEPALIVE_SM");
    EXPECT_NE(said.find("RAILYARD_KEEPALIVE_SM"), std::string::npos) << said;
    EXPECT_NE(said.find("did you mean RAILYARD_KEEPALIVE_MS?"), std::string::npos) << said;
}

TEST(Backend, RepostIsRefusedWhileActive) {
    std::vector<unsigned char> here(std::size_t{32} << 20), there(here.size());
    Backend one("one", false), two("two", false);
    nixlBackendMD* const local = one.add(here.data(), here.size());
    nixlBackendMD* const remote = two.add(there.data(), there.size());
    std::string info, published;
    ASSERT_EQ(two.engine->getConnInfo(info), NIXL_SUCCESS);
    ASSERT_EQ(two.engine->getPublicData(remote, published), NIXL_SUCCESS);
    ASSERT_EQ(one.engine->loadRemoteConnInfo("two", info), NIXL_SUCCESS);
    nixlBlobDesc blob = Backend::blob(there.data(), there.size());
    blob.metaInfo = published;
    nixlBackendMD* loaded = nullptr;
    ASSERT_EQ(one.engine->loadRemoteMD(blob, DRAM_SEG, "two", loaded), NIXL_SUCCESS);
    const auto from = Backend::list(at(here.data()), here.size(), local);
    const auto to = Backend::list(at(there.data()), there.size(), loaded);
    nixlBackendReqH* handle = nullptr;
    ASSERT_EQ(one.engine->prepXfer(NIXL_WRITE, from, to, "two", handle, nullptr), NIXL_SUCCESS);
    std::memset(here.data(), 7, here.size());
    // Nobody drives the target, and the transfer is larger than any socket buffer: it stays active.
    ASSERT_EQ(one.engine->postXfer(NIXL_WRITE, from, to, "two", handle, nullptr), NIXL_IN_PROG);
    EXPECT_EQ(one.engine->postXfer(NIXL_WRITE, from, to, "two", handle, nullptr), NIXL_ERR_REPOST_ACTIVE);
    nixl_status_t status = NIXL_IN_PROG;
    notif_list_t arrived;
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (status == NIXL_IN_PROG && std::chrono::steady_clock::now() < deadline) {
        ASSERT_EQ(two.engine->getNotifs(arrived), NIXL_SUCCESS);
        status = one.engine->checkXfer(handle);
    }
    EXPECT_EQ(status, NIXL_SUCCESS);
    EXPECT_EQ(here, there);
    EXPECT_EQ(one.engine->releaseReqH(handle), NIXL_SUCCESS);
}

}  // namespace
}  // namespace railyard::test
