// The engine "beta" on another simulated machine, driven by requests on its standard input: other_machine.h.
//   sim_target thread|inline KEY=VALUE...
#include <poll.h>
#include <unistd.h>

#include <cstdio>

#include "common/crc32.h"
#include "cuda/context_guard.h"
#include "cuda/driver.h"
#include "one_engine.h"
#include "other_machine.h"

namespace railyard::test {
namespace {

class Target {
  public:
    explicit Target(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
    ~Target() {
        if (transfer_) engine_->release(transfer_);
    }

    Words answer(const Words& request) {
        const std::string& what = request.at(0);
        if (what == "info") return {engine_->connection_info()};
        if (what == "rails") return {std::to_string(engine_->rail_count())};
        if (what == "buffer") return make_buffer(std::stoul(request.at(1)), request.at(2));
        if (what == "gpu-buffer") return make_gpu_buffer(std::stoul(request.at(1)));
        if (what == "register-gpu-buffer") return register_gpu_buffer(std::stoul(request.at(1)));
        if (what == "checksum") return {std::to_string(checksum(std::stoul(request.at(1))))};
        if (what == "load") {
            engine_->load_connection_info(request.at(1), request.at(2));
        } else if (what == "end-engine") {
            end_engine();
        } else if (what == "forget-gpu-buffer") {
            engine_->deregister_memory(gpu_region_);
        } else if (what == "notify") {
            engine_->send_notification(request.at(1), request.at(2));
        } else if (what == "write") {
            start_write(request);
        } else if (what == "written") {
            const Status status = engine_->poll(*transfer_);
            return {status == Status::in_progress ? "" : to_string(status)};
        } else if (what == "notifications") {
            return notifications();
        } else {
            return {"error", "unknown request " + what};
        }
        return {};
    }

    /// Takes and gives back each rail's role: what this thread has touched is before what the progress thread
    /// does from now on, and after what it did. ThreadSanitizer knows of no other order.
    void meet_progress_thread() {
        for (int i = 0; i < 8 && engine_; ++i)
            engine_->progress();
    }

    void progress() {
        if (!engine_) return;
        engine_->progress();
        if (transfer_) engine_->poll(*transfer_);
    }

  private:
    void end_engine() {
        for (const auto& buffer : buffers_)
            buffer->region.reset();
        engine_.reset();
    }
    Words make_buffer(std::size_t size, const std::string& seed) {
        buffers_.push_back(std::make_unique<Buffer>(*engine_, size));
        Buffer& buffer = *buffers_.back();
        fill_pattern(buffer.bytes, static_cast<std::uint32_t>(std::stoul(seed)));
        return {engine_->memory_metadata(*buffer.region), std::to_string(buffer.address())};
    }

    /// On the first GPU, one, and it stays as long as the process.
    Words make_gpu_buffer(std::size_t size) {
        static const cuda::DriverLookup found = cuda::find_driver();
        if (!found.driver) throw std::runtime_error(found.absent_because);
        gpu_ = std::make_shared<cuda::PrimaryContext>(*found.driver, 0);
        const cuda::ContextGuard guard(*gpu_);
        cuda::check(*found.driver, found.driver->mem_alloc(&gpu_memory_, size), "cuMemAlloc");
        cuda::check(*found.driver, found.driver->memset_d8(gpu_memory_, 7, size), "cuMemsetD8");
        return register_gpu_buffer(size);
    }
    Words register_gpu_buffer(std::size_t size) {
        gpu_region_ = engine_->register_memory(gpu_memory_, size, 0, MemoryType::device);
        return {engine_->memory_metadata(*gpu_region_), std::to_string(gpu_memory_)};
    }

    [[nodiscard]] std::uint32_t checksum(std::size_t index) const {
        const auto& bytes = buffers_.at(index)->bytes;
        return crc32({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }

    void start_write(const Words& request) {
        const std::size_t size = std::stoul(request.at(5));
        const std::uint64_t address = std::stoull(request.at(4));
        remote_ = engine_->load_remote_memory(request.at(2), request.at(3), address, size);
        const LocalDescriptor from = buffers_.at(std::stoul(request.at(1)))->local(0, size);
        const RemoteDescriptor to{address, size, &remote_};
        if (transfer_) engine_->release(transfer_);
        transfer_ = engine_->prepare(Operation::write, {&from, 1}, {&to, 1}, request.at(2), request.at(6));
        engine_->post(*transfer_);
    }

    Words notifications() {
        std::vector<Notification> got;
        engine_->take_notifications(got);
        Words words;
        for (const Notification& notification : got)
            words.push_back(notification.agent + ":" + notification.message);
        return words;
    }

    cuda::ContextPtr gpu_;
    CUdeviceptr gpu_memory_ = 0;
    std::unique_ptr<Engine> engine_;
    std::shared_ptr<Registration> gpu_region_;
    std::vector<std::unique_ptr<Buffer>> buffers_;
    std::shared_ptr<RemoteRegion> remote_;
    Transfer* transfer_ = nullptr;
};

std::unique_ptr<Engine> engine_of(int argc, char** argv) {
    ParamMap params;
    for (int i = 2; i < argc; ++i) {
        const std::string text = argv[i];
        const std::size_t equals = text.find('=');
        params[text.substr(0, equals)] = text.substr(equals + 1);
    }
    EngineConfig config;
    config.agent_name = params.contains("agent") ? params.extract("agent").mapped() : "beta";
    config.params = Params::parse(params, [](const char*) -> const char* { return nullptr; });
    config.progress_thread = std::string(argv[1]) == "thread";
    return std::make_unique<Engine>(std::move(config));
}

int serve(int argc, char** argv) {
    Target target(engine_of(argc, argv));
    const bool driven = std::string(argv[1]) == "thread";  // by its progress thread
    for (;;) {
        pollfd request{STDIN_FILENO, POLLIN, 0};
        if (poll(&request, 1, driven ? -1 : 0) == 0) {
            target.progress();
            continue;
        }
        if (!(request.revents & POLLIN)) return 0;
        const Words words = receive_words(STDIN_FILENO);
        Words answer;
        target.meet_progress_thread();
        try {
            answer = target.answer(words);
        } catch (const std::exception& error) {
            answer = {"error", error.what()};
        }
        target.meet_progress_thread();
        send_words(STDOUT_FILENO, answer);
    }
}

}  // namespace
}  // namespace railyard::test

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    try {
        return railyard::test::serve(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "sim_target: %s\n", error.what());
        return 1;
    }
}
