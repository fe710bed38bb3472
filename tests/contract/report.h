#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::contract {

/// What each broker answered to each question, beside what was expected.
class Report {
 public:
  struct Line {
    std::string what;
    std::string expected;
    std::map<std::string, std::string> got;  ///< By broker.
  };

  void Record(const std::string& broker, const std::string& section, const std::string& what,
              const std::string& expected, const std::string& got);
  /// "section: what: expected X, got Y" for each line where the broker contradicts.
  std::vector<std::string> Contradictions(const std::string& broker) const;
  std::size_t CountFor(const std::string& broker) const;
  /// All of it as text: a row for each question, a column for each broker; "=" is "as expected".
  std::string Table() const;

 private:
  Line& Find(const std::string& section, const std::string& what, const std::string& expected);

  std::vector<std::pair<std::string, std::vector<Line>>> sections_;
  std::vector<std::string> brokers_;
};

}  // namespace lockstep::contract
