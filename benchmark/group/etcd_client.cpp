#include "group/etcd_client.h"

#include <curl/curl.h>

#include <charconv>
#include <cstdlib>

#include "common/base64.h"
#include "common/status.h"
#include "failure.h"
#include "host_port.h"

namespace railyard::bench {

namespace {

using Json = nlohmann::json;

constexpr std::size_t most_answer = std::size_t{256} << 20;

/// The first key behind all that begin with `prefix`.
std::string end_of(std::string prefix) {
    ++prefix.back();  // a slash or a letter, never the last byte there is
    return prefix;
}

Json range_of(const std::string& prefix, bool count_only) {
    Json range = {{"key", base64_encode(prefix)}, {"range_end", base64_encode(end_of(prefix))}};
    if (count_only) range["count_only"] = true;
    return range;
}

Json put_of(const EtcdEntry& entry, const std::string& lease) {
    Json put = {{"key", base64_encode(entry.key)}, {"value", base64_encode(entry.value)}};
    if (!lease.empty()) put["lease"] = lease;
    return put;
}

/// The gateway writes 64-bit numbers as text and leaves out what is zero, empty or false.
std::int64_t number(const Json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end()) return 0;
    if (found->is_number()) return found->get<std::int64_t>();
    const auto& text = found->get_ref<const std::string&>();
    std::int64_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{})
        throw Error(Status::mismatch, "\"" + text + "\" is no number");
    return value;
}

EtcdRange range_in(const Json& answer) {
    EtcdRange range;
    range.count = static_cast<std::uint64_t>(number(answer, "count"));
    for (const Json& kv : answer.value("kvs", Json::array()))
        range.entries.push_back({base64_decode(kv.value("key", "")), base64_decode(kv.value("value", ""))});
    return range;
}

std::size_t append(char* data, std::size_t size, std::size_t count, void* to) {
    auto& text = *static_cast<std::string*>(to);
    if (text.size() + size * count > most_answer) return 0;
    text.append(data, size * count);
    return size * count;
}

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

/// As etcdctl takes it: "NAME:PASSWORD", or the password apart.
std::string user_of_environment() {
    const std::string user = environment("ETCDCTL_USER");
    if (user.empty() || user.find(':') != std::string::npos) return user;
    return user + ":" + environment("ETCDCTL_PASSWORD");
}

/// What etcd itself says is JSON, and what its gateway says may be a line of text; other servers have pages.
std::string error_in(const Json& answer, const std::string& text) {
    constexpr std::size_t longest_line = 200;
    if (answer.is_object()) return answer.value("error", answer.value("message", ""));
    const std::string line = text.substr(0, text.find('\n'));
    return line.size() > longest_line || line.starts_with('<') ? "" : line;
}

std::string with_remedy(std::string why) {
    constexpr const char* user = "ETCDCTL_USER=NAME:PASSWORD says who you are";
    constexpr std::pair<const char*, const char*> remedies[] = {
        {"HTTP request to an HTTPS server", "it speaks TLS, so say etcds:// in --rendezvous"},
        {"permission denied", "let its user read and write what begins with railyard-bench/"},
        {"database space exceeded", "compact and defragment it, then `etcdctl alarm disarm`"},
        {"no leader", "see with `etcdctl endpoint status --cluster` that most of its members run"},
        {"request timed out", "see with `etcdctl endpoint status --cluster` that most of its members run"},
        {"request is too large", "start it with a larger --max-request-bytes"}};
    for (const auto& [what, remedy] : remedies)
        if (why.find(what) != std::string::npos) return why + "; " + remedy;
    if (why.find("user name is empty") != std::string::npos) return why + ": with etcds://, " + user;
    if (why.find("CommonName") != std::string::npos) {
        return why +
               ": where etcd has users, its gateway takes no certificate with a common name. Name one "
               "without a common name in ETCDCTL_CERT; " +
               user;
    }
    return why;
}

