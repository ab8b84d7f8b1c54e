// Two transfers at once over the same rails of one engine. Prints, as JSON, what share of the bytes the
// slower one had moved when the faster was through (1: exactly fair), and the seconds that both took.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <vector>

#include "common/clock.h"
#include "side.h"

namespace railyard {
namespace {

struct Setting {
    std::string provider = "efa-direct";
    unsigned rails = 4;
    std::uint64_t bytes = std::uint64_t{32} << 20;         ///< of each transfer
    std::vector<std::uint64_t> sizes{1u << 20, 1u << 20};  ///< of a descriptor, of each transfer
};

int run(const Setting& setting) {
    const std::uint64_t bytes = setting.bytes * setting.sizes.size();
    bench::Side from("initiator", setting.provider, setting.rails, bytes);
    bench::Side to("target", setting.provider, setting.rails, bytes);
    auto remote = from.meet("target", to);
    std::vector<Transfer*> transfers;
    for (std::size_t i = 0; i < setting.sizes.size(); ++i) {
        transfers.push_back(from.prepare_write("target", to, remote, i * setting.bytes, setting.sizes[i],
                                               setting.bytes / setting.sizes[i]));
    }
    // The second of two rounds counts: by then the peers know each other.
    std::vector<double> ended;
    for (int round = 0; round < 2; ++round) {
        ended.assign(transfers.size(), 0);
        const std::uint64_t start = now_ns();
        for (Transfer* transfer : transfers)
            static_cast<void>(from.engine->post(*transfer));
        for (std::size_t open = transfers.size(); open > 0;) {
            to.engine->progress();
            for (std::size_t i = 0; i < transfers.size(); ++i) {
                if (ended[i] > 0) continue;
                const Status status = from.engine->poll(*transfers[i]);
                if (status == Status::in_progress) continue;
                if (status != Status::ok) throw Error(status, "a transfer failed");
                ended[i] = static_cast<double>(now_ns() - start) / 1e9;
                --open;
            }
        }
    }
    const double first = std::min(ended[0], ended[1]), last = std::max(ended[0], ended[1]);
    // Together they move at a steady rate: at `first` the slower one still had (last - first) at the full
    // rate.
    const double share = 1 - 2 * (last - first) / last;
    std::printf("{\"share\": %.4f, \"seconds\": [%.6f, %.6f]}\n", share, ended[0], ended[1]);
    for (Transfer* transfer : transfers)
        from.engine->release(transfer);
    return 0;
}

}  // namespace
}  // namespace railyard

int main(int count, char** words) {
    railyard::Setting setting;
    CLI::App app{"Two transfers at once over the same rails: do they share fairly?"};
    app.add_option("--provider", setting.provider, "Rails to use")->capture_default_str();
    app.add_option("--rails", setting.rails, "Number of rails")->capture_default_str();
    app.add_option("--bytes", setting.bytes, "Bytes of each transfer")->capture_default_str();
    app.add_option("--sizes", setting.sizes, "Bytes of a descriptor of the first and of the second")
        ->expected(2)
        ->capture_default_str();
    CLI11_PARSE(app, count, words);
    try {
        return railyard::run(setting);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "fair-share: %s\n", error.what());
        return 1;
    }
}
