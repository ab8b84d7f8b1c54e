#include "flow/target_info.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "common/base64.h"
#include "common/status.h"
#include "flow/geometry.h"

namespace railyard::flow {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse_info(const std::string& text) {
    throw Error(Status::mismatch, "target info: " + text);
}

/// JSON numbers are no place for 64 bits.
std::string hex(std::uint64_t value) {
    char text[20] = "0x";
    return {text, std::to_chars(text + 2, text + sizeof(text), value, 16).ptr};
}

const Json& member(const Json& object, const char* name) {
    if (!object.is_object()) refuse_info("an object was expected around \"" + std::string(name) + "\"");
    const auto found = object.find(name);
    if (found == object.end()) refuse_info("\"" + std::string(name) + "\" is missing");
    return *found;
}

std::uint64_t number(const Json& object, const char* name, std::uint64_t most) {
    const Json& value = member(object, name);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
        refuse_info("\"" + std::string(name) + "\" is not a number up to " + std::to_string(most));
    return value.get<std::uint64_t>();
}

const std::string& text(const Json& object, const char* name) {
    const Json& value = member(object, name);
    if (!value.is_string()) refuse_info("\"" + std::string(name) + "\" is no text");
    return value.get_ref<const std::string&>();
}

std::uint64_t from_hex(const std::string& digits, const char* name) {
    std::uint64_t value = 0;
    const char* const end = digits.data() + digits.size();
    if (digits.size() > 2 && digits.starts_with("0x")) {
        const auto [stopped, error] = std::from_chars(digits.data() + 2, end, value, 16);
        if (error == std::errc() && stopped == end) return value;
    }
    refuse_info("\"" + std::string(name) + "\" is no hexadecimal number: " + digits.substr(0, 40));
}

const Json& list(const Json& object, const char* name) {
    const Json& value = member(object, name);
    if (!value.is_array()) refuse_info("\"" + std::string(name) + "\" is no list");
    return value;
}

bool flag(const Json& object, const char* name) {
    const Json& value = member(object, name);
    if (!value.is_boolean()) refuse_info("\"" + std::string(name) + "\" is neither true nor false");
    return value.get<bool>();
}

Json region_to_json(const MemoryInfo& info) {
    Json keys = Json::array();
    for (std::size_t i = 0; i < info.keys.size(); ++i) {
        keys.push_back({{"rail", info.rails[i]},
                        {"rkey", hex(info.keys[i].key)},
                        {"base", hex(info.keys[i].address_base)}});
    }
    return {{"addr", hex(info.address)}, {"len", info.length},        {"device", info.device_id},
            {"staged", info.staged},     {"flush", info.needs_flush}, {"token", hex(info.token)},
            {"keys", std::move(keys)}};
}

MemoryInfo region_from_json(const Json& json, const ConnectionInfo& owner) {
    MemoryInfo info;
    info.nonce = owner.nonce;
    info.provider = owner.provider;
    info.address = from_hex(text(json, "addr"), "addr");
    info.length = number(json, "len", std::uint64_t{1} << 40);
    info.device_id = number(json, "device", UINT64_MAX);
    info.staged = flag(json, "staged");
    info.needs_flush = flag(json, "flush");
    info.token = from_hex(text(json, "token"), "token");
    for (const Json& key : list(json, "keys")) {
        info.rails.push_back(static_cast<std::uint16_t>(number(key, "rail", UINT16_MAX)));
        info.keys.push_back({from_hex(text(key, "rkey"), "rkey"), from_hex(text(key, "base"), "base")});
    }
    return decode_memory(encode(info));  // which is where such things are checked
}

TargetInfo from_parsed(const Json& json) {
    const std::uint64_t version = number(json, "version", UINT32_MAX);
    if (version != target_info_version) {
        refuse_info("version " + std::to_string(version) + "; this library reads version " +
                    std::to_string(target_info_version) +
                    (version > target_info_version ? ": use a newer one" : ": make it with a newer one"));
    }
    TargetInfo info;
    info.connection.agent = text(json, "id");
    info.connection.nonce = from_hex(text(json, "instance"), "instance");
    info.connection.provider = text(json, "provider");
    for (const Json& address : list(json, "addresses")) {
        if (!address.is_string()) refuse_info("an address is no text");
        info.connection.rails.push_back(base64_decode(address.get_ref<const std::string&>()));
    }
    info.connection.tag = base64_decode(text(json, "tag"));
    info.connection = decode_connection(encode(info.connection));
    info.slices = static_cast<std::uint32_t>(number(json, "slices", most_slices));
    const Json& regions = list(json, "regions");
    if (regions.empty() || regions.size() > most_grains)
        refuse_info(std::to_string(regions.size()) + " regions: there are 1 to " +
                    std::to_string(most_grains));
    info.regions.reserve(regions.size());
    for (const Json& region : regions) {
        info.regions.push_back(region_from_json(region, info.connection));
        if (info.regions.back().length != info.regions.front().length)
            refuse_info("regions of different lengths");
    }
    const auto grains = static_cast<std::uint32_t>(regions.size());
    static_cast<void>(
        GrainGeometry(grains, info.regions.front().length, info.slices, info.regions.front().length));
    return info;
}

}  // namespace

std::string to_json(const TargetInfo& info) {
    Json addresses = Json::array(), regions = Json::array();
    for (const std::string& address : info.connection.rails)
        addresses.push_back(base64_encode(address));
    for (const MemoryInfo& region : info.regions)
        regions.push_back(region_to_json(region));
    const Json json = {{"version", target_info_version},
                       {"id", info.connection.agent},
                       {"instance", hex(info.connection.nonce)},
                       {"provider", info.connection.provider},
                       {"addresses", std::move(addresses)},
                       {"tag", base64_encode(info.connection.tag)},
                       {"slices", info.slices},
                       {"regions", std::move(regions)}};
    return json.dump();
}

TargetInfo target_info_from_json(std::string_view text) {
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) refuse_info("not JSON, or cut off");
    try {
        return from_parsed(json);
    } catch (const Error& error) {
        throw Error(Status::mismatch, error.what());
    }
}

}  // namespace railyard::flow