/// What to do when there is no answer.
std::string remedy_for(CURLcode code, bool secure) {
    switch (code) {
        case CURLE_COULDNT_RESOLVE_HOST:
            return "no host is called so; --rendezvous names it";
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
            return "ETCDCTL_CACERT names the file with the certificate of its authority";
        case CURLE_SSL_CERTPROBLEM:
            return "ETCDCTL_CERT and ETCDCTL_KEY name the files with the client's certificate and key";
        case CURLE_SSL_CONNECT_ERROR:
            return "where it does not speak TLS, say etcd:// in --rendezvous";
        case CURLE_GOT_NOTHING:
            if (!secure) return "where it speaks TLS, say etcds:// in --rendezvous";
            break;
        case CURLE_RECV_ERROR:  // how a refused certificate of the client looks
            if (secure) return "ETCDCTL_CERT and ETCDCTL_KEY name the certificate that it may ask for";
            break;
        default:
            break;
    }
    return "see that it runs there, as --rendezvous says";
}

/// From 500 on it is not the request that is wrong: there is no leader just now, say.
[[noreturn]] void refuse(long status, const std::string& text) {
    if (status >= 500) throw EtcdSilent(text);
    throw Failure(text);
}

void start_curl() {
    static const CURLcode once = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (once != CURLE_OK) throw Failure(std::string("libcurl does not start: ") + curl_easy_strerror(once));
}

}  // namespace

struct EtcdClient::Connection {
    Connection() : curl(curl_easy_init()) {
        if (curl == nullptr) throw Failure("libcurl has no memory");
        take_token("");
    }
    ~Connection() {
        curl_easy_cleanup(curl);
        curl_slist_free_all(headers);
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    [[nodiscard]] bool has_token() const noexcept { return token; }
    /// What each request is to carry from now on; empty: none.
    void take_token(const std::string& text) {
        curl_slist_free_all(headers);
        headers = curl_slist_append(nullptr, "Content-Type: application/json");
        headers = curl_slist_append(headers, "Expect:");  // no round trip before a large body
        token = !text.empty();
        if (token) headers = curl_slist_append(headers, ("Authorization: " + text).c_str());
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    }

    CURL* curl;
    curl_slist* headers = nullptr;
    bool token = false;
    char error[CURL_ERROR_SIZE] = "";
};

EtcdClient::EtcdClient(const RendezvousAddress& server, std::chrono::milliseconds limit)
    : base_((server.secure ? "https://" : "http://") + join_host_port(server.host, server.port)),
      user_(server.secure ? user_of_environment() : ""),
      limit_(limit) {
    start_curl();
    connection_ = std::make_unique<Connection>();
    CURL* curl = connection_->curl;
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, connection_->error);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);  // SIGALRM is the watchdog's
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");  // proxies of the environment lead out of a cluster
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, server.secure ? "https" : "http");
    if (!server.secure) return;
    for (const auto& [option, name] :
         {std::pair{CURLOPT_CAINFO, "ETCDCTL_CACERT"}, std::pair{CURLOPT_SSLCERT, "ETCDCTL_CERT"},
          std::pair{CURLOPT_SSLKEY, "ETCDCTL_KEY"}}) {
        if (const std::string file = environment(name); !file.empty())
            curl_easy_setopt(curl, option, file.c_str());
    }
}

EtcdClient::~EtcdClient() = default;

void EtcdClient::log_in() {
    const std::size_t colon = user_.find(':');
    connection_->take_token("");
    const Answer answer =
        ask("auth/authenticate", {{"name", user_.substr(0, colon)}, {"password", user_.substr(colon + 1)}});
    if (answer.status != 200 || !answer.json.contains("token")) {
        refuse(answer.status, "the etcd server at " + base_ +
                                  " does not let in the user of ETCDCTL_USER: HTTP status " +
                                  std::to_string(answer.status) + ": " + answer.why);
    }
    connection_->take_token(answer.json.at("token").get<std::string>());
}

Json EtcdClient::call(const char* method, const Json& request) {
    constexpr long unauthenticated = 401;  // also of a token that has become too old
    if (!user_.empty() && !connection_->has_token()) log_in();
    Answer answer = ask(method, request);
    if (answer.status == unauthenticated && !user_.empty()) {
        log_in();
        answer = ask(method, request);
    }
    if (answer.status == 200 && answer.json.is_object()) return answer.json;
    refuse(answer.status, "the etcd server at " + base_ + " refuses " + method + " with HTTP status " +
                              std::to_string(answer.status) +
                              (answer.why.empty() ? "; is it an etcd of 3.4 or later?" : ": " + answer.why));
}

