#include "common/params.h"

#include <gtest/gtest.h>

#include <cstring>
#include <sstream>

#include "common/log.h"
#include "common/status.h"
#include "log_lines.h"

namespace railyard {
namespace {

const char* no_env(const char*) {
    return nullptr;
}

std::string refusal(const ParamMap& given, EnvLookup env = no_env) {
    try {
        Params::parse(given, env);
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::invalid_param);
        return error.what();
    }
    return "accepted";
}

TEST(Params, DefaultsAreAcceptedAsGiven) {
    const Params params = Params::parse(Params::defaults(), no_env);
    EXPECT_EQ(params.provider, "auto");
    EXPECT_EQ(params.rails_per_device, 0u);
    EXPECT_EQ(params.stripe_threshold, 256u << 10);
}

TEST(Params, ValuesAreReadWithTheirUnits) {
    const Params params =
        Params::parse({{"chunk_size", "2M"}, {"rails", "3"}, {"provider", "tcp;ofi_rxm"}}, no_env);
    EXPECT_EQ(params.chunk_size, 2u << 20);
    EXPECT_EQ(params.rails, 3u);
    EXPECT_EQ(params.provider, "tcp;ofi_rxm");
}

TEST(Params, TheEnvironmentWins) {
    auto env = [](const char* name) -> const char* {
        return std::strcmp(name, "RAILYARD_RAILS") ? nullptr : "9";
    };
    EXPECT_EQ(Params::parse({{"rails", "3"}}, env).rails, 9u);
}

/// One text for all settings, so that two sets of them can be compared.
std::string all_of(const Params& params) {
    std::ostringstream text;
#define RAILYARD_PARAM(kind, name, ...) text << #name << '=' << params.name << '\n';
#define RAILYARD_STOCK_PARAM(name, mapping)
#include "common/params.def"
#undef RAILYARD_PARAM
#undef RAILYARD_STOCK_PARAM
    return text.str();
}

/// As `RAILYARD_LOCAL_RAIL: "${LOCAL_RAIL:-}"` in a compose file or a chart has it.
TEST(Params, AnEmptyValueSaysNothing) {
    const std::string defaults = all_of(Params::parse({}, no_env));
    auto all_empty = [](const char*) -> const char* { return ""; };
    EXPECT_EQ(all_of(Params::parse({}, all_empty)), defaults);
    for (const auto& [name, value] : Params::defaults())
        EXPECT_EQ(all_of(Params::parse({{name, ""}}, no_env)), defaults) << name;
}

TEST(Params, AnEmptyVariableLeavesTheParameter) {
    auto all_empty = [](const char*) -> const char* { return ""; };
    const ParamMap given{{"local_rail", "off"}, {"devices", "eth1"}, {"rails", "3"}, {"chunk_size", "2M"}};
    EXPECT_EQ(all_of(Params::parse(given, all_empty)), all_of(Params::parse(given, no_env)));
}

TEST(Params, AListMayHoldARangeOfNumbers) {
    for (const char* good : {"1", "2", "64", "auto", "AUTO", ""})
        EXPECT_EQ(refusal({{"progress_threads", good}}), "accepted") << good;
    for (const char* bad : {"0", "65", "-1", "two", "1..64", "2x", " 2", "99999999999999999999"}) {
        const std::string text = refusal({{"progress_threads", bad}});
        EXPECT_NE(text.find("progress_threads"), std::string::npos) << text;
        EXPECT_NE(text.find(std::string("\"") + bad + "\""), std::string::npos) << text;
        EXPECT_NE(text.find("auto,1..64"), std::string::npos) << text;
    }
}

TEST(Params, RefusalsNameTheParameterTheValueAndWhatIsAllowed) {
    const std::string unknown = refusal({{"rials", "3"}});
    EXPECT_NE(unknown.find("\"rials\""), std::string::npos) << unknown;
    EXPECT_NE(unknown.find("rails_per_device"), std::string::npos) << unknown;
    EXPECT_NE(unknown.find("(did you mean rails?)"), std::string::npos) << unknown;
    EXPECT_EQ(unknown.find("max_bw_per_dram_seg"), unknown.rfind("max_bw_per_dram_seg")) << unknown;
    const std::string range = refusal({{"rails_per_device", "65"}});
    EXPECT_NE(range.find("rails_per_device"), std::string::npos) << range;
    EXPECT_NE(range.find("\"65\""), std::string::npos) << range;
    EXPECT_NE(range.find("0..64"), std::string::npos) << range;
    for (const char* bad : {"x", "-1", "3x", "99999999999999999999", "1 "}) {
        EXPECT_NE(refusal({{"rails", bad}}), "accepted") << bad;
    }
    EXPECT_NE(refusal({{"chunk_size", "99999999999999999G"}}), "accepted");
    EXPECT_NE(refusal({{"log_level", "loud"}}).find("trace,debug"), std::string::npos);
    auto env = [](const char* name) -> const char* {
        return std::strcmp(name, "RAILYARD_RAILS") ? nullptr : "many";
    };
    EXPECT_NE(refusal({}, env).find("RAILYARD_RAILS"), std::string::npos);
}

TEST(Params, OptionsOfToolsTakeWhatTheSettingDoes) {
    for (const char* good : {"0", "400", "1000000"})
        EXPECT_EQ(param_refusal("max_bw_per_dram_seg", good), "") << good;
    for (const std::string bad : {"", "inf", "nan", "-1", "0.5", "1000001"}) {
        EXPECT_EQ(param_refusal("max_bw_per_dram_seg", bad),
                  "bad value \"" + bad + "\"; allowed: 0..1000000");
    }
}

/// As a stranger who has recorded one signed message can try out short ones, without anybody's noticing.
TEST(Params, ASecretThatIsSoonGuessedIsRefusedWithoutBeingRepeated) {
    EXPECT_EQ(refusal({{"cluster_secret", ""}}), "accepted");
    EXPECT_EQ(Params::parse({{"cluster_secret", "sixteen letters!"}}, no_env).cluster_secret,
              "sixteen letters!");
    for (const std::string bad : {"q", "fifteen letters"}) {
        const std::string text = refusal({{"cluster_secret", bad}});
        EXPECT_NE(text.find("parameter cluster_secret: "), std::string::npos) << text;
        EXPECT_NE(text.find("a secret of " + std::to_string(bad.size()) + " character"), std::string::npos)
            << text;
        EXPECT_NE(text.find("16 characters or more"), std::string::npos) << text;
        EXPECT_NE(text.find("openssl rand"), std::string::npos) << text;
        EXPECT_EQ(text.find('"'), std::string::npos) << text;
        EXPECT_EQ(text.find("fifteen"), std::string::npos) << text;
    }
    auto env = [](const char* name) -> const char* {
        return std::strcmp(name, "RAILYARD_CLUSTER_SECRET") ? nullptr : "short";
    };
    EXPECT_NE(refusal({}, env).find("RAILYARD_CLUSTER_SECRET: "), std::string::npos);
}

TEST(Params, StockNamesAreTakenOver) {
    EXPECT_EQ(Params::parse({{"striping_threshold", "131072"}}, no_env).stripe_threshold, 131072u);
    EXPECT_EQ(Params::parse({{"striping_threshold", "131072"}, {"stripe_threshold", "1K"}}, no_env)
                  .stripe_threshold,
              1024u);
    auto env = [](const char* name) -> const char* {
        return std::strcmp(name, "NIXL_LIBFABRIC_STRIPING_THRESHOLD") ? nullptr : "4096";
    };
    EXPECT_EQ(Params::parse({}, env).stripe_threshold, 4096u);
}

/// Hosts hand back all that get_plugin_params gave them, with what their user changed in it.
TEST(Params, StockNamesAreTakenOverBesideOurOwnDefaults) {
    ParamMap given = Params::defaults();
    EXPECT_EQ(Params::parse(given, no_env).stripe_threshold, 262144u);
    given["striping_threshold"] = "1M";
    EXPECT_EQ(Params::parse(given, no_env).stripe_threshold, 1u << 20);
    given["stripe_threshold"] = "1K";
    EXPECT_EQ(Params::parse(given, no_env).stripe_threshold, 1024u);
    given["stripe_threshold"] = "many";
    EXPECT_THROW(Params::parse(given, no_env), Error);
}

TEST(Params, NetworkDevicesIsAnotherNameOfDevices) {
    EXPECT_EQ(Params::parse({{"network_devices", "a,b"}}, no_env).devices, "a,b");
    EXPECT_EQ(Params::parse({{"network_devices", "a"}, {"devices", "a"}}, no_env).devices, "a");
    const std::string differ = refusal({{"network_devices", "a"}, {"devices", "b"}});
    EXPECT_NE(differ.find("network_devices \"a\""), std::string::npos) << differ;
    auto other_name = [](const char* name) -> const char* {
        return std::strcmp(name, "RAILYARD_NETWORK_DEVICES") ? nullptr : "c";
    };
    EXPECT_EQ(Params::parse({{"network_devices", "a"}}, other_name).devices, "c");
    EXPECT_EQ(Params::parse({{"devices", "a"}}, other_name).devices, "c");
    auto own_name = [](const char* name) -> const char* {
        return std::strcmp(name, "RAILYARD_DEVICES") ? nullptr : "c";
    };
    EXPECT_EQ(Params::parse({{"network_devices", "a"}}, own_name).devices, "c");
    auto both_names = [](const char* name) -> const char* {
        if (std::strcmp(name, "RAILYARD_DEVICES") == 0) return "c";
        return std::strcmp(name, "RAILYARD_NETWORK_DEVICES") ? nullptr : "d";
    };
    EXPECT_NE(refusal({}, both_names), "accepted");
}

TEST(Params, StreamWaitNamesAnOperation) {
    EXPECT_EQ(Params::parse({}, no_env).stream_wait, "read");
    EXPECT_EQ(Params::parse({{"stream_wait", "Both"}}, no_env).stream_wait, "both");
    EXPECT_NE(refusal({{"stream_wait", "sometimes"}}).find("read,write,both,none"), std::string::npos);
}

TEST(Params, AStockNameWithoutMeaningIsSaidOnce) {
    const test::LogLines log;
    Params::parse({{"post_queue_size", "7"}}, no_env);
    Params::parse({{"post_queue_size", "8"}}, no_env);
    EXPECT_EQ(log.count(), 1);
}

TEST(Params, TheDocumentationListsEveryName) {
    const std::string page = params_as_markdown();
    for (const auto& [name, value] : Params::defaults())
        EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name;
    EXPECT_NE(page.find("`RAILYARD_CHUNK_SIZE`"), std::string::npos);
    EXPECT_NE(page.find("`NIXL_LIBFABRIC_NUM_THREADS`"), std::string::npos);
}

TEST(Params, TheLogLevelComesFromTheParameterThenTheHost) {
    auto host = [](const char* name) -> const char* {
        return std::strcmp(name, "NIXL_LOG_LEVEL") ? nullptr : "INFO";
    };
    apply_log_level(Params::parse({}, no_env), host);
    EXPECT_TRUE(log::enabled(log::Level::info));
    apply_log_level(Params::parse({{"log_level", "ERROR"}}, no_env), host);
    EXPECT_FALSE(log::enabled(log::Level::warn));
    apply_log_level(Params::parse({}, no_env), no_env);
    EXPECT_TRUE(log::enabled(log::Level::warn));
}

TEST(Params, NixlsLevelsAreAllKnown) {
    struct Row {
        const char* said;
        log::Level least;  ///< that is written
    };
    static const char* said = nullptr;
    auto host = [](const char* name) -> const char* {
        return std::strcmp(name, "NIXL_LOG_LEVEL") ? nullptr : said;
    };
    for (const Row row :
         {Row{"TRACE", log::Level::trace}, Row{"debug", log::Level::debug}, Row{"Info", log::Level::info},
          Row{"WARN", log::Level::warn}, Row{"ERROR", log::Level::error}, Row{"FATAL", log::Level::off},
          Row{"fatal", log::Level::off}, Row{"loud", log::Level::warn}}) {
        said = row.said;
        apply_log_level(Params::parse({}, no_env), host);
        for (const log::Level level :
             {log::Level::trace, log::Level::debug, log::Level::info, log::Level::warn, log::Level::error})
            EXPECT_EQ(log::enabled(level), level >= row.least) << row.said << " " << static_cast<int>(level);
    }
    apply_log_level(Params::parse({}, no_env), no_env);
}

}  // namespace
}  // namespace railyard
