// Streams as a program has them, on the fake driver.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "cuda/context_guard.h"
#include "cuda/driver.h"

namespace railyard::test {

using cuda::ContextGuard;
using cuda::ContextPtr;

/// Stands for a kernel that works on host memory.
inline void launch_on(const cuda::PrimaryContext& context, CUstream stream, std::function<void()> work) {
    const ContextGuard guard(context);
    const auto call = [](void* user) {
        const std::unique_ptr<std::function<void()>> mine(static_cast<std::function<void()>*>(user));
        (*mine)();
    };
    EXPECT_EQ(context.driver().launch_host_func(stream, call, new std::function(std::move(work))),
              CUDA_SUCCESS);
}

/// A stream of the program's own.
class ProgramStream {
  public:
    explicit ProgramStream(ContextPtr context) : context_(std::move(context)) {
        const ContextGuard guard(*context_);
        EXPECT_EQ(driver().stream_create(&handle_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    }
    ~ProgramStream() { destroy(); }
    ProgramStream(const ProgramStream&) = delete;
    ProgramStream& operator=(const ProgramStream&) = delete;

    void destroy() {
        const ContextGuard guard(*context_);
        if (handle_) {
            EXPECT_EQ(driver().stream_destroy(handle_), CUDA_SUCCESS);
        }
        handle_ = nullptr;
    }
    void launch(std::function<void()> work) const { launch_on(*context_, handle_, std::move(work)); }
    [[nodiscard]] bool idle() const {
        const ContextGuard guard(*context_);
        return driver().stream_query(handle_) != CUDA_ERROR_NOT_READY;
    }
    /// As a program hands it over in customParam.
    [[nodiscard]] std::string param() const {
        return {reinterpret_cast<const char*>(&handle_), sizeof(handle_)};
    }
    [[nodiscard]] CUstream handle() const { return handle_; }
    [[nodiscard]] const cuda::Driver& driver() const { return context_->driver(); }
    [[nodiscard]] const ContextPtr& context() const { return context_; }

  private:
    ContextPtr context_;
    CUstream handle_ = nullptr;
};

/// Holds a stream up until it is opened.
class StreamGate {
  public:
    explicit StreamGate(const ProgramStream& stream) : StreamGate(*stream.context(), stream.handle()) {}
    StreamGate(const cuda::PrimaryContext& context, CUstream stream) {
        launch_on(context, stream, [open = open_, reached = reached_] {
            *reached = true;
            while (!*open)
                std::this_thread::sleep_for(std::chrono::microseconds(50));
        });
    }
    ~StreamGate() { open(); }
    StreamGate(const StreamGate&) = delete;
    StreamGate& operator=(const StreamGate&) = delete;
    void open() { *open_ = true; }
    [[nodiscard]] bool reached() const { return *reached_; }

  private:
    const std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false),
                                             reached_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace railyard::test
