#include "manager/parallel_registration.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

#include "common/mutex.h"
#include "common/signals_blocked.h"

namespace railyard {

std::vector<RegisteredMemory> register_on_rails(std::span<Rail* const> rails, const MemoryRange& range) {
    return register_on_rails(rails, range.length,
                             [&](std::size_t i) { return rails[i]->register_memory(range); });
}

std::vector<RegisteredMemory> register_on_rails(std::span<Rail* const> rails, std::uint64_t length,
                                                const std::function<RegisteredMemory(std::size_t)>& make) {
    std::vector<RegisteredMemory> memory(rails.size());
    std::atomic<std::size_t> next{0};
    Mutex mutex;
    std::exception_ptr failure;
    const auto work = [&]() noexcept {
        for (std::size_t i = next.fetch_add(1); i < rails.size(); i = next.fetch_add(1)) {
            try {
                memory[i] = make(i);
            } catch (...) {
                const MutexLock lock(mutex);
                if (!failure) failure = std::current_exception();
                next.store(rails.size());
            }
        }
    };
    {
        std::size_t threads = 1;
        if (length >= parallel_registration_bytes)
            threads = std::min<std::size_t>(rails.size(), std::thread::hardware_concurrency());
        std::vector<std::jthread> helpers;
        try {
            const SignalsBlocked with_them;
            for (std::size_t i = 1; i < threads; ++i)
                helpers.emplace_back(work);
        } catch (const std::system_error&) {
            // No thread is to be had: those that there are do it all.
        }
        work();
    }
    if (failure) {
        for (std::size_t i = 0; i < rails.size(); ++i) {
            if (memory[i].owner) rails[i]->deregister_memory(memory[i]);
        }
        std::rethrow_exception(failure);
    }
    return memory;
}

}  // namespace railyard
