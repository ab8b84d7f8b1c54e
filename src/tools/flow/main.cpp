// railyard-flow: sends a ring of grains over the flow API, and checks and times every one.
#include <cstdio>
#include <exception>

#include "tools/flow/failure.h"
#include "tools/flow/options.h"
#include "tools/flow/receiver.h"
#include "tools/flow/sender.h"
#include "tools/flow/stop_flag.h"

int main(int argc, char** argv) {
    using namespace railyard::tools::flow;
    const ParsedOptions parsed = parse_options(argc, argv);
    if (!parsed.options) {
        std::fputs(parsed.text.c_str(), parsed.exit_status == 0 ? stdout : stderr);
        return parsed.exit_status;
    }
    try {
        catch_stop_signals();
        return parsed.options->role == Role::target ? run_target(*parsed.options)
                                                    : run_initiator(*parsed.options);
    } catch (const UsageError& error) {
        std::fprintf(stderr, "railyard-flow: %s\n", error.what());
        return 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "railyard-flow: %s\n", error.what());
        return 1;
    }
}
