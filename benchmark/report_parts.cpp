#include "report_parts.h"

#include <cerrno>
#include <cstring>

#include "failure.h"
#include "watchdog.h"

namespace railyard::bench {

std::string short_count(double value) {
    const char* suffix = "";
    for (const char* next : {"k", "m", "g", "t"}) {
        if (value < 9999.5) break;
        value /= 1000;
        suffix = next;
    }
    char text[32];
    std::snprintf(text, sizeof(text), value < 99.95 && *suffix != '\0' ? "%.1f%s" : "%.0f%s", value, suffix);
    return text;
}

double us(const Histogram& histogram, double fraction) {
    return histogram.percentile(fraction) / 1000;
}

void add_latency(nlohmann::json& json, const std::string& prefix, const Histogram& histogram) {
    json[prefix + "p50_us"] = us(histogram, 0.50);
    json[prefix + "p99_us"] = us(histogram, 0.99);
    json[prefix + "p999_us"] = us(histogram, 0.999);
}

JsonFile::JsonFile(const std::string& name) : name_(name) {
    if (name.empty()) return;
    file_ = name == "-" ? stdout : std::fopen(name.c_str(), "w");
    if (file_ == nullptr) throw Failure("cannot write --json " + name + ": " + std::strerror(errno));
}

JsonFile::~JsonFile() {
    if (file_ != nullptr) set_last_document(-1, "");
    if (file_ != nullptr && file_ != stdout) std::fclose(file_);
}

void JsonFile::keep(const nlohmann::json& document) {
    if (file_ == nullptr) return;
    std::string text = document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    text.pop_back();  // the object's end
    set_last_document(fileno(file_), std::move(text));
}

void JsonFile::write(const nlohmann::json& document) {
    if (file_ == nullptr) return;
    std::string text = document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    set_last_document(-1, "");
    if (std::fputs(text.c_str(), file_) < 0 || std::fflush(file_) != 0)
        throw Failure("cannot write --json " + name_ + ": " + std::strerror(errno));
}

}  // namespace railyard::bench
