// Our engine and peers in processes of their own, for tests of what becomes of transfers when those are in
// trouble.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/crc32.h"
#include "engine_pair.h"
#include "other_machine.h"

namespace railyard::test {

/// Another process with a buffer, and handles of ours on it.
struct RemotePeer {
    RemotePeer(Engine& engine, std::unique_ptr<OtherMachine> machine, const std::string& agent,
               std::size_t size)
        : engine_(engine), name(agent), process(std::move(machine)), far(process->make_buffer(size, 7)) {
        load();
        near = std::make_unique<Buffer>(engine, size);
        fill_pattern(near->bytes, 3);
        remote = engine.load_remote_memory(name, far.metadata, far.address, far.size);
    }
    ~RemotePeer() {
        for (Transfer* transfer : transfers)
            engine_.release(transfer);
        if (near->region) engine_.deregister_memory(near->region);
    }
    RemotePeer(const RemotePeer&) = delete;
    RemotePeer& operator=(const RemotePeer&) = delete;

    void load() { engine_.load_connection_info(name, process->connection_info()); }
    Transfer* prepare(Operation operation, std::size_t length, std::size_t at = 0,
                      std::optional<std::string_view> message = std::nullopt) {
        const LocalDescriptor here = near->local(at, length);
        const RemoteDescriptor there{far.address + at, length, &remote};
        transfers.push_back(engine_.prepare(operation, {&here, 1}, {&there, 1}, name, message));
        return transfers.back();
    }
    /// Both sides hold the same bytes.
    [[nodiscard]] bool same_bytes() const {
        return crc32({reinterpret_cast<const char*>(near->bytes.data()), near->bytes.size()}) ==
               process->checksum(0);
    }

    Engine& engine_;
    const std::string name;
    const std::unique_ptr<OtherMachine> process;
    const PublishedBuffer far;
    std::unique_ptr<Buffer> near;
    std::shared_ptr<RemoteRegion> remote;
    std::vector<Transfer*> transfers;
};

/// Bytes of ours that nothing may touch from its making on.
class Untouched {
  public:
    explicit Untouched(Buffer& buffer) : buffer_(buffer) {
        std::fill(buffer.bytes.begin(), buffer.bytes.end(), std::uint8_t{0x5a});
    }
    [[nodiscard]] bool holds() const {
        return std::all_of(buffer_.bytes.begin(), buffer_.bytes.end(),
                           [](std::uint8_t byte) { return byte == 0x5a; });
    }

  private:
    const Buffer& buffer_;
};

/// Part of a test: our engine, driven where it does not do so itself.
class Initiator {
  public:
    using Clock = std::chrono::steady_clock;
    using milliseconds = std::chrono::milliseconds;

  protected:
    Status wait(Transfer& transfer, milliseconds limit = std::chrono::seconds(20)) {
        const auto end = Clock::now() + limit;
        Status status = engine_->poll(transfer);
        while (status == Status::in_progress && Clock::now() < end)
            status = engine_->poll(transfer);
        return status;
    }
    Status run(Transfer& transfer) {
        const Status status = engine_->post(transfer);
        return status == Status::in_progress ? wait(transfer) : status;
    }
    /// Until `over`; false past the limit.
    bool until(const std::function<bool()>& over, milliseconds limit = std::chrono::seconds(20)) {
        const auto end = Clock::now() + limit;
        while (!over()) {
            if (Clock::now() > end) return false;
            if (has_thread_) {
                std::this_thread::yield();
            } else {
                engine_->progress();
            }
        }
        return true;
    }
    /// Time goes by.
    void drive(milliseconds time) {
        until([] { return false; }, time);
    }
    PeerReport report_of(const std::string& agent) {
        for (const PeerReport& peer : engine_->peers()) {
            if (peer.agent == agent) return peer;
        }
        ADD_FAILURE() << agent << " is not known";
        return {};
    }
    PeerState state_of(const std::string& agent) { return report_of(agent).state; }

    std::unique_ptr<Engine> engine_;
    bool has_thread_ = false;
};

}  // namespace railyard::test
