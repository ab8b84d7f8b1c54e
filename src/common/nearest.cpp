#include "common/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace railyard {
namespace {

bool alike(char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

/// Levenshtein's distance, with neighbours swapped as one step.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
    std::iota(last.begin(), last.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t changed = last[j - 1] + (alike(a[i - 1], b[j - 1]) ? 0 : 1);
            row[j] = std::min({changed, last[j] + 1, row[j - 1] + 1});
            if (i > 1 && j > 1 && alike(a[i - 1], b[j - 2]) && alike(a[i - 2], b[j - 1]))
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
        std::swap(before, last);
        std::swap(last, row);
    }
    return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view wrong, const std::vector<std::string>& known) {
    std::string best;
    std::size_t least = wrong.size() / 3 + 1;
    for (const std::string& name : known) {
        const std::size_t steps = distance(wrong, name);
        if (steps >= least) continue;
        least = steps;
        best = name;
    }
    return best;
}

std::string guess(std::string_view wrong, const std::vector<std::string>& known) {
    const std::string name = nearest(wrong, known);
    return name.empty() ? "" : " (did you mean " + name + "?)";
}

}  // namespace railyard
