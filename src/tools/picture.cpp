#include <algorithm>
#include <array>

#include "common/spoken.h"
#include "tools/picture_groups.h"
#include "tools/reports.h"
#include "tools/svg.h"

namespace railyard::tools {
namespace {

// Sizes in the picture's units, which are pixels at its natural size.
constexpr double nic_width = 92, nic_height = 42, gpu_height = 40, gap = 10, trunk = 18, pad = 14,
                 margin = 28;
constexpr double panel_head = 64, row_limit = 1120;

/// Dark enough for white letters, and told apart by those who see fewer colours through lightness and the
/// labels.
constexpr std::array<const char*, 8> colours = {"#2563eb", "#c2410c", "#0f766e", "#9333ea",
                                                "#b91c1c", "#4d7c0f", "#0e7490", "#be185d"};
constexpr const char* ink = "#1e293b";
constexpr const char* grey = "#64748b";

const char* colour_of(std::size_t gpu) {
    return colours[gpu % colours.size()];
}

struct Size {
    double width = 0, height = 0;
};

double head_height(const PictureGroup& group) {
    return group.subtitle.empty() ? 40 : 46;
}

/// Lines that fit, broken at blanks.
std::vector<std::string> wrapped(const std::string& text, double size, double width) {
    std::vector<std::string> lines(1);
    std::size_t start = 0;
    while (start < text.size()) {
        const std::size_t end = std::min(text.find(' ', start), text.size());
        const std::string word = text.substr(start, end - start);
        if (!lines.back().empty() && Svg::text_width(lines.back() + " " + word, size) > width)
            lines.emplace_back();
        lines.back() += (lines.back().empty() ? "" : " ") + word;
        start = end + 1;
    }
    return lines;
}

class Painter {
  public:
    explicit Painter(const Survey& survey) : survey_(survey), contents_(picture_contents(survey)) {}

    std::string paint() {
        width_ = std::max(560.0, 2 * margin + widest_panel());
        double y = heading();
        for (const PicturePanel& panel : contents_.panels)
            y = draw_panel(panel, y) + 16;
        y = draw_placeless(y);
        y = legend(y + 8);
        return svg_.document(width_, y + margin / 2, survey_.title + ": who serves whom");
    }

  private:
    // Sizes.

    /// Of a GPU with its own NICs under it, or with a word about those elsewhere.
    static Size column(const PictureGpu& gpu) {
        const std::size_t own = gpu.own.size();
        const auto rows = static_cast<double>((own + 1) / 2);
        Size size{own > 1 ? 2 * nic_width + gap : nic_width + gap, gpu_height};
        if (own > 0) size.height += trunk + rows * nic_height + (rows - 1) * gap;
        if (!gpu.distant.empty()) {
            size.width = std::max(size.width, nic_width + 2 * gap);
            size.height += trunk + nic_height;
        }
        return size;
    }

    Size measure(const PictureGroup& group) const {
        Size gpus;
        for (const PictureGpu& gpu : group.gpus) {
            const Size one = column(gpu);
            gpus.width += one.width + (gpus.width > 0 ? gap : 0);
            gpus.height = std::max(gpus.height, one.height);
        }
        const auto count = static_cast<double>(group.nics.size());
        Size size{std::max(gpus.width, count * (nic_width + gap) - gap), gpus.height};
        if (count > 0) size.height += nic_height + (gpus.height > 0 ? 1.6 * trunk : 0);
        for (const PictureGroup& inner : group.groups) {
            const Size one = measure(inner);
            size.width += one.width + (size.width > 0 ? gap : 0);
            size.height = std::max(size.height, one.height);
        }
        const double words = std::max(Svg::text_width(group.title, 12), Svg::text_width(group.subtitle, 10));
        return {std::max(size.width, words) + 2 * pad, size.height + head_height(group) + pad};
    }

    /// Width of a panel whose groups break into rows at the limit.
    double widest_panel() const {
        double widest = 0;
        for (const PicturePanel& panel : contents_.panels) {
            double row = 0;
            for (const PictureGroup& group : panel.groups) {
                const double one = measure(group).width;
                if (row > 0 && row + gap + one > row_limit) row = 0;
                row += one + (row > 0 ? gap : 0);
                widest = std::max(widest, row);
            }
        }
        return widest + 2 * pad;
    }

    // Parts.

