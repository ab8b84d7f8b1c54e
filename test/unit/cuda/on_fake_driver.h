// The layer on the fake driver: what tests share.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "common/status.h"
#include "cuda/context_guard.h"
#include "cuda/driver.h"
#include "fakecuda/control.h"
#include "fakecuda/nothing_left.h"

namespace railyard::cuda {

using fakecuda::fake;

/// Whatever a test does: nothing is left, and the thread's current context is the one that it had.
class OnFakeDriver : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(fake()) << "the driver that was loaded is not the fake one";
        found_ = find_driver();
        ASSERT_TRUE(found_.driver) << found_.absent_because;
        before_ = fake().statistics();
    }
    void TearDown() override {
        fake().fail_nothing();
        fake().set_delay_us(delay_at_start());
        EXPECT_EQ(current(), nullptr);
        fakecuda::expect_nothing_left(before_, fake().statistics());
    }

    [[nodiscard]] const Driver& driver() const { return *found_.driver; }
    [[nodiscard]] CUcontext current() const {
        CUcontext context = nullptr;
        EXPECT_EQ(driver().ctx_get_current(&context), CUDA_SUCCESS);
        return context;
    }
    [[nodiscard]] ContextPtr context(int ordinal = 0) const {
        return std::make_shared<PrimaryContext>(driver(), ordinal);
    }
    /// What the test's registration asks for.
    static unsigned delay_at_start() {
        const char* delay = std::getenv("FAKECUDA_DELAY_US");
        return delay ? static_cast<unsigned>(std::atoi(delay)) : 0;
    }

  private:
    DriverLookup found_;
    fakecuda_statistics before_{};
};

/// Memory of a device, without a context that stays current.
class DeviceBuffer {
  public:
    DeviceBuffer(ContextPtr context, std::size_t bytes) : context_(std::move(context)) {
        const ContextGuard guard(*context_);
        EXPECT_EQ(context_->driver().mem_alloc(&address_, bytes), CUDA_SUCCESS);
    }
    ~DeviceBuffer() {
        const ContextGuard guard(*context_);
        EXPECT_EQ(context_->driver().mem_free(address_), CUDA_SUCCESS);
    }
    DeviceBuffer(const DeviceBuffer&) = delete;
    DeviceBuffer& operator=(const DeviceBuffer&) = delete;
    [[nodiscard]] std::uint64_t address() const { return address_; }

  private:
    ContextPtr context_;
    CUdeviceptr address_ = 0;
};

inline std::vector<char> pattern(std::size_t bytes, int first) {
    std::vector<char> out(bytes);
    std::iota(out.begin(), out.end(), static_cast<char>(first));
    return out;
}

inline void fill(const DeviceBuffer& memory, const std::vector<char>& bytes) {
    ASSERT_EQ(fake().gpu_write(memory.address(), bytes.data(), bytes.size()), 0U);
}

inline std::vector<char> content(const DeviceBuffer& memory, std::size_t bytes) {
    std::vector<char> out(bytes);
    EXPECT_EQ(fake().gpu_read(memory.address(), out.data(), bytes), 0U);
    return out;
}

/// The status and the message of the Error that `call` throws; ok and "" when it throws none.
inline std::pair<Status, std::string> error_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return {error.status(), error.what()};
    }
    return {Status::ok, ""};
}

/// Polls until it is no longer in progress, ten seconds at most.
inline Status end_of(const std::function<Status()>& poll) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    Status status = poll();
    while (status == Status::in_progress && std::chrono::steady_clock::now() < limit) {
        std::this_thread::yield();
        status = poll();
    }
    return status;
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

}  // namespace railyard::cuda
