// Elements of an SVG document, appended to a string.
#pragma once

#include <string>
#include <string_view>

namespace railyard::tools {

struct Rect {
    double x = 0, y = 0, width = 0, height = 0;
};

struct TextStyle {
    double size = 11;
    const char* fill = "#1e293b";
    bool bold = false;
    const char* anchor = "start";  ///< start, middle or end
};

class Svg {
  public:
    /// `attributes`: whatever else the element gets, written as in SVG.
    void rect(const Rect& box, double radius, std::string_view attributes, std::string_view tooltip = {});
    void line(double x1, double y1, double x2, double y2, std::string_view attributes);
    void text(double x, double y, std::string_view words, const TextStyle& style);
    /// The whole document.
    [[nodiscard]] std::string document(double width, double height, std::string_view title) const;

    /// Roughly what a line of text takes, in the units of the picture.
    [[nodiscard]] static double text_width(std::string_view words, double size) noexcept;

  private:
    std::string body_;
};

/// With &, <, >, quotes, control characters and bytes that are no UTF-8 made harmless.
[[nodiscard]] std::string escape_xml(std::string_view text);

}  // namespace railyard::tools
