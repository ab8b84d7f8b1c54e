// railyard-flow: sends a ring of grains over the flow API, and checks and times every one.
#include <cstdio>
#include <exception>

#include "common/output.h"
#include "tools/flow/failure.h"
#include "tools/flow/options.h"
#include "tools/flow/receiver.h"
#include "tools/flow/sender.h"
#include "tools/flow/stop_flag.h"

int main(int argc, char** argv) {
    using namespace railyard::tools::flow;
    constexpr const char* name = "railyard-flow";
    railyard::guard_standard_files();
    const ParsedOptions parsed = parse_options(argc, argv);
    if (!parsed.options) {
        std::fputs(parsed.text.c_str(), parsed.exit_status == 0 ? stdout : stderr);
        return railyard::with_output_written(name, parsed.exit_status);
    }
    try {
        catch_stop_signals();
        const bool receives = parsed.options->role == Role::target;
        return railyard::with_output_written(
            name, receives ? run_target(*parsed.options) : run_initiator(*parsed.options));
    } catch (const UsageError& error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
        return 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
        return 1;
    }
}
