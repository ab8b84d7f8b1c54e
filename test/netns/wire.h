// A wire between two machines that loses packets, gets them out of order and forgets connections, without the
// help of kernel modules.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace railyard::test {

/// A TAP device in each of two network namespaces, with a thread that carries packets between them. Only IPv4
/// suffers.
class Wire {
  public:
    struct Quality {
        double loss = 0;   ///< probability for each packet
        double delay = 0;  ///< probability for each packet that the next ones overtake it
    };
    struct Counts {
        std::uint64_t carried = 0, lost = 0, overtaken = 0;
    };

    /// Makes `device` in each namespace, without an address, down. Throws std::runtime_error.
    Wire(const std::array<std::string, 2>& namespaces, const std::string& device, Quality quality);
    /// The devices go with it.
    ~Wire();
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

    [[nodiscard]] Counts counts() const { return {carried_, lost_, overtaken_}; }

    /// As a firewall does with connections that have been idle: packets of those that were begun until now
    /// are lost from here on, in silence. What is begun afterwards is carried.
    void forget() { forgets_ = true; }

  private:
    struct Held {
        int to = 0;
        int packets_to_wait = 0;
        std::vector<std::uint8_t> frame;
    };
    void carry();
    /// A packet of a connection that it does not know.
    bool is_stray(const std::vector<std::uint8_t>& frame);
    void pass_on(int to, const std::vector<std::uint8_t>& frame);
    void deliver(int to, const std::vector<std::uint8_t>& frame);
    void let_go(bool all);
    double draw();

    const Quality quality_;
    std::array<int, 2> ends_{-1, -1};
    int stop_ = -1;
    std::uint64_t random_ = 88172645463325252;
    std::deque<Held> held_;
    std::atomic<bool> forgets_{false};
    std::set<std::string> known_;  ///< addresses and ports of connections, either way
    std::atomic<std::uint64_t> carried_{0}, lost_{0}, overtaken_{0};
    std::thread thread_;
};

}  // namespace railyard::test
