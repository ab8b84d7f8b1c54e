// customParam of a request is a CUDA stream: through the host's own interface, on the fake driver.
#include <backend/backend_engine.h>

#include <array>
#include <cstring>

#include "host/plugin_loader.h"
#include "pair.h"
#include "stream_pair.h"

namespace railyard::test {
namespace {

constexpr std::size_t size = 300'000;

/// An engine and GPU memory of its own.
class GpuBackend {
  public:
    GpuBackend(const std::string& name, ContextPtr context)
        : plugin_(host::plugin_directory(""), "RAILYARD"), context_(std::move(context)) {
        nixl_b_params_t params{{"provider", "tcp"}, {"network_devices", "lo"}};
        nixlBackendInitParams init;
        init.localAgent = name;
        init.type = "RAILYARD";
        init.customParams = &params;
        engine = plugin_.create_engine(init);
        const ContextGuard guard(*context_);
        CUdeviceptr made = 0;
        EXPECT_EQ(driver().mem_alloc(&made, size), CUDA_SUCCESS);
        EXPECT_EQ(driver().memset_d8(made, 0, size), CUDA_SUCCESS);
        address = made;
        EXPECT_EQ(engine->registerMem(blob(), VRAM_SEG, handle), NIXL_SUCCESS);
    }
    ~GpuBackend() {
        engine.reset();
        const ContextGuard guard(*context_);
        EXPECT_EQ(driver().mem_free(address), CUDA_SUCCESS);
    }
    GpuBackend(const GpuBackend&) = delete;
    GpuBackend& operator=(const GpuBackend&) = delete;

    [[nodiscard]] nixlBlobDesc blob() const {
        nixlBlobDesc desc;
        desc.addr = address;
        desc.len = size;
        desc.devId = static_cast<std::uint64_t>(context_->ordinal());
        return desc;
    }
    [[nodiscard]] nixl_meta_dlist_t list(nixlBackendMD* memory) const {
        nixl_meta_dlist_t list(VRAM_SEG);
        nixlMetaDesc desc;
        desc.addr = address;
        desc.len = size;
        desc.devId = static_cast<std::uint64_t>(context_->ordinal());
        desc.metadataP = memory;
        list.addDesc(desc);
        return list;
    }
    [[nodiscard]] std::vector<std::uint8_t> content() const {
        std::vector<std::uint8_t> bytes(size);
        const ContextGuard guard(*context_);
        EXPECT_EQ(driver().memcpy(reinterpret_cast<CUdeviceptr>(bytes.data()), address, size), CUDA_SUCCESS);
        return bytes;
    }
    [[nodiscard]] const cuda::Driver& driver() const { return context_->driver(); }

  private:
    host::Plugin plugin_;
    ContextPtr context_;

