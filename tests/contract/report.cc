#include "report.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace lockstep::contract {

Report::Line& Report::Find(const std::string& section, const std::string& what,
                           const std::string& expected) {
  auto it = std::find_if(sections_.begin(), sections_.end(),
                         [&](const auto& entry) { return entry.first == section; });
  if (it == sections_.end()) it = sections_.insert(it, {section, {}});
  std::vector<Line>& lines = it->second;
  auto line = std::find_if(lines.begin(), lines.end(),
                           [&](const Line& l) { return l.what == what && l.expected == expected; });
  if (line == lines.end()) line = lines.insert(line, Line{what, expected, {}});
  return *line;
}

void Report::Record(const std::string& broker, const std::string& section, const std::string& what,
                    const std::string& expected, const std::string& got) {
  if (std::find(brokers_.begin(), brokers_.end(), broker) == brokers_.end()) {
    brokers_.push_back(broker);
  }
  Find(section, what, expected).got[broker] = got;
}

std::vector<std::string> Report::Contradictions(const std::string& broker) const {
  std::vector<std::string> found;
  for (const auto& [section, lines] : sections_) {
    for (const Line& line : lines) {
      const auto it = line.got.find(broker);
      if (it == line.got.end() || it->second == line.expected) continue;
      found.push_back(section + ": " + line.what + ": expected " + line.expected + ", got " +
                      it->second);
    }
  }
  return found;
}

std::size_t Report::CountFor(const std::string& broker) const {
  std::size_t count = 0;
  for (const auto& [section, lines] : sections_) {
    for (const Line& line : lines) count += line.got.count(broker);
  }
  return count;
}

std::string Report::Table() const {
  std::ostringstream out;
  for (const auto& [section, lines] : sections_) {
    std::size_t what_width = section.size();
    std::size_t expected_width = 8;
    for (const Line& line : lines) {
      what_width = std::max(what_width, line.what.size());
      expected_width = std::max(expected_width, line.expected.size());
    }
    out << '\n'
        << std::left << std::setw(static_cast<int>(what_width)) << section << "  "
        << std::setw(static_cast<int>(expected_width)) << "expected";
    for (const std::string& broker : brokers_) out << "  " << broker;
    out << '\n';
    for (const Line& line : lines) {
      out << std::setw(static_cast<int>(what_width)) << line.what << "  "
          << std::setw(static_cast<int>(expected_width)) << line.expected;
      for (const std::string& broker : brokers_) {
        const auto it = line.got.find(broker);
        const std::string cell = it == line.got.end()          ? "-"
                                 : it->second == line.expected ? "="
                                                               : it->second;
        out << "  " << std::setw(static_cast<int>(broker.size())) << cell;
      }
      out << '\n';
    }
  }
  return out.str();
}

}  // namespace lockstep::contract