EtcdClient::Answer EtcdClient::ask(const char* method, const Json& request) {
    const std::string url = base_ + "/v3/" + method;
    const std::string body = request.dump();
    std::string text;
    CURL* curl = connection_->curl;
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &text);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(limit_.count()));
    connection_->error[0] = '\0';
    const CURLcode code = curl_easy_perform(curl);
    if (code != CURLE_OK) {
        const std::string why = connection_->error[0] != '\0' ? connection_->error : curl_easy_strerror(code);
        throw EtcdSilent("the etcd server at " + base_ + " does not answer: " + why + "; " +
                         remedy_for(code, base_.starts_with("https")));
    }
    Answer answer;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
    answer.json = Json::parse(text, nullptr, false);
    answer.why = with_remedy(error_in(answer.json, text));
    return answer;
}

template <class Take>
auto EtcdClient::read(const char* method, const Json& request, Take take) {
    const Json answer = call(method, request);
    try {
        if (!answer.contains("header") && !answer.contains("result"))
            throw Error(Status::mismatch, "etcd says in each answer which cluster it is");
        return take(answer);
    } catch (const Json::exception&) {
    } catch (const Error&) {
    }
    throw Failure("the server at " + base_ + " answers " + method +
                  " as no etcd does: see that --rendezvous names an etcd of 3.4 or later, and its port for "
                  "clients");
}

EtcdClient::Lease EtcdClient::grant(std::chrono::seconds ttl) {
    return read("lease/grant", {{"TTL", ttl.count()}, {"ID", 0}}, [](const Json& answer) {
        return Lease{answer.at("ID").get<std::string>(), std::chrono::seconds(number(answer, "TTL"))};
    });
}

bool EtcdClient::keep_alive(const std::string& lease) {
    return read("lease/keepalive", {{"ID", lease}},
                [](const Json& answer) { return number(answer.value("result", Json::object()), "TTL") > 0; });
}

void EtcdClient::revoke(const std::string& lease) {
    static_cast<void>(call("lease/revoke", {{"ID", lease}}));
}

void EtcdClient::put(const EtcdEntry& entry, const std::string& lease, const std::string& obsolete) {
    Json operations = {{{"request_put", put_of(entry, lease)}}};
    if (!obsolete.empty())
        operations.push_back({{"request_delete_range", {{"key", base64_encode(obsolete)}}}});
    static_cast<void>(call("kv/txn", {{"success", operations}}));
}

bool EtcdClient::create(const std::vector<EtcdEntry>& entries, const std::string& lease) {
    Json puts = Json::array();
    for (const EtcdEntry& entry : entries)
        puts.push_back({{"request_put", put_of(entry, lease)}});
    const Json missing = {{"key", base64_encode(entries.front().key)},
                          {"target", "CREATE"},
                          {"result", "EQUAL"},
                          {"create_revision", "0"}};
    return read("kv/txn", {{"compare", {missing}}, {"success", puts}},
                [](const Json& answer) { return answer.value("succeeded", false); });
}

std::vector<EtcdRange> EtcdClient::ranges(const std::vector<std::string>& prefixes, std::size_t counted) {
    Json asks = Json::array();
    for (std::size_t i = 0; i < prefixes.size(); ++i)
        asks.push_back({{"request_range", range_of(prefixes[i], i < counted)}});
    return read("kv/txn", {{"success", asks}}, [&](const Json& answer) {
        std::vector<EtcdRange> found;
        for (const Json& one : answer.at("responses"))
            found.push_back(range_in(one.at("response_range")));
        if (found.size() != prefixes.size()) throw Error(Status::mismatch, "another number of ranges");
        return found;
    });
}

std::optional<std::string> EtcdClient::get(const std::string& key) {
    const EtcdRange found = read("kv/range", {{"key", base64_encode(key)}}, range_in);
    if (found.entries.empty()) return std::nullopt;
    return found.entries.front().value;
}

void EtcdClient::remove_all(const std::string& prefix) {
    static_cast<void>(call("kv/deleterange", range_of(prefix, false)));
}

void EtcdClient::remove(const std::string& key) {
    static_cast<void>(call("kv/deleterange", {{"key", base64_encode(key)}}));
}

void EtcdClient::remove_if(const EtcdEntry& entry) {
    const Json same = {{"key", base64_encode(entry.key)},
                       {"target", "VALUE"},
                       {"result", "EQUAL"},
                       {"value", base64_encode(entry.value)}};
    const Json removal = {{"request_delete_range", {{"key", base64_encode(entry.key)}}}};
    static_cast<void>(call("kv/txn", {{"compare", {same}}, {"success", {removal}}}));
}

}  // namespace railyard::bench