    double heading() {
        double sum = 0;
        for (const PictureNic& nic : contents_.nics)
            sum += survey_.rails[nic.rail].gbps;
        std::string words =
            counted(survey_.machine.gpus.size(), "GPU") + "  ·  " + counted(survey_.rails.size(), "rail");
        if (sum > 0) words += "  ·  " + gbps_text(sum) + " Gbit/s";
        words += "  ·  " + counted(survey_.machine.numa.size(), "NUMA node");
        svg_.text(margin, 44, survey_.title, {26, ink, true});
        svg_.text(margin, 66, words, {13, grey});
        return 84;
    }

    double draw_panel(const PicturePanel& panel, double top) {
        std::vector<Rect> places;
        double x = margin + pad;
        double y = top + (panel.nodes.empty() ? panel_head - 26 : panel_head);
        double row = 0;
        for (const PictureGroup& group : panel.groups) {
            const Size size = measure(group);
            if (x > margin + pad && x + size.width > width_ - margin - pad) {
                x = margin + pad;
                y += row + gap;
                row = 0;
            }
            places.push_back({x, y, size.width, size.height});
            x += size.width + gap;
            row = std::max(row, size.height);
        }
        const double bottom = y + row + (panel.groups.empty() ? 0 : pad);
        svg_.rect({margin, top, width_ - 2 * margin, bottom - top}, 12, R"(fill="#f8fafc" stroke="#cbd5e1")");
        svg_.text(margin + pad, top + 24, panel.title, {14, ink, true});
        draw_nodes(panel, top + 34);
        for (std::size_t i = 0; i < places.size(); ++i)
            draw_group(panel.groups[i], places[i], row);
        return bottom;
    }

    /// A line for the memory of the panel: how much, and who carries it.
    void draw_nodes(const PicturePanel& panel, double y) {
        double x = margin + pad;
        for (const topology::NumaNode& node : panel.nodes) {
            tag(x, y + 2, node.node);
            const auto carriers =
                std::count_if(contents_.nics.begin(), contents_.nics.end(), [&](const PictureNic& nic) {
                    return std::find(nic.nodes.begin(), nic.nodes.end(), node.node) != nic.nodes.end();
                });
            const std::string at_once = nics_at_once(node.node);
            std::string words =
                "NUMA node " + std::to_string(node.node) + ", " + std::to_string(node.memory >> 30) + " GiB";
            if (carriers > 0)
                words += "  ·  host memory over " + at_once +
                         counted(static_cast<std::size_t>(carriers), "NIC") +
                         (at_once.empty() ? "" : ", in turn");
            svg_.text(x + 32, y + 13, words, {12, grey});
            x += 32 + Svg::text_width(words, 12) + 3 * pad;
        }
    }

    /// "4 of ", where that many carry a range, and others the next one; else nothing.
    std::string nics_at_once(int node) const {
        const topology::RailWindows& windows = survey_.map.by_numa[static_cast<std::size_t>(node)];
        if (windows.size() < 2) return "";
        const std::vector<std::size_t>& first = windows.front();
        const auto nics = std::count_if(
            contents_.nics.begin(), contents_.nics.end(),
            [&](const PictureNic& nic) { return std::binary_search(first.begin(), first.end(), nic.rail); });
        return std::to_string(nics) + " of ";
    }

    void tag(double x, double y, int node) {
        svg_.rect({x, y, 24, 14}, 7, "fill=\"#334155\"", "host memory of NUMA node " + std::to_string(node));
        svg_.text(x + 12, y + 10.5, "M" + std::to_string(node), {9, "#ffffff", true, "middle"});
    }

    void draw_group(const PictureGroup& group, const Rect& box, double row_height) {
        const Rect card{box.x, box.y, box.width, row_height > 0 ? row_height : box.height};
        svg_.rect(card, 8, R"(fill="#ffffff" stroke="#e2e8f0")");
        svg_.text(box.x + pad, box.y + 20, group.title, {12, ink, true});
        svg_.text(box.x + pad, box.y + 35, group.subtitle, {10, grey});
        double width = 0;
        double height = 0;
        for (const PictureGpu& gpu : group.gpus) {
            width += column(gpu).width + (width > 0 ? gap : 0);
            height = std::max(height, column(gpu).height);
        }
        const auto count = static_cast<double>(group.nics.size());
        const double nics = count * (nic_width + gap) - gap;
        const double span = group.groups.empty() ? box.width - 2 * pad : std::max(width, nics);
        const double top = box.y + head_height(group);
        const double shared_top = top + height + (height > 0 ? 1.6 * trunk : 0);
        double x = box.x + pad + (span - width) / 2;
        double nic_x = box.x + pad + (span - nics) / 2;
        if (count > 0) draw_shared_lines(group, {x, top, nic_x, shared_top});
        for (const PictureGpu& gpu : group.gpus) {
            draw_column(gpu, x, top);
            x += column(gpu).width + gap;
        }
        for (const std::size_t nic : group.nics) {
            draw_nic(nic, nic_x, shared_top);
            nic_x += nic_width + gap;
        }
        x = box.x + pad + (span > 0 ? span + gap : 0);
        for (const PictureGroup& inner : group.groups) {
            const Size size = measure(inner);
            draw_group(inner, {x, top - 6, size.width, size.height}, 0);
            x += size.width + gap;
        }
    }

    /// From each GPU of a group to each NIC that it shares, over one level in between. `at`: left end of the
    /// GPUs and their top, left end of the NICs (as width) and their top (as height).
    void draw_shared_lines(const PictureGroup& group, const Rect& at) {
        double gpu_x = at.x;
        for (const PictureGpu& gpu : group.gpus) {
            const Size size = column(gpu);
            const double middle = gpu_x + size.width / 2;
            double nic_x = at.width + nic_width / 2;
            for (const std::size_t nic : group.nics) {
                if (std::find(contents_.nics[nic].gpus.begin(), contents_.nics[nic].gpus.end(), gpu.gpu) !=
                    contents_.nics[nic].gpus.end()) {
                    constexpr const char* common =
                        R"(stroke="#94a3b8" stroke-width="2" stroke-linecap="round")";
                    const double level = at.height - trunk * 0.8;
                    svg_.line(middle, level, nic_x, level, common);
                    svg_.line(nic_x, level, nic_x, at.height, common);
                    svg_.line(middle, at.y + gpu_height, middle, level, stroke(gpu.gpu));
                }
                nic_x += nic_width + gap;
            }
            gpu_x += size.width + gap;
        }
    }

    static std::string stroke(std::size_t gpu) {
        return std::string("stroke=\"") + colour_of(gpu) + "\" stroke-width=\"2\" stroke-linecap=\"round\"";
    }

    void draw_column(const PictureGpu& gpu, double x, double y) {
        const Size size = column(gpu);
        const topology::GpuDesc& desc = survey_.machine.gpus[gpu.gpu];
        const double middle = x + size.width / 2;
        double top = y + gpu_height + trunk;
        for (std::size_t i = 0; i < gpu.own.size(); ++i) {
            const bool alone = gpu.own.size() == 1;
            const bool left = i % 2 == 0;
            const double nic_y = top + static_cast<double>(i / 2) * (nic_height + gap);
            const double nic_x = alone ? middle - nic_width / 2 : left ? x : x + nic_width + gap;
            svg_.line(middle, y + gpu_height, middle, alone ? nic_y : nic_y + nic_height / 2,
                      stroke(gpu.gpu));
            if (!alone)
                svg_.line(middle, nic_y + nic_height / 2, left ? middle - gap / 2 : middle + gap / 2,
                          nic_y + nic_height / 2, stroke(gpu.gpu));
            draw_nic(gpu.own[i], nic_x, nic_y);
        }
        if (!gpu.own.empty())
            top += static_cast<double>((gpu.own.size() + 1) / 2) * (nic_height + gap) - gap + trunk;
        if (!gpu.distant.empty()) draw_distant(gpu, {x, top, size.width, nic_height});
        svg_.rect({x, y, size.width, gpu_height}, 6, std::string("fill=\"") + colour_of(gpu.gpu) + "\"",
                  "GPU " + std::to_string(gpu.gpu) + ", " + to_string(desc.pci) + ": " +
                      survey_.map.gpu_reasons[gpu.gpu]);
        svg_.text(middle, y + 18, "GPU " + std::to_string(gpu.gpu), {13, "#ffffff", true, "middle"});
        svg_.text(middle, y + 32, to_string(desc.pci), {10, "#ffffff", false, "middle"});
    }

    /// A word, in place of lines across the whole picture, for NICs in other groups.
    void draw_distant(const PictureGpu& gpu, const Rect& box) {
        const double middle = box.x + box.width / 2;
        svg_.line(middle, box.y - trunk, middle, box.y, stroke(gpu.gpu) + " stroke-dasharray=\"3 4\"");
        svg_.rect(box, 6,
                  std::string("fill=\"#ffffff\" stroke-width=\"1.5\" stroke-dasharray=\"4 3\" stroke=\"") +
                      colour_of(gpu.gpu) + "\"");
        const std::size_t count = gpu.distant.size();
        const RailRow& first = survey_.rails[contents_.nics[gpu.distant.front()].rail];
        const std::string where =
            first.numa == topology::unknown_numa ? "elsewhere" : "NUMA node " + std::to_string(first.numa);
        svg_.text(middle, box.y + 18, count == 1 ? "→ " + first.name : "→ " + std::to_string(count) + " NICs",
                  {11, ink, true, "middle"});
        svg_.text(middle, box.y + 32, where, {10, grey, false, "middle"});
    }

    void draw_nic(std::size_t index, double x, double y) {
        const PictureNic& nic = contents_.nics[index];
        const RailRow& rail = survey_.rails[nic.rail];
        const bool single = nic.gpus.size() == 1;
        const char* border = single ? colour_of(nic.gpus.front()) : "#94a3b8";
        svg_.rect({x, y, nic_width, nic_height}, 5,
                  std::string("fill=\"#ffffff\" stroke-width=\"1.5\" stroke=\"") + border + "\"",
                  rail.name + ", " + to_string(*rail.pci) + ", " + gbps_text(rail.gbps) + " Gbit/s");
        const double strip = (nic_width - 8) / static_cast<double>(std::max<std::size_t>(nic.gpus.size(), 1));
        for (std::size_t i = 0; i < nic.gpus.size(); ++i)
            svg_.rect({x + 4 + static_cast<double>(i) * strip, y + nic_height - 6, strip, 3}, 0,
                      std::string("fill=\"") + colour_of(nic.gpus[i]) + "\"");
        svg_.text(x + nic_width / 2, y + 17, rail.name, {11, ink, true, "middle"});
        std::string words =
            to_string(*rail.pci).substr(to_string(*rail.pci).size() - 7) + " · " + gbps_text(rail.gbps) + "G";
        if (nic.rails > 1) words += " ×" + std::to_string(nic.rails);
        svg_.text(x + nic_width / 2, y + 30, words, {9.5, grey, false, "middle"});
        double tag_x = x - 4;
        for (const int node : nic.nodes) {
            tag(tag_x, y - 9, node);
            tag_x += 26;
        }
    }

    double draw_placeless(double y) {
        if (contents_.placeless.empty()) return y;
        svg_.rect({margin, y, width_ - 2 * margin, 88}, 12, R"(fill="#f8fafc" stroke="#cbd5e1")");
        svg_.text(margin + pad, y + 24, "Rails without a place in the PCI tree: each carries all memory",
                  {14, ink, true});
        double x = margin + pad;
        for (const std::size_t index : contents_.placeless) {
            const RailRow& rail = survey_.rails[index];
            const double width = std::max(nic_width, Svg::text_width(rail.name, 11) + 2 * gap);
            if (x + width > width_ - margin - pad) break;
            svg_.rect({x, y + 36, width, nic_height - 4}, 5,
                      R"(fill="#ffffff" stroke="#94a3b8" stroke-width="1.5")");
            svg_.text(x + width / 2, y + 52, rail.name, {11, ink, true, "middle"});
            svg_.text(x + width / 2, y + 66, spoken_provider(rail.provider), {9.5, grey, false, "middle"});
            x += width + gap;
        }
        return y + 104;
    }

    double legend(double y) {
        std::string words;
        for (const PictureNic& nic : contents_.nics) {
            if (words.empty() && !nic.gpus.empty())
                words = "A GPU's memory travels over the NICs of its colour.";
            if (nic.gpus.size() < 2) continue;
            words += " Several GPUs share a NIC that has several colours.";
            break;
        }
        if (!contents_.nics.empty() && !survey_.machine.numa.empty()) {
            tag(margin, y - 2, survey_.machine.numa.front().node);
            svg_.text(margin + 32, y + 9, "carries host memory of that NUMA node", {11, grey});
            y += 18;
        }
        if (!words.empty()) y = paragraph(words, y);
        for (const std::string& note : survey_.map.notes)
            y = paragraph("Note: " + note + ".", y);
        return y;
    }

    double paragraph(const std::string& words, double y) {
        for (const std::string& line : wrapped(words, 11, width_ - 2 * margin)) {
            svg_.text(margin, y + 9, line, {11, grey});
            y += 16;
        }
        return y + 2;
    }

    const Survey& survey_;
    const PictureContents contents_;
    Svg svg_;
    double width_ = 0;
};

}  // namespace

std::string picture(const Survey& survey) {
    return Painter(survey).paint();
}

}  // namespace railyard::tools
