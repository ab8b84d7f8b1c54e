// Columns of text.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace railyard::tools {

/// Columns as wide as their widest cell, two blanks between them.
class Table {
  public:
    explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

    [[nodiscard]] std::string text() const {
        std::vector<std::size_t> widths(rows_.front().size());
        for (const std::vector<std::string>& row : rows_) {
            for (std::size_t i = 0; i < row.size(); ++i)
                widths[i] = std::max(widths[i], row[i].size());
        }
        std::string text;
        for (const std::vector<std::string>& row : rows_) {
            std::string line = " ";
            for (std::size_t i = 0; i < row.size(); ++i)
                line += " " + row[i] + std::string(widths[i] + 1 - row[i].size(), ' ');
            text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
        }
        return text;
    }

  private:
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace railyard::tools
