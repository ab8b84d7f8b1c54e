// The machines of faults.sh, and what may befall their network.
#pragma once

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

namespace railyard::test {

/// The namespace of a machine (a: ours, b, c) or of the switches (hub).
inline std::string namespace_of(const std::string& machine) {
    const char* prefix = std::getenv("RAILYARD_NETNS");
    if (!prefix) throw std::runtime_error("RAILYARD_NETNS is not set: run test/netns/faults.sh");
    return prefix + ("-" + machine);
}

/// Runs `ip` in the namespace of a machine.
inline void ip(const std::string& machine, const std::string& arguments) {
    const std::string command = "ip -n " + namespace_of(machine) + " " + arguments;
    if (std::system(command.c_str()) != 0) throw std::runtime_error(command);
}

enum class Fault {
    our_link_down,    ///< our own device is set down
    their_link_down,  ///< the peer's, so that we notice nothing but silence
    unplugged,        ///< our device loses its carrier
    black_hole        ///< all devices are up, and the switch forgets what is for the peer or from it
};

/// What has befallen one of the two networks, between us (a) and b, until it is mended.
class Trouble {
  public:
    Trouble(Fault fault, int network) : fault_(fault), network_(std::to_string(network)) {}
    ~Trouble() {
        if (there_) mend();
    }
    Trouble(const Trouble&) = delete;
    Trouble& operator=(const Trouble&) = delete;

    void strike() {
        there_ = true;
        switch (fault_) {
            case Fault::our_link_down:
                return ip("a", "link set e" + network_ + " down");
            case Fault::their_link_down:
                return ip("b", "link set e" + network_ + " down");
            case Fault::unplugged:
                return ip("hub", "link set a" + network_ + " down");
            case Fault::black_hole:
                return ip("hub", "link set b" + network_ + " nomaster");
        }
    }
    void mend() {
        there_ = false;
        switch (fault_) {
            case Fault::our_link_down:
                return ip("a", "link set e" + network_ + " up");
            case Fault::their_link_down:
                return ip("b", "link set e" + network_ + " up");
            case Fault::unplugged:
                return ip("hub", "link set a" + network_ + " up");
            case Fault::black_hole:
                return ip("hub", "link set b" + network_ + " master br" + network_);
        }
    }

  private:
    const Fault fault_;
    const std::string network_;
    bool there_ = false;
};

/// Bytes that our device has sent since the system knows it.
inline std::uint64_t bytes_sent(const std::string& device) {
    std::uint64_t bytes = 0;
    std::ifstream("/sys/class/net/" + device + "/statistics/tx_bytes") >> bytes;
    return bytes;
}

}  // namespace railyard::test
