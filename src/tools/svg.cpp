#include "tools/svg.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace railyard::tools {
namespace {

std::string decimal(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.4g", value);
    return text.data();
}

std::string attribute(const char* name, double value) {
    return std::string(" ") + name + "=\"" + decimal(value) + "\"";
}

/// Bytes of the UTF-8 character that the text begins with; 0 where it is none. Names come from the kernel,
/// which knows no encoding, and a document with a wrong byte is not shown at all.
std::size_t character_length(std::string_view text) {
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xc2 ? 0
                               : first < 0xe0 ? 2
                               : first < 0xf0 ? 3
                               : first < 0xf5 ? 4
                                              : 0;
    if (length > text.size()) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
    }
    return length;
}

}  // namespace

std::string escape_xml(std::string_view text) {
    std::string result;
    while (!text.empty()) {
        const std::size_t length = character_length(text);
        const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
        text.remove_prefix(character.size());
        if (length == 0) {
            result += '?';
        } else if (character == "&") {
            result += "&amp;";
        } else if (character == "<") {
            result += "&lt;";
        } else if (character == ">") {
            result += "&gt;";
        } else if (character == "\"") {
            result += "&quot;";
        } else if (static_cast<unsigned char>(character[0]) < 0x20) {
            result += ' ';
        } else {
            result += character;
        }
    }
    return result;
}

void Svg::rect(const Rect& box, double radius, std::string_view attributes, std::string_view tooltip) {
    body_ += "<rect" + attribute("x", box.x) + attribute("y", box.y) + attribute("width", box.width) +
             attribute("height", box.height) + attribute("rx", radius) + " " + std::string(attributes);
    body_ += tooltip.empty() ? "/>\n" : "><title>" + escape_xml(tooltip) + "</title></rect>\n";
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view attributes) {
    body_ += "<line" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) + attribute("y2", y2) +
             " " + std::string(attributes) + "/>\n";
}

void Svg::text(double x, double y, std::string_view words, const TextStyle& style) {
    body_ += "<text" + attribute("x", x) + attribute("y", y) + attribute("font-size", style.size) +
             " fill=\"" + style.fill + "\" text-anchor=\"" + style.anchor + "\"" +
             (style.bold ? " font-weight=\"600\"" : "") + " pointer-events=\"none\">" + escape_xml(words) +
             "</text>\n";
}

std::string Svg::document(double width, double height, std::string_view title) const {
    const std::string name = escape_xml(title);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"" + name +
           "\" viewBox=\"0 0 " + decimal(width) + " " + decimal(height) + "\"" + attribute("width", width) +
           attribute("height", height) +
           " font-family=\"Inter, 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', "
           "sans-serif\">\n<title>" +
           name + "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" + body_ + "</svg>\n";
}

double Svg::text_width(std::string_view words, double size) noexcept {
    return static_cast<double>(words.size()) * size * 0.62;
}

}  // namespace railyard::tools
