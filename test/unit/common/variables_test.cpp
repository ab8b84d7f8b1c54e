#include "common/variables.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "common/params.h"
#include "log_lines.h"

namespace railyard {
namespace {

TEST(Variables, AMisspeltOneIsSaidOnceWithWhatWasMeant) {
    const test::LogLines lines;
    const char* const environment[] = {"HOME=/", "RAILYARD_PROVDER=efa", "RAILYARD_RAILSS=3",
                                       "RAILYARD_COLOUR=red", nullptr};
    for (int i = 0; i < 2; ++i)
        warn_of_unknown_variables(environment);
    EXPECT_EQ(lines.count("RAILYARD_PROVDER, which nothing reads (did you mean RAILYARD_PROVIDER?)"), 1);
    EXPECT_EQ(lines.count("RAILYARD_RAILSS, which nothing reads (did you mean RAILYARD_RAILS?)"), 1);
    EXPECT_EQ(lines.count("RAILYARD_COLOUR, which nothing reads"), 1);
    EXPECT_EQ(lines.count(), 3);
}

TEST(Variables, ThoseThatSomethingReadsAreNotSaid) {
    const test::LogLines lines;
    for (const ParamDoc& doc : param_docs()) {
        const std::string entry = doc.env + "=1";
        const char* const environment[] = {entry.c_str(), nullptr};
        warn_of_unknown_variables(environment);
    }
    // The last three are Kubernetes', of services called railyard and railyard-metrics.
    const char* const environment[] = {"RAILYARD_PLUGIN_DIR=/",
                                       "RAILYARD_CACHE=/",
                                       "RAILYARD_TEST_ANYTHING=1",
                                       "NIXL_LOG_LEVEL=info",
                                       "RAILYARD_SERVICE_HOST=10.0.0.1",
                                       "RAILYARD_PORT=tcp://10.0.0.1:80",
                                       "RAILYARD_METRICS_SERVICE_PORT_HTTP=80",
                                       nullptr};
    warn_of_unknown_variables(environment);
    EXPECT_EQ(lines.count(), 0) << lines.all().front();
}

TEST(Variables, NamesThoseOfAListThatAreSet) {
    setenv("RAILYARD_TEST_SET", "a,b", 1);
    EXPECT_EQ(in_environment({"RAILYARD_TEST_UNSET", "RAILYARD_TEST_SET"}),
              "; in the environment RAILYARD_TEST_SET is \"a,b\"");
    EXPECT_EQ(in_environment({"RAILYARD_TEST_UNSET"}), "");
    unsetenv("RAILYARD_TEST_SET");
}

}  // namespace
}  // namespace railyard
