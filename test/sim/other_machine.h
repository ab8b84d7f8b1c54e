// An engine in another process, which plays another machine: see sim_target.cpp.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::test {

using Words = std::vector<std::string>;

/// Words as one message over a pipe. Throw std::runtime_error when the other side is gone.
void send_words(int fd, const Words& words);
Words receive_words(int fd);

struct PublishedBuffer {
    std::string metadata;
    std::uint64_t address = 0;
    std::uint64_t size = 0;
};

/// Starts the program RAILYARD_SIM_TARGET, ends it with the object. Each call waits for the answer.
class OtherMachine {
  public:
    /// `topology`: the hwloc XML file of its instance type. `params`: KEY=VALUE of its engine "beta".
    /// `launcher`: a command that becomes the program which it is given with its arguments.
    OtherMachine(const std::string& topology, const std::string& hostname, const Words& params,
                 bool progress_thread, const Words& launcher = {});
    ~OtherMachine();
    OtherMachine(const OtherMachine&) = delete;
    OtherMachine& operator=(const OtherMachine&) = delete;

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// SIGKILL, SIGSTOP, SIGCONT.
    void send_signal(int signal) const;
    [[nodiscard]] std::string connection_info() { return ask({"info"}).at(0); }
    [[nodiscard]] std::size_t rail_count() { return std::stoul(ask({"rails"}).at(0)); }
    /// A registered buffer, filled by fill_pattern(seed).
    PublishedBuffer make_buffer(std::size_t size, std::uint32_t seed);
    /// The same of its first GPU; one.
    PublishedBuffer make_gpu_buffer(std::size_t size);
    /// Deregisters that one; its memory stays.
    void forget_gpu_buffer() { ask({"forget-gpu-buffer"}); }
    /// Registers it once more.
    PublishedBuffer register_gpu_buffer(std::size_t size);
    [[nodiscard]] std::uint32_t checksum(std::size_t buffer) {
        return static_cast<std::uint32_t>(std::stoul(ask({"checksum", std::to_string(buffer)}).at(0)));
    }
    /// The process lives on, and its buffers stay.
    void end_engine() { ask({"end-engine"}); }
    void load(const std::string& agent, const std::string& info) { ask({"load", agent, info}); }
    /// Starts a WRITE of a whole buffer of its own to `target` of `agent`, with a notification; ask whether
    /// it is over with `written`.
    void start_write(std::size_t buffer, const std::string& agent, const PublishedBuffer& target,
                     const std::string& message);
    /// Empty: in progress; else the status in words.
    [[nodiscard]] std::string written() { return ask({"written"}).at(0); }
    void notify(const std::string& agent, const std::string& message) { ask({"notify", agent, message}); }
    /// "AGENT:MESSAGE" of what has arrived since the last call.
    [[nodiscard]] Words notifications() { return ask({"notifications"}); }

  private:
    Words ask(const Words& request);

    pid_t pid_ = -1;
    int to_ = -1;
    int from_ = -1;
};

}  // namespace railyard::test