  public:
    host::EnginePointer engine;
    std::uint64_t address = 0;
    nixlBackendMD* handle = nullptr;
};

class PluginStreams : public cuda::OnFakeDriver {
  protected:
    /// One's view of two's memory.
    static nixlBackendMD* introduce(GpuBackend& one, GpuBackend& two) {
        std::string info;
        nixlBlobDesc published = two.blob();
        nixlBackendMD* loaded = nullptr;
        EXPECT_EQ(two.engine->getConnInfo(info), NIXL_SUCCESS);
        EXPECT_EQ(two.engine->getPublicData(two.handle, published.metaInfo), NIXL_SUCCESS);
        EXPECT_EQ(one.engine->loadRemoteConnInfo("two", info), NIXL_SUCCESS);
        EXPECT_EQ(one.engine->loadRemoteMD(published, VRAM_SEG, "two", loaded), NIXL_SUCCESS);
        return loaded;
    }
    static nixl_opt_b_args_t on(const std::string& custom_param) {
        nixl_opt_b_args_t options;
        options.customParam = custom_param;
        return options;
    }
    static nixl_status_t finish(GpuBackend& one, GpuBackend& two, nixlBackendReqH* request) {
        nixl_status_t status = NIXL_IN_PROG;
        notif_list_t arrived;
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (status == NIXL_IN_PROG && std::chrono::steady_clock::now() < deadline) {
            EXPECT_EQ(two.engine->getNotifs(arrived), NIXL_SUCCESS);
            status = one.engine->checkXfer(request);
        }
        return status;
    }
    static void fill(const ProgramStream& stream, const GpuBackend& side, std::uint8_t value) {
        stream.launch([&side, value] {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            const std::vector<std::uint8_t> bytes(size, value);
            EXPECT_EQ(fake().gpu_write(side.address, bytes.data(), size), 0u);
        });
    }
};

TEST_F(PluginStreams, ATransferTakesItsPlaceOnTheStreamOfItsRequest) {
    GpuBackend one("one", context(0)), two("two", context(1));
    const ProgramStream stream(context(0));
    const auto from = one.list(one.handle), to = two.list(introduce(one, two));
    const nixl_opt_b_args_t options = on(stream.param());
    nixlBackendReqH *push = nullptr, *fetch = nullptr;
    ASSERT_EQ(one.engine->prepXfer(NIXL_WRITE, from, to, "two", push, &options), NIXL_SUCCESS);
    ASSERT_EQ(one.engine->prepXfer(NIXL_READ, from, to, "two", fetch, &options), NIXL_SUCCESS);
    for (std::uint8_t step = 1; step <= 5; ++step) {
        fill(stream, one, step);
        ASSERT_EQ(one.engine->postXfer(NIXL_WRITE, from, to, "two", push, nullptr), NIXL_IN_PROG);
        ASSERT_EQ(finish(one, two, push), NIXL_SUCCESS);
        EXPECT_TRUE(two.content() == std::vector<std::uint8_t>(size, step)) << int{step};
        fill(stream, one, 0);
        std::vector<std::uint8_t> seen(size);
        ASSERT_EQ(one.engine->postXfer(NIXL_READ, from, to, "two", fetch, nullptr), NIXL_IN_PROG);
        stream.launch([&] { EXPECT_EQ(fake().gpu_read(one.address, seen.data(), size), 0u); });
        ASSERT_EQ(finish(one, two, fetch), NIXL_SUCCESS);
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (!stream.idle() && std::chrono::steady_clock::now() < deadline)
            std::this_thread::yield();
        ASSERT_TRUE(stream.idle());
        EXPECT_TRUE(seen == std::vector<std::uint8_t>(size, step)) << int{step};
    }
    EXPECT_EQ(one.engine->releaseReqH(push), NIXL_SUCCESS);
    EXPECT_EQ(one.engine->releaseReqH(fetch), NIXL_SUCCESS);
}

TEST_F(PluginStreams, WithoutAStreamTheTransferStartsAtOnce) {
    GpuBackend one("one", context(0)), two("two", context(1));
    const ProgramStream blocked(context(0));
    const StreamGate gate(blocked);
    const auto from = one.list(one.handle), to = two.list(introduce(one, two));
    const nixl_opt_b_args_t options = on("");
    nixlBackendReqH* request = nullptr;
    ASSERT_EQ(one.engine->prepXfer(NIXL_WRITE, from, to, "two", request, &options), NIXL_SUCCESS);
    ASSERT_EQ(one.engine->postXfer(NIXL_WRITE, from, to, "two", request, nullptr), NIXL_IN_PROG);
    EXPECT_EQ(finish(one, two, request), NIXL_SUCCESS);
    EXPECT_EQ(one.engine->releaseReqH(request), NIXL_SUCCESS);
}

TEST_F(PluginStreams, WhatIsNoStreamOfTheMemorysGpuIsRefused) {
    GpuBackend one("one", context(0)), two("two", context(1));
    const ProgramStream other(context(1));
    const auto from = one.list(one.handle), to = two.list(introduce(one, two));
    for (const std::string& param :
         {std::string("4444"), std::string("999999999"), std::string(8, '\x7F'), other.param()}) {
        const nixl_opt_b_args_t options = on(param);
        nixlBackendReqH* request = nullptr;
        EXPECT_EQ(one.engine->prepXfer(NIXL_WRITE, from, to, "two", request, &options),
                  NIXL_ERR_INVALID_PARAM);
        EXPECT_EQ(request, nullptr);
    }
}

TEST_F(PluginStreams, AnEngineMayGoWithRequestsOnAStream) {
    const ProgramStream stream(context(0));
    GpuBackend one("one", context(0)), two("two", context(1));
    const auto from = one.list(one.handle), to = two.list(introduce(one, two));
    const nixl_opt_b_args_t options = on(stream.param());
    nixlBackendReqH* request = nullptr;
    ASSERT_EQ(one.engine->prepXfer(NIXL_READ, from, to, "two", request, &options), NIXL_SUCCESS);
    ASSERT_EQ(one.engine->postXfer(NIXL_READ, from, to, "two", request, nullptr), NIXL_IN_PROG);
    one.engine.reset();
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!stream.idle() && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    EXPECT_TRUE(stream.idle());
}

}  // namespace
}  // namespace railyard::test
