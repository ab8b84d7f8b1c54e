// What initiators need to know of a target, as JSON.
#include "flow/target_info.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "flow/geometry.h"

namespace railyard::flow {
namespace target_info_test {

using Json = nlohmann::json;

TargetInfo sample() {
    TargetInfo info;
    info.connection = {"flow-target-\"1\" \xc3\xbc", UINT64_MAX, "efa-direct", {}};
    for (int i = 0; i < 3; ++i)
        info.connection.rails.push_back(std::string(static_cast<std::size_t>(31 + i), '\xfe') + '\0' +
                                        "rail");
    info.connection.tag = std::string(32, '\x80');
    info.slices = 7;
    for (std::uint64_t i = 0; i < 4; ++i) {
        MemoryInfo region;
        region.nonce = info.connection.nonce;
        region.provider = info.connection.provider;
        region.address = UINT64_MAX - (std::uint64_t{1} << 40) + i * 8192;
        region.length = 8191;
        region.device_id = i == 3 ? UINT64_MAX : i;
        region.needs_flush = i == 1;
        region.token = (std::uint64_t{1} << 53) + 1 + i;
        region.rails = {0, 1, static_cast<std::uint16_t>(2 + 300 * i)};
        region.keys = {{UINT64_MAX, 0}, {0, region.address}, {(std::uint64_t{1} << 63) + i, 0}};
        info.regions.push_back(region);
    }
    info.regions[2].staged = true;
    info.regions[2].rails.clear();
    info.regions[2].keys.clear();
    return info;
}

void expect_same(const TargetInfo& a, const TargetInfo& b) {
    EXPECT_EQ(a.id(), b.id());
    EXPECT_EQ(a.connection.nonce, b.connection.nonce);
    EXPECT_EQ(a.connection.provider, b.connection.provider);
    EXPECT_EQ(a.connection.rails, b.connection.rails);
    EXPECT_EQ(a.connection.tag, b.connection.tag);
    EXPECT_EQ(a.slices, b.slices);
    ASSERT_EQ(a.regions.size(), b.regions.size());
    for (std::size_t i = 0; i < a.regions.size(); ++i) {
        const MemoryInfo &x = a.regions[i], &y = b.regions[i];
        EXPECT_EQ(x.nonce, y.nonce);
        EXPECT_EQ(x.provider, y.provider);
        EXPECT_EQ(x.address, y.address);
        EXPECT_EQ(x.length, y.length);
        EXPECT_EQ(x.device_id, y.device_id);
        EXPECT_EQ(x.writable, y.writable);
        EXPECT_EQ(x.staged, y.staged);
        EXPECT_EQ(x.needs_flush, y.needs_flush);
        EXPECT_EQ(x.token, y.token);
        EXPECT_EQ(x.rails, y.rails);
        ASSERT_EQ(x.keys.size(), y.keys.size());
        for (std::size_t k = 0; k < x.keys.size(); ++k) {
            EXPECT_EQ(x.keys[k].key, y.keys[k].key);
            EXPECT_EQ(x.keys[k].address_base, y.keys[k].address_base);
        }
    }
}

/// What is wrong with the text; nothing where it is taken.
std::optional<std::string> refusal(std::string_view text) {
    try {
        static_cast<void>(target_info_from_json(text));
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::mismatch);
        return error.what();
    }
    return std::nullopt;
}

Json good() {
    return Json::parse(to_json(sample()));
}

void expect_refused(const Json& json, const std::string& because = "") {
    const auto text = refusal(json.dump());
    ASSERT_TRUE(text) << json.dump().substr(0, 2000);
    EXPECT_NE(text->find(because), std::string::npos) << "\"" << *text << "\" does not say: " << because;
}

/// The sample with another value there, as a JSON pointer.
void expect_refused_with(const char* where, const Json& value, const std::string& because = "") {
    Json json = good();
    json[Json::json_pointer(where)] = value;
    SCOPED_TRACE(std::string(where) + " = " + value.dump().substr(0, 100));
    expect_refused(json, because);
}

TEST(TargetInfo, ComesBackAsItWas) {
    const TargetInfo info = sample();
    const TargetInfo read = target_info_from_json(to_json(info));
    expect_same(read, info);
    EXPECT_EQ(to_json(read), to_json(info));
    TargetInfo small = info;
    small.connection.tag.clear();
    small.connection.rails = {""};
    small.regions.resize(1);
    small.slices = 1;
    expect_same(target_info_from_json(to_json(small)), small);
}

TEST(TargetInfo, HoldsNoNumberThatReadersOfJsonRound) {
    const Json region = good()["regions"][0];
    EXPECT_EQ(good()["instance"], "0xffffffffffffffff");
    EXPECT_EQ(region["token"], "0x20000000000001");
    EXPECT_EQ(region["keys"][2]["rkey"], "0x8000000000000000");
    EXPECT_EQ(region["keys"][0]["base"], "0x0");
}

TEST(TargetInfo, ReadsSpacesAndFieldsThatItDoesNotKnow) {
    Json json = good();
    json["of a later release"] = {{"deep", {1, 2, 3}}};
    json["regions"][0]["more"] = nullptr;
    expect_same(target_info_from_json("\n " + json.dump(4) + "\r\n\t"), sample());
    expect_same(target_info_from_json("\xef\xbb\xbf" + to_json(sample())), sample());
}

TEST(TargetInfo, EveryTruncationIsRefused) {
    const std::string text = to_json(sample());
    for (std::size_t size = 0; size < text.size(); ++size)
        EXPECT_TRUE(refusal(text.substr(0, size))) << size;
    for (const char* more : {"}", " x", ",", "{}", "\x01"})
        EXPECT_TRUE(refusal(text + more)) << more;
}

TEST(TargetInfo, IsAnObject) {
    for (const char* text :
         {"", " ", "null", "true", "1", "-1", "1.5", "1e999", "\"text\"", "[]", "{}", "[{}]", "nul",
          "{\"version\"}", "{1:1}", "\"\\ud800\"", "\"\xff\"", "\xff\xfe", "{\"version\":1}"})
        EXPECT_TRUE(refusal(text)) << text;
    EXPECT_TRUE(refusal(std::string_view()));
}

TEST(TargetInfo, OfAnotherVersionIsRefused) {
    expect_refused_with("/version", 2, "version 2");
    expect_refused_with("/version", 0, "version 0");
    expect_refused_with("/version", UINT32_MAX, "version 4294967295");
    for (const Json& no_version : {Json(UINT64_MAX), Json(-1), Json(1.0), Json("1"), Json(true), Json()})
        expect_refused_with("/version", no_version, "\"version\"");
    // Whatever else has changed: the version is what is spoken of.
    const auto text = refusal(R"({"version":2,"regions":"elsewhere"})");
    ASSERT_TRUE(text);
    EXPECT_NE(text->find("version 2"), std::string::npos) << *text;
}

TEST(TargetInfo, FieldsThatAreMissingAreNamed) {
    const auto without = [](const std::string& object, const std::string& field) {
        Json json = good();
        ASSERT_EQ(json[Json::json_pointer(object)].erase(field), 1u) << object << "/" << field;
        expect_refused(json, "\"" + field + "\" is missing");
    };
    for (const char* field :
         {"version", "id", "instance", "provider", "addresses", "tag", "slices", "regions"})
        without("", field);
    for (const char* field : {"addr", "len", "device", "staged", "flush", "token", "keys"}) {
        without("/regions/0", field);
        without("/regions/3", field);
    }
    for (const char* field : {"rail", "rkey", "base"}) {
        without("/regions/0/keys/0", field);
        without("/regions/3/keys/2", field);
    }
}

TEST(TargetInfo, ValuesOfAWrongTypeAreRefused) {
    const Json json = good();
    std::vector<std::string> places{"",           "/addresses",      "/regions",
                                    "/regions/0", "/regions/0/keys", "/regions/0/keys/0"};
    const Json leaves = json.flatten();
    for (const auto& [place, value] : leaves.items()) {
        if (!value.is_null()) places.push_back(place);
    }
    EXPECT_GT(places.size(), 40u);
    const std::vector<Json> others{Json(),
                                   true,
                                   1,
                                   -1,
                                   1.5,
                                   "text",
                                   Json::array(),
                                   Json::object(),
                                   Json::array({1}),
                                   Json::object({{"a", 1}})};
    for (const std::string& place : places) {
        const Json::json_pointer pointer(place);
        for (const Json& other : others) {
            if (other.type() == json[pointer].type() ||
                (other.is_number_integer() && other > 0 && json[pointer].is_number_unsigned()))
                continue;
            expect_refused_with(place.c_str(), other);
        }
    }
}

TEST(TargetInfo, NumbersThatCannotBeAreRefused) {
    for (const char* where :
         {"/version", "/slices", "/regions/1/len", "/regions/1/device", "/regions/1/keys/0/rail"}) {
        const std::string name = std::string(where).substr(std::string(where).rfind('/') + 1);
        for (const Json& number : {Json(-1), Json(INT64_MIN), Json(1e300), Json(0.5)})
            expect_refused_with(where, number, "\"" + name + "\"");
    }
    expect_refused_with("/slices", 0, "0 slices");
    expect_refused_with("/slices", most_slices + 1, "\"slices\"");
    expect_refused_with("/slices", UINT64_MAX, "\"slices\"");
    expect_refused_with("/regions/0/len", (std::uint64_t{1} << 40) + 1, "\"len\"");
    expect_refused_with("/regions/0/len", UINT64_MAX, "\"len\"");
    expect_refused_with("/regions/0/keys/0/rail", 65536, "\"rail\"");
    expect_refused_with("/regions/0/keys/0/rail", 65535);
    expect_refused_with("/regions/0/keys/0/rail", 1);  // which the next key is of
    expect_refused_with("/regions/0/keys/1/base", "0x1000");
    expect_refused_with("/regions/0/addr", "0xffffffffffffffff");
    std::string huge = to_json(sample());
    const std::string device = "\"device\":18446744073709551615";
    ASSERT_NE(huge.find(device), std::string::npos);
    EXPECT_TRUE(refusal(huge.replace(huge.find(device), device.size(), "\"device\":18446744073709551616")));
}

TEST(TargetInfo, CountsThatCannotBeAreRefused) {
    expect_refused_with("/regions", Json::array(), "0 regions");
    expect_refused_with("/addresses", Json::array());
    expect_refused_with("/regions/0/keys", Json::array());                 // it is not staged
    expect_refused_with("/regions/2/keys", good()["regions"][0]["keys"]);  // and this is
    for (const std::size_t count : {std::size_t{1025}, std::size_t{65536}, std::size_t{65537}})
        expect_refused_with("/addresses", std::vector<std::string>(count, "QQ=="));
    Json keys = Json::array();
    for (int rail = 0; rail < 65537; ++rail)
        keys.push_back({{"rail", rail % 65536}, {"rkey", "0x1"}, {"base", "0x0"}});
    expect_refused_with("/regions/0/keys", keys);
    keys.erase(65536);
    expect_refused_with("/regions/0/keys", keys);
    Json json = good();
    json["slices"] = 1;
    json["regions"] = std::vector<Json>(most_grains, json["regions"][0]);
    EXPECT_EQ(refusal(json.dump()), std::nullopt) << "so many there may be";
    json["regions"].push_back(json["regions"][0]);
    expect_refused(json, "16385 regions");
}

TEST(TargetInfo, GrainsHaveToBeCutIntoItsSlices) {
    expect_refused_with("/regions/1/len", 8190, "different lengths");
    expect_refused_with("/regions/3/len", 8192, "different lengths");
    expect_refused_with("/slices", 4000, "4000 slices of 8191 bytes");
    Json many = good();
    many["slices"] = 4096;
    many["regions"] = std::vector<Json>(256, many["regions"][0]);
    EXPECT_EQ(refusal(many.dump()), std::nullopt);
    many["regions"] = std::vector<Json>(512, many["regions"][0]);
    expect_refused(many, "512 grains of 4096 slices");
    Json empty = good();
    for (Json& region : empty["regions"]) {
        region["len"] = 0;
        region["keys"] = Json::array();
    }
    expect_refused(empty, "0 bytes");
}

TEST(TargetInfo, BytesThatAreNoBase64AreRefused) {
    for (const char* bad :
         {"A", "AAA", "AA=A", "====", "QR==", "QQ==\n", "Q Q=", "Zm9_", "\xc3\xbc\xc3\xbc"}) {
        expect_refused_with("/addresses/1", bad, "base64");
        expect_refused_with("/tag", bad, "base64");
    }
    expect_refused_with("/tag", "QQ==");  // a tag has 32 bytes, or none
    expect_refused_with("/tag", std::string(44, 'A'));
    expect_refused_with("/addresses/0", std::string(344, 'A'));  // an address has up to 256
}

TEST(TargetInfo, NumbersThatAreNoHexadecimalOnesAreRefused) {
    const std::string embedded_zero("0x1\0", 4);
    for (const char* where : {"/instance", "/regions/0/addr", "/regions/0/token", "/regions/0/keys/0/rkey",
                              "/regions/0/keys/0/base"}) {
        const std::string name = std::string(where).substr(std::string(where).rfind('/') + 1);
        for (const std::string& bad :
             {std::string(), std::string("0"), std::string("12"), std::string("0x"), std::string("0xg"),
              std::string("0x1g"), std::string("0x1 "), std::string(" 0x1"), std::string("0x-1"),
              std::string("-0x1"), std::string("0x+1"), std::string("0x0x1"), std::string("0x1.8"),
              std::string("0X1"), std::string("0x10000000000000000"), embedded_zero,
              "0x" + std::string(100'000, 'f')})
            expect_refused_with(where, bad, "\"" + name + "\"");
    }
}

TEST(TargetInfo, NamesThatCannotBeAreRefused) {
    expect_refused_with("/id", "");
    expect_refused_with("/id", std::string(1025, 'i'));
    expect_refused_with("/provider", std::string(65, 'p'));
    std::string text = to_json(sample());
    text.insert(text.find("efa-direct"), 1, '\xff');
    EXPECT_TRUE(refusal(text)) << "not UTF-8";
}

TEST(TargetInfo, DepthDoesNotMatter) {
    constexpr std::size_t depth = 100'000;
    const std::string opened(depth, '['), closed(depth, ']');
    std::string objects;
    for (std::size_t i = 0; i < depth; ++i)
        objects += "{\"regions\":";
    const std::string whole_objects = objects + "0" + std::string(depth, '}');
    for (const std::string& text :
         {opened, opened + closed, objects, whole_objects, "{\"version\":" + opened + closed + "}",
          "{\"version\":1,\"id\":" + opened + closed + "}", "{\"version\":" + whole_objects + "}"})
        EXPECT_TRUE(refusal(text)) << text.size();
    // A field that nobody reads may hold what it likes.
    std::string text = to_json(sample());
    text.insert(1, "\"more\":" + opened + closed + ",");
    expect_same(target_info_from_json(text), sample());
}

}  // namespace target_info_test
}  // namespace railyard::flow
